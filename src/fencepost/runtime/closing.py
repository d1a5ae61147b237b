"""Gives a run up: ended, held for a person, waiting for a signal or a time, or handed back because this worker stops.

Called when no lane of an execution moves any more. Before a run may end, every operation of it must be known: what a
race's loser or a cancel left behind is led to its outcome first. The states are in `core.transitions`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from fencepost.core.asks import Cancelled_, Held, Raised, Returned
from fencepost.core.compensation import to_settle_first
from fencepost.core.errors import CompensationIncomplete, Misuse, ValueRefused
from fencepost.core.identity import canonical
from fencepost.core.records import Operation, Run
from fencepost.core.states import FINAL_RUN_STATES, OperationState, RunState
from fencepost.core.transitions import RUN, RunEvent
from fencepost.effects.conclusion import Holding, Later
from fencepost.runtime.blame import failure_text
from fencepost.runtime.leftovers import effect_named, lead_leftover
from fencepost.runtime.run import ContinueAs
from fencepost.store.api import Answer
from fencepost.store.moves import MoveRun, NextTurn

if TYPE_CHECKING:
    from fencepost.runtime.execution import Execution


async def close(execution: Execution) -> None:
    """Commit the one move that gives the run up, with everything that still waits to be committed."""
    ending = execution.driver.ending
    over = execution.draining or execution.host.lease.lost
    if not over and execution.holding is None and ending is not None and not isinstance(ending, Held):
        await _settle_leftovers(execution)
    if execution.refused is not None:
        return
    move = _last_move(execution)
    goes_on = move.ended_at is None or move.to == RunState.CONTINUED
    execution.positions.refuse_unwanted(execution.host.store.now(), ended=not goes_on)
    moves = [*execution.positions.flush(), *execution.with_hold, move, *execution.next_turn]
    answer = await execution.record(
        moves, [], gives_up=True, wakes=None if goes_on else _waits_for(execution.history.run)
    )
    if answer is Answer.MOVED:
        _leave(execution.history.run, move)


def _waits_for(run: Run) -> int | None:
    """The parent that waits for the end of this run."""
    return None if run.parent_step is None else run.parent


def _leave(run: Run, move: MoveRun) -> None:
    """Bring the record in memory to what the ledger holds now."""
    run.state, run.hold, run.wake_at, run.ended_at = RunState(move.to), move.hold, move.wake_at, move.ended_at
    run.result = move.result if move.result is not None else run.result
    run.error = move.error if move.error is not None else run.error
    run.lease = run.lease if move.keep_lease else None
    run.behind = move.behind


async def _settle_leftovers(execution: Execution) -> None:
    """Lead every operation that is not known to its outcome; its result is delivered to nobody."""
    for operation in to_settle_first(execution.operations.values()):
        execution.note(operation.position, await lead_leftover(execution, operation))
        if execution.refused is not None:
            return


def _last_move(execution: Execution) -> MoveRun:
    if execution.holding is not None:
        # Also when this worker stops: a failure that a person was to see would reach the workflow in its next life.
        return lead_run(execution, RunEvent.HOLD, hold=hold_text(execution, execution.holding))
    if execution.draining or execution.host.lease.lost:
        return lead_run(execution, RunEvent.RELEASE, wake_at=execution.host.store.now())
    if execution.by_person and execution.report is not None:
        return lead_run(execution, execution.report.ending)
    is_alone = execution.positions.settle_children(execution.host.now())
    if execution.driver.ending is None or execution.later or not is_alone:
        later = execution.later.values()
        wake_at = execution.positions.wake_at(one.until for one in later if not one.behind)
        return lead_run(execution, RunEvent.WAIT, wake_at=wake_at)._replace(behind=_behind(later))
    if execution.report is not None and execution.state is RunState.RUNNING:
        # Compensated in an earlier life and held since: it ends as what it is, never clean.
        execution.moves.append(lead_run(execution, RunEvent.COMPENSATE, keep_lease=True))
    return _end(execution)


def _behind(later: Iterable[Later]) -> str | None:
    """The marks of everything contained that keeps steps back, each once."""
    marks = dict.fromkeys(mark for one in later for mark in one.behind.split("\n") if mark)
    return "\n" + "".join(f"{mark}\n" for mark in marks) if marks else None


def _end(execution: Execution) -> MoveRun:
    """The move that ends the run, by how its workflow ended and what it had compensated."""
    ending = execution.driver.ending
    if isinstance(ending, Returned) and isinstance(ending.value, ContinueAs):
        return _continue(execution, ending.value)
    compensated = execution.report.ending if execution.report is not None else None
    if isinstance(ending, Returned):
        try:
            result = execution.workflow.results.encode(ending.value)
        except ValueRefused as error:
            execution.holding = Holding(reason="result refused", detail=str(error))
            return lead_run(execution, RunEvent.HOLD, hold=hold_text(execution, execution.holding))
        if execution.state is RunState.CANCELLING:
            return lead_run(execution, RunEvent.END_CANCELLED, result=result)
        return lead_run(execution, compensated or RunEvent.SUCCEED, result=result)
    if isinstance(ending, Cancelled_):
        return lead_run(execution, compensated or RunEvent.END_CANCELLED)
    assert isinstance(ending, Raised), "a run that is not over has no end"
    text = failure_text(ending.error, otherwise=_with_another_way(execution))
    if compensated is not None and isinstance(ending.error, CompensationIncomplete):
        return lead_run(execution, compensated, error=text)
    if execution.state is RunState.CANCELLING:
        return lead_run(execution, RunEvent.END_CANCELLED, error=text)
    return lead_run(execution, compensated or RunEvent.FAIL, error=text)


def _with_another_way(execution: Execution) -> list[str]:
    """The positions of the effects that have failed and declare another way."""
    failed = [one for one in execution.operations.values() if one.state is OperationState.FAILED]
    known = [(one, effect_named(execution, one.effect)) for one in failed]
    return [one.position for one, effect in known if effect is not None and effect.declared.forward is not None]


def _continue(execution: Execution, following: ContinueAs) -> MoveRun:
    """End this turn and begin the next one in the same commit; a run that was cancelled meanwhile ends here."""
    if execution.state is RunState.CANCELLING:
        return lead_run(execution, RunEvent.END_CANCELLED)
    try:
        if execution.report is not None:
            raise Misuse("a run that was compensated does not continue", hint="return a result, or raise")  # noqa: TRY301 - held below, like a refused input
        text, _ = execution.workflow.encode(following.args, following.kwargs)
    except Misuse as error:
        execution.holding = Holding(reason="result refused", detail=str(error))
        return lead_run(execution, RunEvent.HOLD, hold=hold_text(execution, execution.holding))
    run, now = execution.history.run, execution.host.store.now()
    execution.next_turn = [NextTurn(run.no, run.generation, text, execution.owner.lease, now)]
    return lead_run(execution, RunEvent.CONTINUE)


def lead_run(
    execution: Execution,
    event: RunEvent,
    *,
    wake_at: int | None = None,
    hold: str | None = None,
    result: str | None = None,
    error: str | None = None,
    keep_lease: bool = False,
) -> MoveRun:
    """Lead the execution, and with its next commit its run, through one event; it is given up unless `keep_lease`."""
    now = execution.host.store.now()
    expected = execution.state
    to = RUN.after(expected, event)
    ended = to in FINAL_RUN_STATES
    execution.state = to
    return MoveRun(
        execution.history.run.no,
        execution.owner.generation,
        expected.value,
        event.value,
        to.value,
        int(keep_lease),
        0,
        wake_at,
        hold,
        result,
        error,
        None,
        execution.delivered,
        now,
        now if ended else None,
    )


def hold_text(execution: Execution, holding: Holding) -> str:
    """What a person must know of a hold, as JSON: reason, step, item, key, reference, attempts, last error.

    With `forward`, the name of the effect that does the same another way, where the held one declares one.
    """
    operation = execution.operations.get(execution.held_at)
    held: dict[str, object] = {"reason": holding.reason, "step": execution.held_at, "detail": holding.detail}
    if operation is not None:
        held |= _of(operation)
        effect = effect_named(execution, operation.effect)
        if effect is not None and effect.declared.forward is not None:
            held["forward"] = effect.declared.forward.name
    return canonical(held)


def _of(operation: Operation) -> dict[str, object]:
    return {
        "step": operation.step,
        "item": operation.item,
        "key": operation.key,
        "reference": operation.reference,
        "attempts": len(operation.attempts),
        "state": operation.state.value,
    }
