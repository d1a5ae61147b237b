"""A read, computation or model step is led to its result within its budgets, and a crash forgets none of them."""

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import requests
from pydantic import BaseModel

from fencepost.core.contract import Contract, Retry
from fencepost.core.duration import HOUR, MINUTE, SECOND
from fencepost.core.errors import (
    DeadlinePassed,
    ErrorRecord,
    LeaseLost,
    Malformed,
    NotSent,
    Permanent,
    RateLimited,
    Transient,
    Unresolved,
)
from fencepost.core.identity import canonical
from fencepost.core.records import Lease, Step
from fencepost.core.recovery import Moment
from fencepost.core.states import LeaseState, StepState
from fencepost.effects.attempting import Attempting
from fencepost.effects.call import Call
from fencepost.effects.conclusion import Concluded, Conclusion, Holding, Later, Superseded
from fencepost.effects.deadline import boot_now
from fencepost.effects.declare import Bound, compute, read
from fencepost.effects.deliberate import FORMAT_BUDGET_SPENT, INTERRUPTED, RunBody, renewed, work_out
from fencepost.effects.entry import Owner
from fencepost.effects.model import Source, model
from fencepost.effects.needs import Record, Sent
from fencepost.effects.outside import Outside
from fencepost.effects.perform import BUDGET_SPENT
from fencepost.effects.policy import Allowed, Refused, Verdict
from fencepost.effects.rules import Rule, RuleBased
from fencepost.effects.site import Site
from fencepost.store.api import Answer, Group, NewRun
from fencepost.store.moves import Move, MoveStep, OpenStep
from fencepost.store.open import open_store
from tests.effects.answers_of_models import ModelServer, model_server, refusal

NOW = 1_790_000_000 * SECOND
POSITION = "/step"
RETRY = Retry(attempts=3, within=15 * MINUTE, first_delay=SECOND, factor=2.0)


class Number(BaseModel):
    value: int


# -- a ledger and a loop in the test's own hands ----------------------------------------------------------------------


@dataclass
class Ledger:
    """A real store with one run; every move that is committed is read back from it."""

    store: Any
    run: int
    owner: Owner
    answer: Answer | None = None
    """What to answer instead of committing."""
    commits: int = 0
    time: int = NOW

    def commit(self, moves: list[Move]) -> Answer:
        if self.answer is not None:
            return self.answer
        self.commits += 1
        (found,) = self.store.commit([Group(self.run, self.owner.generation, moves)], patience=1.0)
        return getattr(found, "answer", found)  # type: ignore[no-any-return]  # what the store says of the group

    @property
    def step(self) -> Step | None:
        return next((one for one in self.store.load(self.run).steps if one.position == POSITION), None)

    @property
    def detail(self) -> dict[str, Any]:
        found = self.step
        return json.loads(found.detail) if found is not None and found.detail else {}

    # the clock that a step is led by

    def now(self) -> int:
        return self.time

    def moment(self) -> Moment:
        return Moment(self.time)

    def send_ended(self) -> None:
        pytest.fail("a step that sends nothing ends no send")

    def draw(self) -> float:
        return 0.0


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    store = open_store(f"sqlite:///{tmp_path}/ledger.db", clock=lambda: NOW)
    store.take_lease(Lease("l-1", "host", "boot", 1, 1, LeaseState.LIVE, NOW, NOW, NOW + HOUR))
    run, _ = store.start_run(NewRun("default", "r-1", "w", 1, None, "{}", "f", None, "l-1", NOW, NOW))
    yield Ledger(store, run.no, Owner("l-1", run.generation, run.state.value))
    store.close()


@dataclass
class Loop:
    """Drives the generator as a worker does. `body` stands for the step's own body, if given."""

    ledger: Ledger
    source: Source | None = None
    body: Callable[[int], Any] | None = None
    runs: list[int] = field(default_factory=list)

    def lead(self, bound: Bound[Any], **options: Any) -> Conclusion:
        ledger = self.ledger
        needs = work_out(ledger.step, bound, POSITION, ledger.run, ledger.owner, ledger, lambda: 7, **options)
        answer: Any = None
        try:
            while True:
                need = needs.send(answer)
                answer = ledger.commit(need.moves) if isinstance(need, Record) else self.run(need, bound)
        except StopIteration as stop:
            conclusion: Conclusion = stop.value
        if conclusion.moves:
            assert ledger.commit(conclusion.moves) is Answer.MOVED
        return conclusion

    def run(self, need: RunBody, bound: Bound[Any]) -> Sent:
        self.runs.append(need.attempt)
        site = Site(Outside(model=self.source), lambda: None, lambda: self.ledger.time, generation=1, principal="ann")
        facts = Attempting(site, need.position, need.attempt, boot_now() + 20 * SECOND, Contract("step"))
        try:
            value = self.body(need.attempt) if self.body is not None else asyncio.run(self._run_body(bound, facts))
        except BaseException as error:  # noqa: BLE001 - the generator is to see every kind
            return Sent(canonical({**(facts.evidence or {}), "error": type(error).__name__}), error=error)
        return Sent(canonical(facts.evidence or {"kind": "returned"}), value=value)

    @staticmethod
    async def _run_body(bound: Bound[Any], facts: Attempting) -> Any:
        try:
            return await bound.step.body(Call(facts), *bound.args, **bound.kwargs)
        finally:
            await facts.site.outside.aclose()


