"""Which of the verbs apply to a run as it is: the one table that screens offer from and verbs refuse by.

A verb that is offered is not refused, unless the run has moved in between. What each does is in `verbs`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping

from fencepost.core.approval import digest_waited_for
from fencepost.core.compensation import UNSETTLED, resting_on, undone
from fencepost.core.decisions import decisions, stands_on, was_undone_below
from fencepost.core.errors import HistoryMismatch
from fencepost.core.position import CHOSEN, plain
from fencepost.core.records import History, Operation, Run, Step
from fencepost.core.states import COMPENSATED, FINAL_RUN_STATES, OperationState, RunState, StepState
from fencepost.core.transitions import RUN, RunEvent
from fencepost.runtime.blame import done_otherwise, is_blamed
from fencepost.runtime.replay import compensated


def lacks_result(operation: Operation) -> bool:
    """Whether the operation is known to have happened, and what it returned is not."""
    return operation.state is OperationState.SUCCEEDED and operation.result is None


def _any(history: History, *states: OperationState) -> bool:
    return any(operation.state in states for operation in history.operations)


def _settle(history: History) -> bool:
    return any(
        not one.conflict and (one.state is OperationState.UNKNOWN or lacks_result(one)) for one in history.operations
    )


def _settle_conflict(history: History) -> bool:
    return history.run.lease is None and any(one.conflict for one in history.operations)


def _reconcile(history: History) -> bool:
    return may_be_reconciled(history) and any(
        one.state is OperationState.UNKNOWN and not one.conflict for one in history.operations
    )


def may_be_reconciled(history: History) -> bool:
    """Whether somebody can be made to ask about the run's unknown operations: it has not ended."""
    return history.run.state not in FINAL_RUN_STATES


def _reopen(history: History) -> bool:
    goes = RUN.allows(history.run.state, RunEvent.REOPEN) and history.run.state not in COMPENSATED
    return goes and history.rival is None and not any(one.conflict for one in history.operations)


def _resume(history: History) -> bool:
    return history.run.state in (RunState.HELD, RunState.FAILED) and history.rival is None


def _retry(history: History) -> bool:
    return history.run.state is RunState.HELD and _any(history, OperationState.FAILED)


def _forward(history: History) -> bool:
    return bool(goes_otherwise(history))


def goes_otherwise(history: History) -> list[str]:
    """The positions of the effects that a person may have done the other way that they declare.

    Of a run that is held it is the one that it is held for, of one that has failed those that it failed of.
    """
    run = history.run
    hold: dict[str, object] = json.loads(run.hold or "{}")
    declared = done_otherwise(run.error) if run.state is RunState.FAILED and history.rival is None else set()
    return [
        one.position
        for one in history.operations
        if (hold.get("forward") and (one.step, one.item) == (hold.get("step"), hold.get("item")))
        or (one.position in declared and is_blamed(one, run))
        if no_other_way(one, history.steps) is None
    ]


def no_other_way(operation: Operation, steps: Iterable[Step]) -> str | None:
    """Why an effect may not be done another way; None: it may, if it declares one."""
    if operation.conflict or operation.state is not OperationState.FAILED:
        known = "contradicts itself" if operation.conflict else f"is {operation.state}"
        return f"{operation.position} {known}, and only what is proved not to have happened is done another way"
    if operation.compensates is not None or plain(operation.step) != operation.step:
        return f"{operation.position} is no effect of the workflow's own"
    for step in steps:
        if step.kind == "compensate":
            return "the run has begun to go back, and does not go forward as well"
        if step.kind == "forward" and step.position == f"{CHOSEN}{operation.position}":
            return f"another way was chosen for {operation.position} already"
    return None


def _redecide(history: History) -> bool:
    return no_new_decision(history) is None and any(
        no_new_decision_of(history, one) is None for one in decisions(history)
    )


def no_new_decision(history: History) -> str | None:
    """Why no decision of the run may be made anew now; None: one may, if nothing stands on it."""
    run = history.run
    if run.state not in MAY_DECIDE_ANEW:
        return f"redecide does not apply to a run that is {run.state}"
    if run.cancel is not None:
        return "the run was cancelled, and asks its model nothing more"
    if run.parent_step is not None and run.ended_at is not None:
        return "its parent has its answer"
    if history.rival is not None:
        return f"run {history.rival}, stands for the same in queue {run.queue}"
    for one in history.operations:
        if one.conflict or one.state in UNSETTLED:
            return f"{one.position} contradicts itself" if one.conflict else f"{one.position} is {one.state}"
        if one.compensates is not None and one.state is not OperationState.SUCCEEDED:
            return f"{one.compensates} was to be compensated, and that is {one.state}"
    for step in history.steps:
        if step.state is StepState.OPEN and step.kind in ("child", "compensate"):
            return f"{step.position} is not over"
    report = compensated(history)
    return None if report is None or report.complete else f"its compensation is incomplete: {report.summary()}"


