"""Every legal row of the transition tables can happen, and no move happens from another state or generation."""

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from itertools import permutations

import pytest

from fencepost.core.records import History, Run
from fencepost.core.states import OperationState, Outcome, RunState, StepState
from fencepost.core.transitions import ATTEMPT, OPERATION, RUN, SIGNAL, STEP, OperationEvent, Row, RunEvent, Table
from fencepost.store.api import Answer
from fencepost.store.moves import Move
from tests.store import build
from tests.store.conftest import Ledger


def way_to(table: Table, state: str | None, begins: tuple[str | None, ...] = (None,)) -> list[Row]:
    """The shortest way through the table to a state, from no row or from where an insert can begin."""
    ways = deque[tuple[str | None, list[Row]]]((begin, []) for begin in begins)
    known = set(begins)
    while ways:
        at, way = ways.popleft()
        if at == state:
            return way
        for row in table.rows():
            if row.state == at and row.to not in known and row.event != "contradict":
                known.add(row.to)
                ways.append((row.to, [*way, row]))
    raise AssertionError(f"no way leads to {state}")


def named(rows: list[Row]) -> dict[str, Row]:
    return {row.name: row for row in rows}


OPERATION_ROWS = named(list(OPERATION.rows()))
RUN_ROWS = named(list(RUN.rows()))


def operation_moves(run: Run, row: Row, attempts: int) -> list[Move]:
    if row.state is None:
        state = row.to.value
        return [build.new_operation(run, state="reserved")] if state == "reserved" else [build.new_operation(run)]
    if row.event is OperationEvent.DISPATCH:
        number = attempts + 1
        dispatched = build.dispatch_again(run, row.state.value, number)
        return [dispatched] if number == 1 else [dispatched, build.new_attempt(run, number=number)]
    conflict = int(row.event is OperationEvent.CONTRADICT)
    return [build.move_operation(run, row.event.value, row.state.value, row.to.value, conflict=conflict)]


def take_operation_row(ledger: Ledger, run: Run, row: Row) -> None:
    found = ledger.load(run).operations
    ledger.do(run, *operation_moves(run, row, len(found[0].attempts) if found else 0))


def operation_in(ledger: Ledger, run: Run, state: OperationState | None, *, was_sent: bool = False) -> None:
    """Lead an operation to a state, on a way that begins with a dispatch if it `was_sent`."""
    way = way_to(OPERATION, state)
    if was_sent:
        way = [OPERATION_ROWS["operation:nothing:dispatch"], *way_to(OPERATION, state, (OperationState.DISPATCHED,))]
    for row in way:
        take_operation_row(ledger, run, row)


@pytest.mark.parametrize("name", OPERATION_ROWS)
def test_an_operation_takes_every_legal_row(ledger: Ledger, name: str) -> None:
    row, run = OPERATION_ROWS[name], ledger.running()
    # Evidence can only contradict something that was sent.
    operation_in(ledger, run, row.state, was_sent=row.event is OperationEvent.CONTRADICT)
    before = ledger.load(run).operations

    take_operation_row(ledger, run, row)

    (after,) = ledger.load(run).operations
    assert after.state is row.to
    assert after.conflict is (row.event is OperationEvent.CONTRADICT)
    if before:
        assert after.version > before[0].version


@pytest.mark.parametrize(("state", "expected"), list(permutations(OperationState, 2)))
def test_an_operation_is_moved_only_from_the_state_that_was_named(
    ledger: Ledger, state: OperationState, expected: OperationState
) -> None:
    run = ledger.running()
    operation_in(ledger, run, state)
    before = ledger.load(run)

    refused = ledger.answer(run, build.move_operation(run, "lose", expected.value, "unknown"))

    assert refused is Answer.ILLEGAL
    assert ledger.load(run) == before


def take_run_row(ledger: Ledger, run: Run, row: Row) -> Run:
    if row.event in (RunEvent.CLAIM, RunEvent.TAKE_OVER):
        return claim_run(ledger, run, row)
    lets_go = row.event in (RunEvent.WAIT, RunEvent.RELEASE)
    due = ledger.now if row.to in (RunState.CANCELLING, RunState.COMPENSATING) and lets_go else None
    move = build.move_run(run, row.event.value, row.to.value, wake_at=due)
    if lets_go:
        move = move._replace(keep_lease=0)
    elif row.to in (RunState.CANCELLING, RunState.COMPENSATING) and run.lease is None:
        move = move._replace(wake_at=ledger.now)
    ledger.do(run, move)
    return ledger.run(run)


