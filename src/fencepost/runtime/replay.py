"""A run's history as the driver reads it: what the ledger holds at each position, and what was delivered when.

Pure translation of records. Driving the workflow with it is `execution`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from fencepost.core.asks import CompensateAsk, Completion, Recorded
from fencepost.core.compensation import OPERATOR
from fencepost.core.decisions import KIND, Versions
from fencepost.core.driver import Driver
from fencepost.core.errors import ErrorRecord
from fencepost.core.position import CHOSEN, INSTEAD, effect_position
from fencepost.core.records import History, Operation, Step
from fencepost.core.states import FINAL_OPERATION_STATES, OperationState, StepState
from fencepost.runtime.report import CompensationReport
from fencepost.runtime.run import Run

if TYPE_CHECKING:
    from fencepost.runtime.workflow import Workflow


def driver_of(workflow: Workflow[..., Any], history: History, history_length: int) -> Driver:
    """The workflow's driver, before its start: `history_length` of the completions will be delivered again."""
    run = history.run
    return Driver(
        workflow.start,
        run.input,
        run_id=run.id,
        started_at=run.created_at,
        facade=lambda driver: Run(driver, run.principal),
        recorded=recorded(history),
        set_aside=set_aside(history),
        history_length=history_length,
        turn=run.turn,
    )


OPERATORS = "operator:"
"""How positions begin that an operator's verb added, and not the workflow's code."""

AUTHORISE = "authorise:"
"""How positions begin at which a right was asked for when an approval was used: nor did these."""

ON_FAILURE = "on failure:compensate"
"""The position of the compensation that a workflow has declared for the case that its code raises: nor did this."""

_NOT_ASKED_FOR = (OPERATORS, AUTHORISE, ON_FAILURE, CHOSEN)


def recorded(history: History) -> dict[str, Recorded]:
    """What the ledger holds at each position that the workflow's code asked for, as its model decides now."""
    found, versions = {}, Versions(history.steps)
    for step in history.steps:
        if _is_asked_for(step) and versions.has_asked(step):
            found[step.position] = _of_step(step)
    for operation in _effects(history):
        if versions.has_intended(operation):
            found[operation.position] = _of_effect(operation)
    return found


def set_aside(history: History) -> dict[str, Recorded]:
    """What the ledger holds of decisions that were made anew since, where the code may ask for the same again."""
    versions = Versions(history.steps)
    if not versions:
        return {}
    found = {one.position: _of_effect(one) for one in _effects(history) if not versions.has_intended(one)}
    patches = (step for step in history.steps if step.kind == "patch" and not versions.has_asked(step))
    return found | {step.position: _of_step(step) for step in patches}


def _is_asked_for(step: Step) -> bool:
    return step.kind not in ("cancel", "progress", KIND) and not step.position.startswith(_NOT_ASKED_FOR)


def _of_step(step: Step) -> Recorded:
    return Recorded(step.kind, step.name, step.fingerprint, step.version, _is_final(step))


def _effects(history: History) -> list[Operation]:
    """The effects that the workflow's code asked for."""
    return [one for one in history.operations if one.compensates is None and not one.step.startswith(INSTEAD)]


def _of_effect(operation: Operation) -> Recorded:
    final = operation.state in FINAL_OPERATION_STATES
    return Recorded("effect", operation.step, operation.fingerprint, operation.contract_version, final)


def _is_final(step: Step) -> bool:
    """Whether another version may read it: its outcome is known, or a child of its own has begun, which is pinned."""
    return step.state is not StepState.OPEN or step.kind == "child"


def completions(history: History) -> list[Completion]:
    """What was delivered to the workflow and counts, in the order of delivery."""
    found: list[tuple[int, Completion]] = []
    versions = Versions(history.steps)
    for step in history.steps:
        if step.delivered and versions.counts(step.delivered):
            at = step.closed_at if step.closed_at is not None else step.opened_at
            found.append((step.delivered, Completion(step.position, step.result, _error(step.error), at)))
    for operation in history.operations:
        if operation.delivered and versions.counts(operation.delivered):
            payload = operation.result if operation.state is OperationState.SUCCEEDED else None
            error = None if payload is not None else _error(operation.error)
            at = operation.delivered_at or operation.changed_at
            found.append((operation.delivered, Completion(_answers_at(operation), payload, error, at)))
    found.sort(key=lambda one: one[0])
    return [completion for _, completion in found]


def _answers_at(operation: Operation) -> str:
    """Where the workflow has asked for it: what was chosen instead of another effect answers in its place."""
    if not operation.step.startswith(INSTEAD):
        return operation.position
    return effect_position(operation.step.removeprefix(INSTEAD), operation.item)


def chosen(history: History) -> set[str]:
    """The positions of the effects for which a person has chosen another way."""
    return {step.position.removeprefix(CHOSEN) for step in history.steps if step.kind == "forward"}


def wanted_by_person(history: History) -> CompensateAsk | None:
    """The compensation that a person has started and that is not done: the workflow's code has no part in it.

    Of several the last one: it was asked for when what the others had come to was seen.
    """
    asked = begun_by_persons(history.steps)
    if not asked:
        return None
    detail = json.loads(asked[-1].detail or "{}")
    roles = frozenset(detail.get("roles", (OPERATOR,)))
    return CompensateAsk(asked[-1].position, str(detail.get("why", "")), roles=roles, only=detail.get("only"))


def begun_by_persons(steps: Iterable[Step]) -> list[Step]:
    """The compensations that persons have started and that are not done, in their order."""
    found = (step for step in steps if step.position.startswith(OPERATORS) and step.state is StepState.OPEN)
    return sorted(found, key=lambda step: int(step.position.removeprefix(OPERATORS)))


def is_going_back(history: History) -> bool:
    """Whether a compensation that the workflow has asked for, or declared, has begun and is not over."""
    return any(step.kind == "compensate" and step.state is StepState.OPEN for step in history.steps)


def taken_back(history: History) -> int:
    """How many places in the order of deliveries, before the last one that is filled, are empty or count no more."""
    places = [step.delivered for step in history.steps if step.delivered]
    places += [operation.delivered for operation in history.operations if operation.delivered]
    versions = Versions(history.steps)
    return max(places, default=0) - sum(map(versions.counts, places))


def compensated(history: History) -> CompensationReport | None:
    """The report of the compensation that the workflow has received, in whichever life: it names the run's end."""
    versions = Versions(history.steps)
    received = [
        step
        for step in history.steps
        if step.kind == "compensate" and step.delivered and step.result and versions.counts(step.delivered)
    ]
    last = max(received, key=lambda step: step.delivered or 0, default=None)
    return None if last is None else CompensationReport.from_text(last.result or "")


def _error(text: str | None) -> ErrorRecord | None:
    return None if text is None else ErrorRecord.from_text(text)
