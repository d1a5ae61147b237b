"""Ten thousand random workflows, run under random schedules, then replayed from every prefix of their history.

The planted defects at the end show that these tests can fail.
"""

import random
import uuid
from dataclasses import dataclass, field

import pytest

from fencepost.core.asks import Completion, Held, Raised, Recorded, Returned, Withdrawn
from fencepost.core.branch import Outcome
from fencepost.core.driver import Driver
from fencepost.core.errors import ErrorRecord
from tests.core.driver_play import Bound, Run, as_recorded
from tests.core.driver_programs import Failure, Generator, described, execute, expected

SEED = 20
PROGRAMS = 10_000
CHUNK = 1_000
COMPLETIONS_MAX = 30
FAILURES = 0.07


class ProgramRun(Run):
    """The facade of a program: one method for each of its steps."""

    def step(self, step):
        call = Bound(step.tag)
        match step.kind:
            case "wait":
                return self.driver.wait(step.name, call)
            case "child":
                return self.driver.child(step.name, call)
            case "sleep":
                return self.driver.sleep(int(step.tag[1:]))
            case "compensate":
                return self.driver.compensate(step.tag, call.decode)
            case kind:
                return self.driver.do(kind, step.name, step.item, call)


@dataclass
class Life:
    """One run of a program in memory, and what can be seen of it after each advance; it leaves memory at the end."""

    driver: Driver
    trace: list = field(default_factory=list)
    seen: list = field(default_factory=list)

    @classmethod
    def of(cls, program, *, recorded=None, driver_class=Driver):
        trace = []
        driver = driver_class(
            lambda run, _: execute(run, program, trace),
            None,
            run_id="run-1",
            started_at=0,
            facade=ProgramRun,
            recorded=recorded,
        )
        life = cls(driver, trace)
        life.note(driver.start())
        return life

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.driver.close()

    def deliver(self, completion):
        self.note(self.driver.deliver(completion))

    def note(self, moves):
        self.seen.append((moves, tuple(self.trace), shape(self.driver.ending), self.driver.delivered))

    @property
    def moves(self):
        return self.seen[-1][0]


def shape(ending):
    match ending:
        case Raised(error, delivered):
            return ("raised", described(error), delivered)
        case Held(error):
            return ("held", str(error))
        case _:
            return ending


# -- live: a random schedule --------------------------------------------------------------------------------------


def live(life, rng, *, outcomes=None, cancels=True):
    """Complete what a life waits for in random order, and check each advance; the history."""
    history, waiting, now = [], {}, 0
    cancel_at = rng.randint(0, 12) if cancels and rng.random() < 0.3 else None
    check_advance(life, waiting, history)
    while life.driver.ending is None and len(history) < COMPLETIONS_MAX:
        now += rng.randint(0, 50)
        if len(history) == cancel_at:
            completion = Completion("cancel", "enough", None, now)
        else:
            ask = waiting.pop(rng.choice(list(waiting)))
            completion = answer(ask, now, *(outcomes(ask) if outcomes else (ask.position, rng.random() < FAILURES)))
        history.append(completion)
        life.deliver(completion)
        check_advance(life, waiting, history)
    return history


def answer(ask, now, value, is_failed):
    if is_failed:
        return Completion(ask.position, None, ErrorRecord("shop.Refused", value), now)
    return Completion(ask.position, value, None, now)


def check_advance(life, waiting, history):
    """What holds of each advance of each program, whatever it does."""
    driver = life.driver
    for move in life.moves:
        if isinstance(move, Withdrawn):
            assert waiting.pop(move.position, None) is not None, "only what is waited for can be withdrawn"
        else:
            assert move.position not in waiting, "one position is asked for once"
            assert not driver.cancelled or move.kind in {"read", "compensate"}
            waiting[move.position] = move
    if isinstance(driver.ending, Held):
        assert life.moves == []
        return
    assert driver.delivered == len(history)
    assert {ask.position for ask in driver.waiting()} == set(waiting)
    assert (driver.ending is None) == bool(waiting), "a run waits for something, or has ended"


# -- replay -------------------------------------------------------------------------------------------------------


def in_order(life, completions):
    for completion in completions:
        life.deliver(completion)


def check_replays(program, first, history, *, driver_class=Driver, replay=in_order):
    """From each prefix of the history: the same moves up to there, nothing missed, and the same when it goes on."""
    recorded: dict[str, Recorded] = {}
    for length in range(len(history) + 1):
        recorded |= {ask.position: as_recorded(ask) for ask in first.seen[length][0] if not isinstance(ask, Withdrawn)}
        with Life.of(program, recorded=recorded, driver_class=driver_class) as life:
            replay(life, history[:length])
            assert life.seen == first.seen[: length + 1]
            assert isinstance(life.driver.ending, Held) or life.driver.unasked() == {}
            in_order(life, history[length:])
            assert life.seen == first.seen


def check_program(number, **planted):
    """Generate, run and replay one program. Raises AssertionError with all that is needed to run it again."""
    rng = random.Random(f"{SEED}:{number}")
    program = Generator(rng).program()
    try:
        with Life.of(program, driver_class=planted.get("driver_class", Driver)) as first:
            history = live(first, rng)
            check_replays(program, first, history, **planted)
    except AssertionError as error:
        error.add_note(f"seed {SEED}, program {number}: {program}")
        raise
    return first


@pytest.mark.parametrize("start", range(0, PROGRAMS, CHUNK))
def test_generated_workflows_replay_from_every_prefix_with_identical_moves_and_ending(start):
    for number in range(start, start + CHUNK):
        check_program(number)