def claim_run(ledger: Ledger, run: Run, row: Row) -> Run:
    if row.event is RunEvent.TAKE_OVER:
        assert run.lease is not None
        ledger.store.end_lease(run.lease, now=ledger.now)
    elif row.state is RunState.WAITING:
        ledger.store.signal("default", run.id, build.signal(f"wake-{run.version}"))
    heir = f"heir-{run.generation}"
    ledger.store.take_lease(build.lease(heir, at=ledger.now))
    (claimed,) = ledger.claim(heir)
    return claimed


def run_in(ledger: Ledger, state: RunState | None, name: str = "run-1") -> Run | None:
    """A run that was led to a state; it begins ready."""
    if state is None:
        return None
    run, _ = ledger.store.start_run(build.new_run(name))
    for row in way_to(RUN, state, begins=(RunState.READY,)):
        run = take_run_row(ledger, run, row)
    assert run.state is state
    return run


@pytest.mark.parametrize("name", RUN_ROWS)
def test_a_run_takes_every_legal_row(ledger: Ledger, name: str) -> None:
    row = RUN_ROWS[name]
    before = run_in(ledger, row.state)
    if before is None:
        after = ledger.running() if row.event is RunEvent.CLAIM else run_in(ledger, RunState.READY)
    elif row.event is RunEvent.TAKE_OVER and before.lease is None:
        # Given up to wait, then claimed: owned again, in the same state.
        ledger.store.take_lease(build.lease("owner", at=ledger.now))
        (owned,) = ledger.claim("owner")
        after = take_run_row(ledger, owned, row)
    elif row.event is RunEvent.CLAIM and before.lease is not None:
        event, to = ("release", before.state.value)
        ledger.do(before, build.move_run(before, event, to, keep_lease=0, wake_at=ledger.now))
        after = take_run_row(ledger, ledger.run(before), row)
    else:
        after = take_run_row(ledger, before, row)

    assert after is not None
    assert after.state is row.to
    if before is not None:
        assert after.version > before.version
    if row.event in (RunEvent.CLAIM, RunEvent.TAKE_OVER) and before is not None:
        assert after.generation > before.generation


@pytest.mark.parametrize("row", list(STEP.rows()), ids=lambda row: row.name)
def test_a_step_takes_every_legal_row(ledger: Ledger, row: Row) -> None:
    run = ledger.running()
    ledger.do(run, build.open_step(run))
    for step in way_to(STEP, row.state, begins=(StepState.OPEN,)):
        ledger.do(run, build.move_step(run, step.event.value, step.state.value, step.to.value))

    ledger.do(run, build.move_step(run, row.event.value, row.state.value, row.to.value))

    (after,) = ledger.load(run).steps
    assert after.state is row.to
    assert (after.closed_at is None) == (row.to is StepState.OPEN)


@pytest.mark.parametrize("row", list(ATTEMPT.rows()), ids=lambda row: row.name)
@pytest.mark.parametrize("number", [1, 2])
def test_an_attempt_takes_every_legal_row(ledger: Ledger, row: Row, number: int) -> None:
    run = ledger.running()
    ledger.do(run, build.new_operation(run), build.move_operation(run, "lose", "dispatched", "unknown"))
    ledger.do(run, build.dispatch_again(run, "unknown", 2), build.new_attempt(run))
    for step in way_to(ATTEMPT, row.state, begins=(Outcome.UNRESOLVED,)):
        ledger.do(run, build.settle(run, step.to.value, number=number, expected=step.state.value))

    changes = {"expected": row.state.value, "event": row.event.value}
    ledger.do(run, build.settle(run, row.to.value, number=number, **changes))

    after = ledger.load(run).operations[0].attempts[number - 1]
    assert after.outcome is row.to
    assert after.evidence is not None


def test_a_success_in_one_change_leaves_what_two_would_leave(ledger: Ledger) -> None:
    run = ledger.running()
    ledger.do(run, build.new_operation(run, "one"), build.new_operation(run, "two"))

    ledger.do(run, build.succeed(run, "one", reference="t-1", delivered=1))
    ledger.do(run, build.settle(run, step="two"), build.applied(run, "two", reference="t-1", delivered=1))

    one, two = ledger.load(run).operations
    assert replace(one, step="", key="") == replace(two, step="", key="")
    assert (one.state, one.attempts[0].outcome) == (OperationState.SUCCEEDED, Outcome.APPLIED)


def test_only_a_first_attempt_that_nobody_has_settled_succeeds_in_one_change(ledger: Ledger) -> None:
    run = busy_run(ledger)
    ledger.do(run, build.new_operation(run, "settled"), build.settle(run, "not applied", "settled"))

    for step in ("again", "later", "over", "settled", "nowhere"):
        assert ledger.answer(run, build.succeed(run, step)) is Answer.ILLEGAL