def raising(*errors: BaseException | None) -> Callable[[int], int]:
    """A body that raises these, one after the other, and returns 1 where None stands and afterwards."""
    left = list(errors)

    def body(_attempt: int) -> int:
        error = left.pop(0) if left else None
        if error is not None:
            raise error
        return 1

    return body


def wrong_address() -> requests.RequestException:
    """What requests raises before it sends anything, with its traceback."""
    with pytest.raises(requests.exceptions.MissingSchema) as raised:
        requests.get("prices.example", timeout=1)
    return raised.value


@read(retry=RETRY)
async def stock(call: Call, item: str) -> int:
    return len(item)


@compute(retry=RETRY)
async def total(call: Call, lines: list[int]) -> Number:
    return Number(value=sum(lines))


@model(output=Number, format_attempts=3, retry=RETRY)
async def count(call: Call, text: str) -> Number:
    return await call.model.ask("How many?", text)


plain_kinds = pytest.mark.parametrize("bound", [stock("ball"), total([1, 2])], ids=["read", "compute"])
all_kinds = pytest.mark.parametrize("bound", [stock("ball"), total([1, 2]), count("three")], ids=lambda b: b.step.kind)


# -- the whole way ----------------------------------------------------------------------------------------------------


@plain_kinds
def test_a_step_that_succeeds_at_once_is_one_row_in_one_commit(ledger, bound):
    steps: dict[str, Step] = {}
    conclusion = Loop(ledger).lead(bound, steps=steps)
    assert isinstance(conclusion, Concluded)
    assert ledger.commits == 1
    assert [type(move) for move in conclusion.moves] == [OpenStep]
    row = ledger.step
    assert (row.kind, row.name, row.fingerprint) == (bound.step.kind, bound.step.name, bound.fingerprint)
    assert (row.state, row.delivered, row.closed_at, row.detail) == (StepState.DONE, 7, NOW, None)
    assert row.request == bound.request
    assert bound.decode(row.result) == bound.decode(conclusion.payload)
    assert steps == {POSITION: row}


@all_kinds
def test_what_is_recorded_is_handed_on_and_nothing_runs(ledger, bound):
    rules = RuleBased([], otherwise={"value": 3})
    first = Loop(ledger, rules).lead(bound)
    again = Loop(ledger, rules, body=lambda _: pytest.fail("it ran again"))
    found = again.lead(bound)
    assert (type(found), found.payload, found.moves) == (Concluded, first.payload, [])
    assert again.runs == []


def test_a_recorded_failure_and_a_cancelled_step_are_handed_on_too(ledger):
    first = Loop(ledger, body=raising(Permanent("no such item"))).lead(stock("ball"))
    again = Loop(ledger).lead(stock("ball"))
    assert (again.error, again.payload, again.moves) == (first.error, None, [])
    cancelled = Step(POSITION, "read", "stock", "f", StepState.CANCELLED, NOW)
    with pytest.raises(StopIteration) as stop:
        next(work_out(cancelled, stock("ball"), POSITION, ledger.run, ledger.owner, ledger, lambda: 1))
    assert stop.value.value.error == ErrorRecord("fencepost.core.errors.Cancelled", "cancelled")


# -- failures of the outside ------------------------------------------------------------------------------------------


