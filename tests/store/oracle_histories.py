"""Random histories of a ledger: several owners, current and stale, on two stores of it and on the oracle at once.

A history is drawn from its seed alone. After each step the answers and everything visible are compared; what differs
is raised as `Objection` with the seed and the steps that led there. What is right is the `oracle`'s matter.
"""

import random
from collections.abc import Callable
from copy import deepcopy
from dataclasses import asdict
from itertools import product
from typing import Any

from fencepost.core.errors import LeaseLost, StoreUnavailable, ValueRefused
from fencepost.core.records import Run
from fencepost.core.transitions import IllegalTransition
from fencepost.store.api import Answer, Group, Store
from fencepost.store.journal import Journal
from fencepost.store.moves import DispatchOperation
from tests.store import build, oracle_moves
from tests.store.blank import Blanks, Clock
from tests.store.oracle import Oracle
from tests.store.oracle_rules import Facts

LEASES = ("lease-1", "lease-2", "lease-3")
MARGIN = build.SECOND
STEPS_MAX = 25


class Objection(AssertionError):
    """The store and the oracle disagree."""


class History:
    """One random history, played on the stores and the oracle side by side."""

    def __init__(self, seed: int | str, stores: list[Store], clock: Clock) -> None:
        self.draw = random.Random(f"ledger:{seed}")
        self.seed = seed
        self.stores = stores
        self.clock = clock
        self.oracle = Oracle()
        self.steps: list[str] = []
        self.lone: set[str] = set()  # the kinds of move that came alone, stale, and right in all else
        self.answers: set[str] = set()
        self._names = 0

    def play(self) -> None:
        """Play to the end; raises `Objection`, whatever shape the disagreement takes."""
        try:
            for name in LEASES[:2]:
                self.take_lease(name)
            self.start_run()
            for _ in range(self.draw.randint(5, STEPS_MAX)):
                self.clock.now += self.draw.choice((1, 1_000, build.SECOND, build.SECOND, -build.SECOND))
                self.draw.choices([step for step, _ in STEPS], [weight for _, weight in STEPS])[0](self)
                self.compare()
        except Exception as error:
            raise Objection(f"history {self.seed!r}: {error}\n" + "\n".join(self.steps[-4:])) from error

    @property
    def store(self) -> Store:
        """Either store: what one wrote, the other sees."""
        return self.draw.choice(self.stores)

    def note(self, *what: Any) -> None:
        self.steps.append(" ".join(str(part) for part in what))

    def some_run(self) -> int:
        return self.draw.choice(list(self.oracle.books))

    def record(self, no: int) -> Run:
        """The oracle's run, in the shape in which `build` takes it."""
        run = Run(**self.oracle.visible_run(no))
        run.state = oracle_moves.RUN_STATES[str(run.state)]
        return run

    def a_name(self) -> str:
        self._names += 1
        return f"n{self._names}"

    # -- comparing ------------------------------------------------------------------------------------------------

    def compare(self) -> None:
        """Everything that is visible, of every run."""
        self.oracle.number(self._number_of)
        for no in self.oracle.books:
            found, wanted = seen(self.store.load(no)), self.oracle.visible(no)
            for part in wanted:
                assert found[part] == wanted[part], (
                    f"run {no}: {part}: the store has {differences(found, wanted, part)}"
                )
        store = self.store
        assert [asdict(lease) for lease in store.leases()] == self.oracle.visible_leases()
        assert [(row.verb, row.run_id) for row in store.audits(None, None)] == self.oracle.audits
        name = self.draw.choice(LEASES)
        assert store.signalled(name) == self.oracle.signalled(name)
        wake = store.next_wake(build.WORKFLOWS, namespace="default", margin=MARGIN)
        assert wake == self.oracle.next_wake(MARGIN), "next wake"

    def _number_of(self, name: str, turn: int) -> int:
        found = self.store.turn("default", name, turn)
        assert found is not None, f"{name} has begun"
        return found.no

    # -- steps: leases and runs -----------------------------------------------------------------------------------

    def take_lease(self, name: str | None = None) -> None:
        free = [name for name in LEASES if name not in self.oracle.leases]
        name = name or (free[0] if free else self.a_name())
        lease = build.lease(name, at=self.clock.now, ttl=self.draw.choice((2, 10, 60)) * build.SECOND)
        self.note("take", lease)
        self.store.take_lease(lease)
        self.oracle.take_lease(lease)

    def renew_or_end(self) -> None:
        name, now = self.draw.choice(list(self.oracle.leases)), self.clock.now
        if self.draw.random() < 0.6:
            self.note("renew", name)
            assert self.store.renew_lease(name, now=now, expires_at=now + 5) == self.oracle.renew_lease(
                name, now, now + 5
            )
        else:
            self.note("end", name)
            assert self.store.end_lease(name, now=now) == self.oracle.end_lease(name, now)

    def start_run(self) -> None:
        name = self.draw.choice(("run-1", "run-2", "run-3"))
        lease = self.draw.choice((None, *self.oracle.leases))
        wake_at, resource = self.clock.now + self.draw.choice((0, 5)), self.draw.choice((None, None, "account"))
        new = build.new_run(name, lease=lease, wake_at=wake_at, at=self.clock.now, resource=resource)
        self.note("start", new)
        run, is_new = self.store.start_run(new)
        no, is_new_there = self.oracle.start_run(new)
        self.oracle.number(self._number_of)
        assert (run.no, is_new) == (run.no if is_new else no, is_new_there)
        assert asdict(run) == self.oracle.visible_run(run.no)

    def claim(self) -> None:
        self.clock.now += self.draw.choice((0, 0, 3, 12)) * build.SECOND
        name, limit, now = self.draw.choice(list(self.oracle.leases)), self.draw.choice((1, 10, 10)), self.clock.now
        self.note("claim", name, limit, now)
        try:
            runs = self.store.claim(name, build.WORKFLOWS, namespace="default", now=now, margin=MARGIN, limit=limit)
        except LeaseLost:
            self.oracle.claim(name, now, MARGIN, limit, None)
            return
        self.oracle.claim(name, now, MARGIN, limit, [run.no for run in runs])
        assert [asdict(run) for run in runs] == [self.oracle.visible_run(run.no) for run in runs]

    def claim_of_yesterday(self) -> None:
        """What a claim reads under the write lock, read too early: the statements' own guards must refuse it.

        `claim` never hands them anything stale, so that they are driven by hand here.
        """
        no, store, now = self.some_run(), self.store, self.clock.now
        book, lease = self.oracle.books[no], self.draw.choice(list(self.oracle.leases))
        right = book["generation"]
        stale = self.draw.choice([number for number in range(right + 2) if number != right])
        self.note("claim as of", no, stale)
        with store._writing() as work:
            claims = [(stale, book["state"]), (right, "ready" if book["state"] != "ready" else "waiting")]
            for generation, state in claims:
                values = {"run": no, "generation": generation, "expected": state, "lease": lease, "now": now}
                counted = {"takeovers": 1, "answers": 0}
                assert work.change("claim_run", **values, **counted) == 0, "a claim of what is over"
            assert work.change("take_over_operations", run=no, generation=stale, now=now) == 0, "and its operations"

    # -- steps: signals and decisions -----------------------------------------------------------------------------

    def signal(self) -> None:
        no = self.some_run()
        sent = build.signal(self.draw.choice(("s1", "s2", "s3")), self.draw.choice(("decision", "other")))
        self.note("signal", no, sent)
        got = self.store.signal("default", self.oracle.books[no]["id"], sent)
        assert asdict(got) == self.oracle.signal(no, sent, self.clock.now)

    def decide(self) -> None:
        """A person's verb: moves under the write lock, at times under a generation that it raised itself."""
        no, verb = self.some_run(), self.a_name()
        scratch = deepcopy(self.oracle)
        moves = []
        for _ in range(self.draw.randint(1, 3)):
            move = self.right_move(scratch, no, inserts=False)
            if move is not None and scratch.attempt(no, [move]) == "moved":
                moves.append(move)
        if moves and self.draw.random() < 0.2:
            moves.append(moves[-1]._replace(generation=moves[-1].generation - 1))
        observed = [build.seen(self.record(no), step="nowhere")] * self.draw.randint(0, 1)
        row = build.audit(verb, run_id=self.oracle.books[no]["id"])
        self.note("decide", no, moves)
        try:
            after = self.store.decide(no, lambda history, now: (moves, observed, [row]))
        except IllegalTransition:
            assert self.oracle.decide(no, moves, observed, verb) == "illegal"
            return
        except StoreUnavailable:
            assert self.oracle.decide(no, moves, observed, verb) == "evidence"
            return
        assert self.oracle.decide(no, moves, observed, verb) == "moved"
        assert seen(after) == self.oracle.visible(no)

    # -- steps: groups --------------------------------------------------------------------------------------------

    def batch(self) -> None:
        """A commit of several groups, of owners who are right, stale, or wrong about a row."""
        scratch = deepcopy(self.oracle)
        groups = []
        for _ in range(self.draw.choice((1, 1, 2, 3))):
            group = self.group(scratch)
            scratch.commit([group])
            groups.append(group)
        self.submit(groups)

    def lone_stale_move(self) -> None:
        """One move with everything right but the generation: only the move's own guard can refuse it."""
        no, move = self.fitting_move(list(oracle_moves.RIGHT))
        generation = self.draw.choice([number for number in range(move.generation + 2) if number != move.generation])
        self.lone.add(type(move).__name__)
        self.submit([Group(no, generation, [move._replace(generation=generation)])])

    def lone_move_from_another_state(self) -> None:
        """One move with everything right but the state that it expects."""
        no, move = self.fitting_move(list(oracle_moves.OTHER_STATES))
        self.submit([Group(no, move.generation, [oracle_moves.from_another_state(self.draw, move)])])

    def another_attempt(self) -> None:
        """An operation whose first attempt was lost is dispatched again; its second attempt may come later."""
        no = self.some_run()
        lost = oracle_moves.places(self.oracle.books[no], "dispatched")
        if not lost:
            return
        run, (step, item) = self.record(no), self.draw.choice(lost)
        number = self.oracle.books[no]["operations"][step, item]["count"] + 1
        moves = [
            build.move_operation(run, "lose", "dispatched", "unknown", step, item=item),
            build.dispatch_again(run, "unknown", number, step, item=item),
            build.new_attempt(run, step, number, item=item),
        ]
        self.submit([Group(no, run.generation, moves[: self.draw.choice((2, 3))])])

    def another_turn(self) -> None:
        """A run continues: its turn ends and the next one begins, both or neither; some misses in one place."""
        run = self.record(self.some_run())
        ends = build.move_run(run, "continue", "continued", expected="running", keep_lease=0, at=self.clock.now)
        begins = build.next_turn(run, lease=self.draw.choice((None, "lease-1", "lease-2")), at=self.clock.now)
        wrong = self.draw.choice((None, None, "generation", "state"))
        if wrong == "generation":
            begins = begins._replace(generation=run.generation + 1)
        self.submit([Group(run.no, run.generation, [begins] if wrong == "state" else [ends, begins])])

    def fitting_move(self, kinds: list[str]) -> tuple[int, Any]:
        """Some run, and a move of one of these kinds that it would take. A run can always be observed to move."""
        # Those that need a row of another kind first are rare otherwise.
        kinds.sort(key=lambda kind: self.draw.random() * (0.15 if kind in RAREST else 1 if kind in RARE else 3))
        runs = self.draw.sample(sorted(self.oracle.books), len(self.oracle.books))
        for kind, no in product([*kinds, "OpenStep"], runs):
            move = self.right_move(self.oracle, no, kind)
            if move is not None and deepcopy(self.oracle).attempt(no, [move]) == "moved":
                return no, move
        raise AssertionError("every run takes a new step")

    def group(self, scratch: Oracle) -> Group:
        no = self.some_run()
        generation = scratch.books[no]["generation"]
        world, moves = deepcopy(scratch), []
        for _ in range(self.draw.choice((0, 1, 1, 2, 3, 4))):
            # What is dispatched again mostly has its attempt in the same group.
            begun = bool(moves) and isinstance(moves[-1], DispatchOperation)
            move = self.right_move(world, no, "NewAttempt" if begun and self.draw.random() < 0.6 else None)
            if move is not None:
                moves.append(move)
                world.attempt(no, [move])
        if moves and self.draw.random() < 0.3:
            place = self.draw.randrange(len(moves))
            moves[place] = oracle_moves.spoilt(self.draw, moves[place], list(scratch.keys))
        elif moves and self.draw.random() < 0.1:
            moves.append(self.draw.choice(moves))
        if self.draw.random() < 0.2:
            generation += self.draw.choice((-1, 1))
            moves = [move._replace(generation=generation) for move in moves]
        step = self.draw.choice([*(place[0] for place in world.books[no]["operations"]), "nowhere"])
        observations = [build.seen(self.record(no), step, seen_at=self.clock.now)] * self.draw.randint(0, 2)
        return Group(no, generation, moves, observations[1:], observations[:1])

    def submit(self, groups: list[Group]) -> None:
        self.note("commit", *groups)
        answers = self.through_a_journal(groups[0]) if len(groups) == 1 else self.store.commit(groups, patience=1.0)
        answers = [str(answer) if isinstance(answer, Answer) else "evidence" for answer in answers]
        assert answers == (wanted := self.oracle.commit(groups)), f"the store answered {answers}, the oracle {wanted}"
        self.answers.update(answers)

    def through_a_journal(self, group: Group) -> list[Any]:
        journal = Journal(self.store)
        try:
            return [journal.commit(group)]
        except ValueRefused as error:
            return [error]
        finally:
            journal.close()

    def right_move(self, world: Oracle, no: int, kind: str | None = None, *, inserts: bool = True) -> Any:
        """A move that fits the run as it is in `world`; None when no row is there for it."""
        kinds = [name for name in oracle_moves.RIGHT if inserts or name not in INSERTS]
        run = Run(**world.visible_run(no))
        run.state = oracle_moves.RUN_STATES[str(run.state)]
        kind = (
            kind or self.draw.choices(kinds, [4 if name in COMMON else 2 if name in RAREST else 1 for name in kinds])[0]
        )
        maker: Callable[..., Any] = oracle_moves.RIGHT[kind]
        move = maker(self.draw, run, world.books[no], self.a_name())
        return move if move is None or not hasattr(move, "at") else move._replace(at=self.clock.now)