MAY_DECIDE_ANEW: Mapping[RunState, RunEvent] = {
    RunState.WAITING: RunEvent.RELEASE,
    RunState.HELD: RunEvent.RESUME,
    RunState.FAILED: RunEvent.RESUME,
    RunState.SUCCEEDED: RunEvent.REOPEN,
    RunState.COMPENSATED: RunEvent.REOPEN,
}
"""The states in which nobody is at work on a run and nothing else is under way, and how it goes on from there."""


def no_new_decision_of(history: History, decision: Step) -> str | None:
    """Why this decision may not be made anew as things stand; None: it may."""
    undone = was_undone_below(history, decision)
    if undone:
        return f"{', '.join(undone)}, on which {decision.position} was decided, was compensated since"
    standing = stands_on(history, decision)
    return f"{', '.join(standing)} came after {decision.position} and stands" if standing else None


def _signal(history: History) -> bool:
    return _waits(history, for_approval=False)


def _approve(history: History) -> bool:
    return _waits(history, for_approval=True)


def _waits(history: History, *, for_approval: bool) -> bool:
    """Whether the run waits for a signal, or for an approval."""
    waits = (step for step in history.steps if step.kind == "wait" and step.state is StepState.OPEN)
    found = any((digest_waited_for(step) is not None) is for_approval for step in waits)
    return found and history.run.state not in FINAL_RUN_STATES


def _cancel(history: History) -> bool:
    return may_be_cancelled(history.run)


def may_be_cancelled(run: Run) -> bool:
    """Whether a cancel would stop anything: the run goes on, and was not asked to stop."""
    return run.state is not RunState.CANCELLING and RUN.allows(run.state, RunEvent.CANCEL)


def _compensate(history: History) -> bool:
    return leaves_something(history) and may_be_compensated(history) and not _any(history, OperationState.UNKNOWN)


def _compensate_step(history: History) -> bool:
    return bool(goes_back_alone(history))


def goes_back_alone(history: History) -> list[str]:
    """The positions of the effects that a person may have compensated by themselves, if they declare how.

    None where only one effect stands: it is the same as compensating the run.
    """
    if not may_be_compensated(history) or _any(history, OperationState.UNKNOWN):
        return []
    gone = undone(history.operations)
    standing = [one for one in history.operations if _stands(one) and one.position not in gone]
    alone = [one.position for one in standing if no_compensation_by_itself(history, one) is None]
    return alone if len(standing) > 1 else []


def no_compensation_by_itself(history: History, operation: Operation) -> str | None:
    """Why this effect alone may not be compensated now; None: it may, if it declares how."""
    position = operation.position
    if operation.compensates is not None:
        return f"{position} is itself a compensation"
    if operation.state is not OperationState.SUCCEEDED:
        return f"{position} is {operation.state}, and only what is known to have happened is compensated"
    if position in undone(history.operations):
        return f"{position} was compensated before"
    if any(step.kind == "compensate" and step.state is StepState.OPEN for step in history.steps):
        return "the run has begun to go back already, and is not over with that"
    above = resting_on(position, history.operations)
    return f"{', '.join(above)} came after {position}, rests on it, and stands or may" if above else None


def leaves_something(history: History) -> bool:
    """Whether an effect of the run, or an earlier turn or a child of it that may have had some, stands."""
    return (
        any(map(_stands, history.operations))
        or history.run.turn > 0
        or any(child.parent_step is not None for child in history.children)
    )


def _stands(operation: Operation) -> bool:
    return operation.state is OperationState.SUCCEEDED and operation.compensates is None


def may_be_compensated(history: History) -> bool:
    """Whether a person may start the run's compensation: nobody is at work on it."""
    busy = history.run.state in (RunState.RUNNING, RunState.COMPENSATING)
    return not busy and RUN.allows(history.run.state, RunEvent.COMPENSATE)


def _terminate(history: History) -> bool:
    return RUN.allows(history.run.state, RunEvent.TERMINATE)


def _migrate(history: History) -> bool:
    """Offered where it may help: to a run that is held since the code tells another story than its history."""
    hold = json.loads(history.run.hold or "{}")
    return history.run.state is RunState.HELD and hold.get("reason") == HistoryMismatch.__name__


APPLIES: dict[str, Callable[[History], bool]] = {
    "settle": _settle,
    "settle conflict": _settle_conflict,
    "reconcile": _reconcile,
    "resume": _resume,
    "retry": _retry,
    "forward": _forward,
    "redecide": _redecide,
    "approve": _approve,
    "signal": _signal,
    "cancel": _cancel,
    "compensate": _compensate,
    "compensate step": _compensate_step,
    "migrate": _migrate,
    "terminate": _terminate,
    "reopen": _reopen,
}
"""Each verb and when it applies, the most likely to help first."""


def verbs_for(history: History) -> list[str]:
    """The verbs that apply to a run as it is, for screens."""
    return [verb for verb, applies in APPLIES.items() if applies(history)]