def test_the_generated_workflows_reach_each_kind_of_ending_and_move():
    endings, kinds = {}, {}
    for number in range(CHUNK):
        life = check_program(number)
        ending = type(life.driver.ending).__name__
        endings[ending] = endings.get(ending, 0) + 1
        for moves, *_ in life.seen:
            for move in moves:
                kind = getattr(move, "kind", "withdrawn")
                kinds[kind] = kinds.get(kind, 0) + 1
    assert min(endings[name] for name in ("Returned", "Raised", "Cancelled_", "Held")) > 10, endings
    every = {"effect", "model", "read", "compute", "wait", "child", "sleep", "compensate", "withdrawn"}
    assert set(kinds) == every
    assert min(kinds.values()) > 100, kinds


# -- order must not matter ----------------------------------------------------------------------------------------


def check_order_is_free(number, driver_class=Driver):
    """A program without race and cancel, under two schedules: the oracle's result, and the same positions."""
    rng = random.Random(f"{SEED}:plain:{number}")
    program = Generator(rng, is_plain=True).program()
    where = f"seed {SEED}, plain program {number}: {program}"
    salt = rng.random()

    def outcome(tag):
        return f"value of {tag}", random.Random(f"{salt}:{tag}").random() < FAILURES

    def of_ask(ask):
        return outcome(f"t{ask.duration}" if ask.kind == "sleep" else tag_of(ask))

    try:
        wanted = ("Returned", expected(program, lambda step: outcome(step.tag)))
    except Failure as failure:
        wanted = ("Raised", failure.described())
    stands_for: dict[str, str] = {}
    for _ in range(2):
        with Life.of(program, driver_class=driver_class) as life:
            history = live(life, rng, outcomes=of_ask, cancels=False)
        if len(history) < COMPLETIONS_MAX:
            assert result(life.driver.ending) == wanted, where
        for ask in (ask for moves, *_ in life.seen for ask in moves):
            assert stands_for.setdefault(ask.position, ask.fingerprint) == ask.fingerprint, where


def tag_of(ask):
    return ask.reason if ask.kind == "compensate" else ask.fingerprint.removeprefix("digest of ")


def result(ending):
    if isinstance(ending, Returned):
        return ("Returned", ending.value)
    return (type(ending).__name__, described(ending.error))


def test_without_races_neither_result_nor_positions_depend_on_the_order_of_completions():
    for number in range(2_000):
        check_order_is_free(number)


# -- planted defects ----------------------------------------------------------------------------------------------


def in_dict_order(life, completions):
    """Deliver a history that was kept as a dict by position, and read back in the order of its keys."""
    kept = {completion.position: completion for completion in completions}
    for position in sorted(kept):
        life.deliver(kept[position])


class WinnerDecidedAnew(Driver):
    """Each life decides for itself which branch of a race to wait for."""

    def _settle(self, branch, outcome):
        group = branch.group
        self.chance = getattr(self, "chance", None) or random.Random()
        if group is not None and group.is_race and group.left > 1 and self.chance.random() < 0.5:
            group.outcomes[branch.index] = outcome
            group.left -= 1
        else:
            super()._settle(branch, outcome)


class PositionsByCompletion(Driver):
    """Occurrences are counted per run, so that who completes first gets the lower number."""

    def _ask(self, branch, pending):
        self.counts = getattr(self, "counts", {})
        branch.counts = self.counts
        branch.path = "/"
        super()._ask(branch, pending)


class ClockOfTheMachine(Driver):
    """`now` is whatever a clock says."""

    ticks = 0

    def now(self):
        ClockOfTheMachine.ticks += 1
        return super().now() + ClockOfTheMachine.ticks


class IdsOfTheMachine(Driver):
    """`uuid` is a random one."""

    def uuid(self):
        return uuid.uuid4()


class CancelNotRecorded(Driver):
    """A life that replays the history does not know that the run was cancelled."""

    def __init__(self, *args, recorded=None, **named):
        super().__init__(*args, recorded=recorded, **named)
        self.is_replay = recorded is not None

    def _cancel_run(self, completion):
        if not self.is_replay:
            super()._cancel_run(completion)


class LosersStayAsked(Driver):
    """What the losers of a race waited for is not withdrawn."""

    def _withdraw(self, branch, point):
        branch.at = None
        point.branches.remove(branch)


class AskedTwice(Driver):
    """An effect that is met again while it is in flight is asked for again."""

    def _ask_again(self, branch, ask, point):
        super()._ask_again(branch, ask, point)
        self._moves[ask.position] = ask


class FirstErrorEndsAll(Driver):
    """A gather goes on as soon as one branch failed, as many libraries do."""

    def _settle(self, branch, outcome):
        super()._settle(branch, outcome)
        group = branch.group
        if group is not None and not group.is_race and outcome.error is not None and group.left:
            for other in group.living():
                group.outcomes[other.index] = Outcome(None, None)
            group.left = 0
            self._resume(group.owner, error=outcome.error)


def is_caught(check):
    """Whether one of the programs shows the defect."""
    for number in range(CHUNK):
        try:
            check(number)
        except AssertionError:
            return True
    return False


@pytest.mark.parametrize(
    "defect",
    [
        pytest.param({"replay": in_dict_order}, id="history in dict order"),
        *(
            pytest.param({"driver_class": driver_class}, id=driver_class.__name__)
            for driver_class in (
                *(WinnerDecidedAnew, ClockOfTheMachine, IdsOfTheMachine, CancelNotRecorded),
                *(LosersStayAsked, AskedTwice),
            )
        ),
    ],
)
def test_a_planted_defect_is_caught_by_replay(defect):
    assert is_caught(lambda number: check_program(number, **defect))


@pytest.mark.parametrize("driver_class", [PositionsByCompletion, FirstErrorEndsAll])
def test_a_planted_defect_is_caught_by_comparing_schedules(driver_class):
    assert is_caught(lambda number: check_order_is_free(number, driver_class))