@all_kinds
@pytest.mark.parametrize(
    "error",
    [
        Transient("busy"),
        Unresolved("cut off"),
        DeadlinePassed("late"),
        TimeoutError(),
        ConnectionResetError(),
        requests.exceptions.ReadTimeout(),
        requests.exceptions.HTTPError("503"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_failure_of_the_outside_is_tried_again_after_a_stored_pause(ledger, bound, error):
    loop = Loop(ledger, body=raising(error))
    conclusion = loop.lead(bound)
    assert isinstance(conclusion, Later)
    assert conclusion.until == NOW + SECOND // 2  # half of the first delay is fixed, half drawn
    row = ledger.step
    assert (row.state, row.due_at, row.delivered) == (StepState.OPEN, conclusion.until, None)
    assert ErrorRecord.from_text(row.error).class_name.endswith(type(error).__name__)
    # Before the pause is over, whoever looks is told to come back.
    assert loop.lead(bound) == Later(until=conclusion.until, why="the pause before the next attempt")
    assert loop.runs == [1]


def test_a_pause_ends_and_the_step_succeeds(ledger):
    assert isinstance(Loop(ledger, body=raising(Transient("busy"))).lead(stock("ball")), Later)
    ledger.time += SECOND
    # Another worker, which knows only what the ledger holds.
    loop = Loop(ledger)
    assert isinstance(loop.lead(stock("ball")), Concluded)
    assert loop.runs == [2]
    row = ledger.step
    assert (row.state, row.error, row.closed_at, json.loads(row.result)) == (StepState.DONE, None, ledger.time, 4)
    assert ledger.detail == {"attempts": 2, "budget_from": NOW, "failures": 1}


def test_the_pause_that_the_target_asks_for_is_kept(ledger):
    slow = RateLimited("slow", retry_after=timedelta(seconds=90))
    assert Loop(ledger, body=raising(slow)).lead(stock("x")).until == NOW + 90 * SECOND


def test_the_budget_of_attempts_outlives_crashes_and_stops_the_run(ledger):
    errors = [Transient("one"), Transient("two"), Transient("three")]
    for error in errors[:2]:
        assert isinstance(Loop(ledger, body=raising(error)).lead(stock("ball")), Later)
        ledger.time += MINUTE
    last = Loop(ledger, body=raising(errors[2]))
    conclusion = last.lead(stock("ball"))
    assert (type(conclusion), conclusion.reason, conclusion.detail) == (Holding, BUDGET_SPENT, "three")
    assert last.runs == [3]
    assert ledger.step.state is StepState.OPEN
    assert ledger.detail["spent"] == BUDGET_SPENT
    # It stays so, whoever leads it, until a person gives a new budget.
    again = Loop(ledger)
    assert again.lead(stock("ball")) == Holding(reason=BUDGET_SPENT, detail="three")
    assert again.runs == []


def test_the_budget_of_time_stops_the_run(ledger):
    assert isinstance(Loop(ledger, body=raising(Transient("busy"))).lead(stock("ball")), Later)
    ledger.time += 16 * MINUTE
    assert Loop(ledger, body=raising(Transient("busy"))).lead(stock("ball")).reason == BUDGET_SPENT


def test_a_long_pause_that_the_target_asked_for_still_ends_in_an_attempt(ledger):
    slow = RateLimited("slow", retry_after=timedelta(minutes=30))
    assert Loop(ledger, body=raising(slow)).lead(stock("ball")).until == NOW + 30 * MINUTE
    ledger.time += 30 * MINUTE
    assert isinstance(Loop(ledger).lead(stock("ball")), Concluded)


def test_a_person_gives_a_new_budget(ledger):
    for error in (Transient("one"), Transient("two"), Transient("three")):
        Loop(ledger, body=raising(error)).lead(stock("ball"))
        ledger.time += MINUTE
    assert renewed(Step(POSITION, "read", "stock", "f", StepState.OPEN, NOW), 1, ledger.owner, NOW) is None
    move = renewed(ledger.step, ledger.run, ledger.owner, ledger.time)
    assert ledger.commit([move]) is Answer.MOVED
    assert ledger.detail == {
        "attempts": 3,
        "before": [{"failures": 3, "format_failures": 0, "spent": BUDGET_SPENT}],
        "budget_from": ledger.time,
    }
    loop = Loop(ledger, body=raising(Transient("four")))
    assert isinstance(loop.lead(stock("ball")), Later)
    assert loop.runs == [4]


def test_a_step_that_a_person_reopened_starts_a_new_budget(ledger):
    Loop(ledger, body=raising(ValueError("a typo"))).lead(stock("ball"))
    ledger.time += HOUR
    reopened = MoveStep(
        ledger.run, 1, POSITION, "failed", "resume", "open", '{"replaced":"a typo"}', None, None, 0, None, ledger.time
    )
    assert ledger.commit([reopened]) is Answer.MOVED
    assert isinstance(Loop(ledger, body=raising(Transient("busy"))).lead(stock("ball")), Later)
    assert ledger.detail == {"attempts": 1, "budget_from": ledger.time, "failures": 1, "replaced": "a typo"}


@all_kinds
def test_a_lost_lease_says_nothing_about_the_step(ledger, bound):
    loop = Loop(ledger, body=raising(LeaseLost("gone")))
    assert loop.lead(bound) == Later(until=NOW + INTERRUPTED, why="interrupted")
    assert ledger.step is None


def test_an_owner_whose_note_is_refused_stops(ledger):
    ledger.answer = Answer.STALE
    loop = Loop(ledger, RuleBased([], otherwise="many"))
    assert loop.lead(count("three")) == Superseded(answer=Answer.STALE)
    assert loop.runs == [1]


# -- faults of the code -----------------------------------------------------------------------------------------------


@all_kinds
@pytest.mark.parametrize(
    "error",
    [
        ValueError("a typo"),
        Permanent("no such item"),
        NotSent("not sent"),
        FileNotFoundError("prices.csv"),
        wrong_address(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_fault_of_the_code_fails_the_step_where_the_workflow_sees_it(ledger, bound, error):
    loop = Loop(ledger, body=raising(error))
    conclusion = loop.lead(bound)
    assert isinstance(conclusion, Concluded)
    assert conclusion.payload is None
    assert conclusion.error.class_name.endswith(type(error).__name__)
    row = ledger.step
    assert (row.state, row.delivered) == (StepState.FAILED, 7)
    assert ErrorRecord.from_text(row.error) == conclusion.error
    assert loop.runs == [1]


@plain_kinds
def test_a_malformed_answer_outside_a_model_step_is_a_fault(ledger, bound):
    assert Loop(ledger, body=raising(Malformed("what?"))).lead(bound).error.class_name.endswith("Malformed")


def test_an_error_that_cannot_be_stored_does_not_hide_itself(ledger):
    class Odd(Exception):
        def __init__(self, _socket: object, *, code: int) -> None:
            self.code = code

        def __str__(self) -> str:
            raise RuntimeError("no text")

    conclusion = Loop(ledger, body=raising(Odd(object(), code=4))).lead(stock("ball"))
    assert conclusion.error.class_name.endswith("Odd")
    assert "could not be read" in ledger.step.error


@plain_kinds
@pytest.mark.parametrize("value", ["four", object(), 2**20 * "x"], ids=["wrong type", "no value", "too large"])
def test_a_result_that_cannot_be_kept_fails_the_step_and_is_not_asked_for_again(ledger, bound, value):
    loop = Loop(ledger, body=lambda _: value)
    conclusion = loop.lead(bound)
    assert conclusion.error.class_name.endswith("ValueRefused")
    assert loop.runs == [1]


# -- model steps ------------------------------------------------------------------------------------------------------


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with model_server() as it:
        yield it


def test_an_accepted_answer_is_stored_once_with_its_origin(ledger, server):
    server.answers('{"value": 3}')
    conclusion = Loop(ledger, server.endpoint()).lead(count("three"))
    assert conclusion.payload == '{"value":3}'
    assert ledger.detail == {"endpoint": f"small-1 at {server.url}"}
    assert Loop(ledger, server.endpoint()).lead(count("three")).payload == '{"value":3}'
    assert len(server.requests) == 1


def test_local_rules_say_that_they_are_no_model(ledger):
    Loop(ledger, RuleBased([Rule("three|drei|三", {"value": 3})])).lead(count("drei"))
    assert ledger.detail == {"endpoint": "local rules, no model"}


def test_a_malformed_answer_is_asked_for_again_and_kept(ledger, server):
    server.answers("three, I think", '{"value": 3}')
    loop = Loop(ledger, server.endpoint())
    assert loop.lead(count("three")).payload == '{"value":3}'
    assert loop.runs == [1, 2]
    assert ledger.detail == {
        "attempts": 2,
        "bad_outputs": ["three, I think"],
        "budget_from": NOW,
        "endpoint": f"small-1 at {server.url}",
        "format_failures": 1,
    }
    assert ledger.step.error is None


def test_the_format_budget_outlives_a_crash_and_then_holds_the_run(ledger, server):
    """The worker dies after the second bad answer: the third is the last, not the first of three more."""
    server.answers("a", "b", "c", "d")

    class Killed(BaseException):
        pass

    dying = Loop(ledger, server.endpoint())
    ask = dying.run

    def run(need: RunBody, bound: Bound[Any]) -> Sent:
        if need.attempt == 3:
            raise Killed
        return ask(need, bound)

    dying.run = run
    with pytest.raises(Killed):
        dying.lead(count("three"))
    assert ledger.detail["format_failures"] == 2
    heir = Loop(ledger, server.endpoint())
    conclusion = heir.lead(count("three"))
    assert (type(conclusion), conclusion.reason) == (Holding, FORMAT_BUDGET_SPENT)
    assert conclusion.detail.startswith("answer: ")
    assert heir.runs == [3]
    assert ledger.detail["bad_outputs"] == ["a", "b", "c"]
    assert Loop(ledger, server.endpoint()).lead(count("three")).reason == FORMAT_BUDGET_SPENT
    assert len(server.requests) == 3


def test_the_format_budget_and_the_transient_budget_are_two(ledger, server):
    server.answers(refusal("429 Slow", "Retry-After: 30"), "three", refusal("500 Oops"), '{"value": 3}')
    first = Loop(ledger, server.endpoint()).lead(count("three"))
    assert first.until == NOW + 30 * SECOND
    ledger.time += 30 * SECOND
    second = Loop(ledger, server.endpoint()).lead(count("three"))
    assert isinstance(second, Later)
    assert (ledger.detail["failures"], ledger.detail["format_failures"]) == (2, 1)
    ledger.time = second.until
    assert Loop(ledger, server.endpoint()).lead(count("three")).payload == '{"value":3}'
    assert len(server.requests) == 4


def test_a_wrong_key_fails_the_step_without_spending_the_transient_budget(ledger, server):
    server.answers(refusal("401 Who"))
    conclusion = Loop(ledger, server.endpoint()).lead(count("three"))
    assert conclusion.error.class_name.endswith("Permanent")
    assert "failures" not in ledger.detail
    assert len(server.requests) == 1


def test_bad_outputs_are_bounded_or_not_kept_at_all(ledger):
    bad = RuleBased([], otherwise="x" * 5_000 + "\ud7ff")
    private = model(output=Number, format_attempts=7, keep_bad_output=False)(count._asks)
    assert Loop(ledger, bad).lead(private("three")).reason == FORMAT_BUDGET_SPENT
    assert "bad_outputs" not in ledger.detail
    assert "xxx" not in ledger.step.error
    assert ledger.commit([renewed(ledger.step, ledger.run, ledger.owner, NOW)]) is Answer.MOVED
    keeping = model(output=Number, format_attempts=7)(count._asks)
    assert Loop(ledger, bad).lead(keeping("three")).reason == FORMAT_BUDGET_SPENT
    assert [len(text) for text in ledger.detail["bad_outputs"]] == [2_000] * 5


def test_the_answer_of_a_broken_provider_can_be_kept_too(ledger):
    class Broken:
        provenance = "a test"

        def answer(self, question: object) -> str:
            return "\ud800"

    assert Loop(ledger, Broken()).lead(count("three")).reason == FORMAT_BUDGET_SPENT
    assert ledger.detail["bad_outputs"] == ["?", "?", "?"]


def judging(verdict: Callable[[str | None, Number], Any]) -> Bound[Number]:
    return model(output=Number, name="count", policy=verdict)(count._asks)("three")


def test_a_policy_judges_the_accepted_answer_and_its_verdict_is_recorded(ledger):
    def small(principal: str | None, number: Number) -> Verdict:
        return Allowed(f"{principal} may count to {number.value}")

    conclusion = Loop(ledger, RuleBased([], otherwise={"value": 3})).lead(judging(small), principal="ann")
    assert conclusion.payload == '{"value":3}'
    assert ledger.detail["policy"] == {"verdict": "allowed", "why": "ann may count to 3"}


def test_what_a_policy_refuses_reaches_the_workflow_as_a_permanent_error(ledger):
    loop = Loop(ledger, RuleBased([], otherwise={"value": 3}))
    conclusion = loop.lead(judging(lambda _principal, _number: Refused("too many")))
    assert conclusion.error.class_name.endswith("Permanent")
    assert "refused by policy: too many" in conclusion.error.message
    assert ledger.detail["policy"] == {"verdict": "refused", "why": "too many"}
    assert loop.runs == [1]


@pytest.mark.parametrize("verdict", [lambda _p, _n: True, lambda _p, n: n.missing], ids=["no verdict", "raises"])
def test_a_broken_policy_lets_nothing_through(ledger, verdict):
    conclusion = Loop(ledger, RuleBased([], otherwise={"value": 3})).lead(judging(verdict))
    assert conclusion.payload is None
    assert ledger.step.state is StepState.FAILED