RARE = {
    "NewAttempt",
    "Succeed",
    "SettleFirst",
    "SettleAttempt",
    "DeliverOperation",
    "DispatchOperation",
    "MoveSignal",
    "MoveStep",
}
RAREST = {"NewAttempt", "SettleAttempt"}
COMMON = {"NewOperation", "MoveOperation", "DispatchOperation", "Succeed"}
INSERTS = {"NewOperation", "NewAttempt", "OpenStep", "StartChild"}

STEPS: list[tuple[Callable[[History], None], int]] = [
    (History.batch, 10),
    (History.another_attempt, 3),
    (History.another_turn, 1),
    (History.lone_stale_move, 5),
    (History.lone_move_from_another_state, 3),
    (History.claim, 3),
    (History.claim_of_yesterday, 1),
    (History.decide, 2),
    (History.signal, 2),
    (History.start_run, 1),
    (History.renew_or_end, 1),
    (History.take_lease, 1),
]


def seen(history: Any) -> Facts:
    """A history as its rows say: an observation's number is the database's own, and what is learnt is no row's."""
    found = asdict(history)
    for operation in found["operations"]:
        operation["conflict"] = operation.pop("flagged")
    for observation in (*found["observations"], *(one for each in found["operations"] for one in each["observations"])):
        del observation["no"]
    return found


def differences(found: Facts, wanted: Facts, part: str) -> str:
    """What differs in one part, short enough to read: field -> (the store's, the oracle's)."""
    if part == "run":
        return unlike(found[part], wanted[part])
    pairs = [unlike(*pair) for pair in zip(found[part], wanted[part], strict=False) if pair[0] != pair[1]]
    return f"{len(found[part])} for {len(wanted[part])}; {pairs}"


def unlike(found: Facts, wanted: Facts) -> str:
    return str({name: (value, wanted.get(name)) for name, value in found.items() if value != wanted.get(name)})


class Histories:
    """Plays histories, each on an empty ledger, and remembers what they reached."""

    def __init__(self, blanks: Blanks) -> None:
        self._blanks = blanks
        self.lone: set[str] = set()
        self.answers: set[str] = set()

    def play(self, seed: int | str) -> None:
        """Play one history; raises `Objection`."""
        with self._blanks.opened() as (stores, clock):
            history = History(seed, stores, clock)
            history.play()
        self.lone |= history.lone
        self.answers |= history.answers