@pytest.mark.parametrize("row", list(SIGNAL.rows()), ids=lambda row: row.name)
def test_a_signal_takes_every_legal_row(ledger: Ledger, row: Row) -> None:
    run = ledger.running()
    ledger.store.signal("default", run.id, build.signal())

    ledger.do(run, build.move_signal(run, row.to.value))

    (after,) = ledger.load(run).signals
    assert after.state is row.to


# One move of each kind, on a run that has an operation of each sort, a step and a signal.
MOVES: dict[str, Callable[[Run], Move]] = {
    "NewOperation": lambda run: build.new_operation(run, "new"),
    "NewAttempt": lambda run: build.new_attempt(run, "bare", number=3),
    "MoveOperation": build.applied,
    "DispatchOperation": lambda run: build.dispatch_again(run, "reserved", 1, "later"),
    "Succeed": build.succeed,
    "SettleFirst": build.settle,
    "SettleAttempt": lambda run: build.settle(run, step="again", number=2),
    "DeliverOperation": lambda run: build.deliver(run, 1, "over"),
    "OpenStep": lambda run: build.open_step(run, "wait:1"),
    "MoveStep": lambda run: build.move_step(run, "finish", "open", "done"),
    "MoveSignal": build.move_signal,
    "MoveRun": lambda run: build.move_run(run, "wait", "waiting"),
}


def without_reports(history: History) -> History:
    """A refused settlement leaves its evidence behind, and nothing else."""
    for operation in history.operations:
        assert all(seen.kind == "reply" and not seen.current for seen in operation.observations)
        operation.observations.clear()
    return history


def busy_run(ledger: Ledger) -> Run:
    run = ledger.running()
    ledger.do(
        run, build.new_operation(run), build.new_operation(run, "again"), build.new_operation(run, "bare"),
        build.move_operation(run, "lose", "dispatched", "unknown", "again"),
        build.dispatch_again(run, "unknown", 2, "again"), build.new_attempt(run, "again"),
        build.new_operation(run, "later", state="reserved"), build.new_operation(run, "over"),
        build.applied(run, "over"),
        build.open_step(run),
    )  # fmt: skip
    for number in (2, 3):  # a third dispatch whose attempt is still to be inserted
        ledger.do(run, build.move_operation(run, "lose", "dispatched", "unknown", "bare"))
        ledger.do(run, build.dispatch_again(run, "unknown", number, "bare"))
    ledger.store.signal("default", run.id, build.signal())
    return ledger.run(run)


@pytest.mark.parametrize("kind", MOVES)
def test_a_move_of_each_kind_is_made_by_the_owner(ledger: Ledger, kind: str) -> None:
    run = busy_run(ledger)
    before = ledger.load(run)

    assert ledger.answer(run, MOVES[kind](run)) is Answer.MOVED
    assert ledger.load(run) != before


@pytest.mark.parametrize("off_by", [-1, 1])
@pytest.mark.parametrize("kind", MOVES)
def test_a_move_of_each_kind_is_refused_to_every_other_generation(ledger: Ledger, kind: str, off_by: int) -> None:
    run = busy_run(ledger)
    before = ledger.load(run)
    run.generation += off_by

    assert ledger.answer(run, MOVES[kind](run)) is Answer.STALE
    assert without_reports(ledger.load(run)) == before


@pytest.mark.parametrize("kind", MOVES)
def test_after_a_take_over_the_former_owner_changes_nothing(ledger: Ledger, kind: str) -> None:
    run = busy_run(ledger)
    ledger.store.end_lease("lease-1", now=ledger.now)
    ledger.store.take_lease(build.lease("lease-2"))
    assert ledger.claim("lease-2")
    before = ledger.load(run)

    assert ledger.answer(run, MOVES[kind](run)) is Answer.STALE
    assert without_reports(ledger.load(run)) == before


@pytest.mark.parametrize("kind", ["NewOperation", "DispatchOperation"])
def test_nothing_is_dispatched_once_a_run_is_being_cancelled(ledger: Ledger, kind: str) -> None:
    run = busy_run(ledger)
    ledger.do(run, build.move_run(run, "cancel", "cancelling"))

    assert ledger.answer(run, MOVES[kind](run)) is Answer.ILLEGAL


def test_an_attempt_needs_its_operation_to_be_dispatched_under_its_number(ledger: Ledger) -> None:
    run = busy_run(ledger)

    assert ledger.answer(run, build.new_attempt(run, "bare", number=2)) is Answer.ILLEGAL
    assert ledger.answer(run, build.new_attempt(run, "later")) is Answer.ILLEGAL
    assert ledger.answer(run, build.new_attempt(run, "nowhere")) is Answer.ILLEGAL
