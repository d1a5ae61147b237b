"""Which of the verbs apply to a run as it is: the one table that screens offer from and verbs refuse by.

A verb that is offered is not refused, unless the run has moved in between. What each does is in `verbs`.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from fencepost.core.errors import HistoryMismatch
from fencepost.core.records import History, Operation
from fencepost.core.states import FINAL_RUN_STATES, OperationState, RunState, StepState
from fencepost.core.transitions import RUN, RunEvent


def lacks_result(operation: Operation) -> bool:
    """Whether the operation is known to have happened, and what it returned is not."""
    return operation.state is OperationState.SUCCEEDED and operation.result is None


def _any(history: History, *states: OperationState) -> bool:
    return any(operation.state in states for operation in history.operations)


def _settle(history: History) -> bool:
    return _any(history, OperationState.UNKNOWN) or any(map(lacks_result, history.operations))


def _resume(history: History) -> bool:
    return history.run.state in (RunState.HELD, RunState.FAILED)


def _retry(history: History) -> bool:
    return history.run.state is RunState.HELD and _any(history, OperationState.FAILED)


def _signal(history: History) -> bool:
    waits = any(step.kind == "wait" and step.state is StepState.OPEN for step in history.steps)
    return waits and history.run.state not in FINAL_RUN_STATES


def _cancel(history: History) -> bool:
    return history.run.state is not RunState.CANCELLING and RUN.allows(history.run.state, RunEvent.CANCEL)


def _compensate(history: History) -> bool:
    return leaves_something(history) and may_be_compensated(history) and not _any(history, OperationState.UNKNOWN)


def leaves_something(history: History) -> bool:
    """Whether an effect of the run, or a child that may have had some, stands."""
    effects = any(one.state is OperationState.SUCCEEDED and one.compensates is None for one in history.operations)
    return effects or any(child.parent_step is not None for child in history.children)


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


VERBS: dict[str, Callable[[History], bool]] = {
    "settle": _settle,
    "resume": _resume,
    "retry": _retry,
    "signal": _signal,
    "cancel": _cancel,
    "compensate": _compensate,
    "migrate": _migrate,
    "terminate": _terminate,
}
"""Each verb and when it applies, the most likely to help first."""


def verbs_for(history: History) -> list[str]:
    """The verbs that apply to a run as it is, for screens."""
    return [verb for verb, applies in VERBS.items() if applies(history)]
