"""Makes a run's effects acceptable again, each by an operation of its own: what rests on others first.

What is unknown is settled before anything is compensated, the step that failed included. Every compensation has its
own key, contract and budget, its inputs come from the ledger, and one that fails stays visible in the report: what it
rests on is held back, everything else goes on. The turns that a run has had before are compensated behind its last one,
under rows of the last one. A workflow, a person and a declared policy all come here; `undoing` compensates one effect.
The order and the name of the result are decided in `core.compensation`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING

from fencepost.core.asks import CompensateAsk, Raised
from fencepost.core.compensation import AttachedChild, foundations, order, to_settle_first
from fencepost.core.decisions import KIND
from fencepost.core.errors import CompensationIncomplete, HistoryMismatch
from fencepost.core.records import History, Operation, Run, Step
from fencepost.core.recovery import HoldReason
from fencepost.core.states import RunState, StepState
from fencepost.core.transitions import RunEvent
from fencepost.effects.conclusion import Concluded, Conclusion, Holding, Later, Superseded
from fencepost.runtime.blame import failure_text
from fencepost.runtime.children import COMPENSATED_WITHIN, LOOK_AGAIN, child_as_it_stands, compensate_child
from fencepost.runtime.closing import lead_run
from fencepost.runtime.leftovers import lead_leftover
from fencepost.runtime.replay import ON_FAILURE, begun_by_persons
from fencepost.runtime.report import CompensatedEffect, CompensationReport
from fencepost.runtime.undoing import Standing, as_it_stands, holds_back, undo

if TYPE_CHECKING:
    from fencepost.runtime.execution import Execution


async def compensate(execution: Execution, ask: CompensateAsk) -> Conclusion:
    """Compensate everything that stands, or the one effect that is meant; concludes with the report as the answer."""
    execution.blocked.goes_back = True
    begun = await _begin(execution, ask)
    if begun is not None:
        return begun
    await execution.quiet()
    past = await asyncio.to_thread(_earlier_turns, execution)
    unsettled = await _settle_first(execution) or _disputed(past)
    if unsettled is not None:
        return unsettled
    effects: list[CompensatedEffect] = []
    for one in await asyncio.to_thread(_turns, execution, past):
        stopped = await one.compensate(execution, ask, effects)
        if stopped is not None:
            return stopped
    report = CompensationReport(ask.reason, tuple(effects))
    execution.report = report
    execution.blocked.goes_back = False
    now = execution.host.store.now()
    text = report.as_text()
    is_answer = not execution.by_person and not ask.position.startswith(ON_FAILURE)
    execution.positions.finish(ask.position, text, execution.delivered + 1 if is_answer else None, now)
    for before in begun_by_persons(execution.positions.steps.values()) if execution.by_person else ():
        if before.position != ask.position:
            execution.positions.finish(before.position, text, None, now)
    return Concluded(execution.positions.flush(), [], now, text)


async def compensate_as_declared(execution: Execution) -> None:
    """Compensate a run of a workflow that declares it (`on_failure`), if its code has raised; else do nothing.

    A compensation that its code has asked for itself is not done once more. One that has begun is gone through with: a
    run whose code has been changed meanwhile, so that it would go on, is held before any further effect.
    """
    ending = execution.driver.ending
    if execution.by_person or execution.is_over():
        return
    if _has_begun(execution) and (execution.workflow.on_failure != "compensate" or not isinstance(ending, Raised)):
        execution.hold_for(_goes_on(execution), at=_on_failure(execution))
        return
    if (
        execution.workflow.on_failure != "compensate"
        or not isinstance(ending, Raised)
        or isinstance(ending.error, CompensationIncomplete)
        or execution.report is not None
        or execution.state not in (RunState.RUNNING, RunState.COMPENSATING)
    ):
        return
    reason = f"its code raised: {failure_text(ending.error)}"
    position = _on_failure(execution)
    execution.note(position, await compensate(execution, CompensateAsk(position, reason)))


def _on_failure(execution: Execution) -> str:
    """The position of the compensation that is declared; a decision that is made anew has one of its own."""
    number = sum(step.kind == KIND for step in execution.history.steps)
    return f"{ON_FAILURE}#{number + 1}" if number else ON_FAILURE


def _has_begun(execution: Execution) -> bool:
    step = execution.positions.steps.get(_on_failure(execution))
    return step is not None and step.state is StepState.OPEN


def _goes_on(execution: Execution) -> HistoryMismatch:
    return HistoryMismatch(
        "the run goes back since its code raised, and the code as it is now would go on",
        hint="deploy the code that it began with, and resume; or compensate the run by hand",
        ids={"run": execution.history.run.id},
    )


# -- what must be so before -------------------------------------------------------------------------------------------


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
        if isinstance(conclusion, Holding):
            conclusion.at = operation.position
        if isinstance(conclusion, Later | Holding | Superseded):
            return conclusion
        execution.moves += conclusion.moves
        execution.observations += conclusion.observations
    return None


def _disputed(past: Iterable[History]) -> Holding | None:
    """An effect of an earlier turn that contradicts itself; nothing else of it can be unsettled."""
    for history in past:
        for operation in to_settle_first(history.operations):
            standing = Standing(operation, history.run.turn)
            detail = f"settle it with --conflict --turn {history.run.turn}, then resume the run"
            return Holding(reason=HoldReason.CONFLICT.value, detail=detail, at=standing.place)
    return None


def _earlier_turns(execution: Execution) -> list[History]:
    """The turns of before in which something was sent or a child was started, the last one first."""
    run, store = execution.history.run, execution.host.store
    return store.load_all(store.turns_with_effects(run)) if run.turn else []


# -- turn by turn -----------------------------------------------------------------------------------------------------


class _Turn:
    """What stands of one turn of the run; `number` is None for the turn that is at work."""

    def __init__(self, history: History, steps: Iterable[Step], number: int | None, children: Iterable[Run]) -> None:
        self._number = number
        self._operations = history.operations
        delivered = {step.position: step.delivered for step in steps if step.kind == "child"}
        self._children = [
            AttachedChild(child.parent_step, child, delivered.get(child.parent_step))
            for child in children
            if child.parent_step is not None
        ]

    async def compensate(
        self, execution: Execution, ask: CompensateAsk, effects: list[CompensatedEffect]
    ) -> Conclusion | None:
        """Compensate what stands of it and append what became of each; or what stops the compensation for now.

        What is not settled for an unknown effect of a child is asked again: that child is compensated in its own place,
        which settles it, and the whole is gone through once more when it has ended.
        """
        if ask.only is None and any(child.run.ended_at is None for child in self._children):
            return Later(until=execution.host.now() + self._within, why="a child has not ended")
        in_order = order(self._operations, self._children)
        rests_on = foundations(self._operations)
        held: dict[str, str] = {}
        for one in in_order:
            outcome = await self._compensate_one(execution, one, ask, held_by=held.get(one.position))
            if outcome is None:
                continue
            if not isinstance(outcome, CompensatedEffect):
                return outcome
            effects.append(outcome)
            if one.position in held or holds_back(execution, one, outcome):
                held.update((below, outcome.effect) for below in rests_on.get(one.position, ()) if below not in held)
        return None

    async def _compensate_one(
        self, execution: Execution, one: Operation | AttachedChild, ask: CompensateAsk, *, held_by: str | None
    ) -> CompensatedEffect | Conclusion | None:
        """What became of one effect, or of a child; None where it has nothing."""
        if isinstance(one, AttachedChild):
            return await self._compensate_child(execution, one, ask)
        standing = Standing(one, self._number)
        if ask.only not in (None, standing.place):
            return as_it_stands(execution, standing)
        return await undo(execution, standing, ask, held_by=held_by)

    async def _compensate_child(
        self, execution: Execution, child: AttachedChild, ask: CompensateAsk
    ) -> CompensatedEffect | Conclusion | None:
        """What became of a child's effects, which it compensates itself; None where it has none."""
        if ask.only is None:
            outcome = await compensate_child(execution, child.run, ask, within=self._within)
        else:
            outcome = await child_as_it_stands(execution, child.run)
        if isinstance(outcome, tuple):
            became, why = outcome
            return CompensatedEffect(child.position, became, child.run.id, why)
        return outcome

    @property
    def _within(self) -> int:
        """How soon to look again for a child: its end wakes the turn that has started it, and no later one."""
        return COMPENSATED_WITHIN if self._number is None else LOOK_AGAIN


def _turns(execution: Execution, past: Iterable[History]) -> list[_Turn]:
    """The run's turns that left something, as they stand now, the last one first."""
    history, steps = execution.history, execution.positions.steps.values()
    history = History(history.run, operations=list(execution.operations.values()))
    has_children = any(step.kind == "child" for step in steps)
    children = execution.host.store.children(history.run.no) if has_children else []
    return [
        _Turn(history, steps, None, children),
        *(_Turn(one, one.steps, one.run.turn, one.children) for one in past),
    ]
