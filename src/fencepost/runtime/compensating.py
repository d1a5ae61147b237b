"""Makes a run's effects acceptable again, the last completed first, each by an operation of its own.

What is unknown is settled before anything is compensated. Every compensation has its own key, contract and budget,
its inputs come from the ledger, and one that fails stays visible in the report while independent ones go on. The order
and the name of the result are decided in `core.compensation`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from fencepost.core.asks import CompensateAsk
from fencepost.core.compensation import AttachedChild, may_begin_in, order, to_settle_first
from fencepost.core.errors import ErrorRecord
from fencepost.core.position import effect_position
from fencepost.core.records import Operation
from fencepost.core.recovery import in_the_way
from fencepost.core.states import OperationState, RunState
from fencepost.core.transitions import RunEvent
from fencepost.effects.declare import Bound, Effect
from fencepost.effects.entry import Entry
from fencepost.effects.perform import Concluded, Conclusion, Later, Stopped, Superseded
from fencepost.effects.promises import Stands
from fencepost.runtime.children import COMPENSATED_WITHIN, compensate_child, unknown_below
from fencepost.runtime.closing import lead_run
from fencepost.runtime.intent import new_operation
from fencepost.runtime.leftovers import effect_named, lead_leftover, nobody
from fencepost.runtime.performing import rest
from fencepost.runtime.report import CompensatedEffect, CompensationReport
from fencepost.runtime.workflow import COMPENSATION

if TYPE_CHECKING:
    from fencepost.runtime.execution import Execution


async def compensate(execution: Execution, ask: CompensateAsk) -> Conclusion:
    """Compensate everything that stands; concludes with the report as the workflow's answer."""
    begun = await _begin(execution, ask)
    if begun is not None:
        return begun
    unsettled = await _settle_first(execution)
    if unsettled is not None:
        return unsettled
    effects: list[CompensatedEffect] = []
    children = await asyncio.to_thread(_attached, execution)
    if any(child.run.ended_at is None for child in children):
        return Later(until=execution.host.now() + COMPENSATED_WITHIN, why="a child has not ended")
    for one in order(execution.operations.values(), children):
        outcome = await (
            _compensate_attached(execution, one, ask)
            if isinstance(one, AttachedChild)
            else _compensate_one(execution, one)
        )
        if outcome is None:
            continue
        if not isinstance(outcome, CompensatedEffect):
            return outcome
        effects.append(outcome)
    report = CompensationReport(ask.reason, tuple(effects))
    execution.report = report
    now = execution.host.store.now()
    text = report.as_text()
    number = None if execution.by_person else execution.delivered + 1
    execution.positions.finish(ask.position, text, number, now)
    return Concluded(execution.positions.flush(), [], now, text)


def _attached(execution: Execution) -> list[AttachedChild]:
    """The children that the run has waited for, as they stand now."""
    steps = execution.positions.steps
    if not any(step.kind == "child" for step in steps.values()):
        return []
    found = execution.host.store.children(execution.history.run.no)
    return [
        AttachedChild(child.parent_step, child, steps[child.parent_step].delivered)
        for child in found
        if child.parent_step is not None
    ]


async def _compensate_attached(
    execution: Execution, child: AttachedChild, ask: CompensateAsk
) -> CompensatedEffect | Conclusion | None:
    """What became of a child's effects, which it compensates itself; None where it has none."""
    outcome = await compensate_child(execution, child.run, ask)
    return CompensatedEffect(child.position, outcome, child.run.id) if isinstance(outcome, str) else outcome


async def _begin(execution: Execution, ask: CompensateAsk) -> Superseded | None:
    """Record that compensation has begun, before the first compensating operation is sent."""
    now = execution.host.store.now()
    execution.positions.open_compensation(ask, now)
    moves = execution.positions.flush()
    if execution.state is not RunState.COMPENSATING:
        moves.append(lead_run(execution, RunEvent.COMPENSATE, keep_lease=True))
        await execution.record(moves, [])
        execution.owner.run_state = RunState.COMPENSATING.value
    else:
        execution.moves += moves
    return None if execution.refused is None else Superseded(answer=execution.refused)


async def _settle_first(execution: Execution) -> Conclusion | None:
    for operation in to_settle_first(execution.operations.values()):
        conclusion = await lead_leftover(execution, operation)
        if isinstance(conclusion, Stopped):
            conclusion.at = operation.position
        if isinstance(conclusion, Later | Stopped | Superseded):
            return conclusion
        execution.moves += conclusion.moves
        execution.observations += conclusion.observations
    return None


async def _compensate_one(execution: Execution, operation: Operation) -> CompensatedEffect | Conclusion:
    """What became of one effect, or the conclusion that stops the compensation for now."""
    effect = effect_named(execution, operation.effect)
    declared = effect.declared.compensate if effect is not None else None
    if isinstance(declared, Stands):
        return CompensatedEffect(operation.position, "stands as declared", operation.reference)
    if effect is None or declared is None:
        return CompensatedEffect(operation.position, "no compensation", operation.reference)
    position = effect_position(COMPENSATION + operation.step, operation.item)
    known = execution.operations.get(position)
    if known is None or known.state not in (OperationState.SUCCEEDED, OperationState.FAILED):
        if known is None and (waits := await _may_not_begin(execution, operation, effect, declared)):
            return waits
        conclusion = await _lead(execution, operation, effect, declared, known)
        if isinstance(conclusion, Later | Superseded):
            return conclusion
        execution.moves += conclusion.moves
        if isinstance(conclusion, Stopped):
            execution.moves += conclusion.with_hold  # the run is not held: the report shows that it failed
        execution.observations += conclusion.observations
        known = execution.operations[position]
        if isinstance(conclusion, Stopped) and known.state not in (OperationState.SUCCEEDED, OperationState.FAILED):
            if known.state is OperationState.UNKNOWN:
                # Law 3: while this one is unknown no other compensation begins, and only a person can settle it.
                return Stopped(reason=conclusion.reason, detail=conclusion.detail, at=position)
            return CompensatedEffect(operation.position, "not settled", operation.reference, conclusion.reason)
    if known.state is OperationState.SUCCEEDED:
        return CompensatedEffect(
            operation.position, "restored" if effect.declared.restores else "compensated", operation.reference
        )
    return CompensatedEffect(operation.position, "failed", operation.reference, _message(known))


async def _may_not_begin(
    execution: Execution, operation: Operation, effect: Effect[..., Any], undo: Effect[..., Any]
) -> CompensatedEffect | Later | None:
    """Why this compensation may not begin: another operation is unknown, or an old request may still land after it."""
    unknown = in_the_way((entry.operation for entry in execution.open.values()), undo.contract)
    below = await unknown_below(execution) if execution.history.children else None
    if unknown or below:
        which = unknown[0].position if unknown else below
        return CompensatedEffect(operation.position, "not settled", operation.reference, f"{which} is unknown")
    moment = execution.host.moment(execution.owned_since, operation.scope)
    until = execution.host.store.now() + may_begin_in(operation, effect.contract, moment)
    if await rest(execution, until):
        return None
    return Later(until=until, why="an old request of the effect may still land")


async def _lead(
    execution: Execution,
    operation: Operation,
    effect: Effect[..., Any],
    undo: Effect[..., Any],
    known: Operation | None,
) -> Conclusion:
    """Lead the compensating operation; its arguments are the effect's own, its result and its reference."""
    args, kwargs = effect.arguments.decode(operation.request)
    result = None if operation.result is None else effect.results.decode(operation.result)
    bound: Bound[Any] = Bound(undo, (*args, *kwargs.values(), result, operation.reference), {})
    bound.performed = True
    if known is None:
        run = execution.history.run
        entry = new_operation(
            run,
            bound,
            step=COMPENSATION + operation.step,
            item=operation.item,
            scope=execution.host.scope_of(undo),
            owner=execution.owner,
        )
        entry.operation.compensates = operation.position
        execution.operations[entry.operation.position] = entry.operation
    else:
        bound.args, bound.kwargs = undo.arguments.decode(known.request)
        entry = Entry(known, undo.contract, execution.owner)
    return await execution.lead(entry, bound, nobody, new=known is None)


def _message(operation: Operation) -> str:
    return "" if operation.error is None else ErrorRecord.from_text(operation.error).message
