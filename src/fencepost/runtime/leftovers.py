"""Leads an operation that its workflow no longer waits for to its outcome, by the effect's name alone.

A race's loser, a cancelled branch, or what must be known before a compensation: the result is kept and delivered to
nobody. The effect is found among those that the workflow's code refers to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fencepost.core.records import Operation
from fencepost.core.states import FINAL_OPERATION_STATES
from fencepost.effects.declare import Bound, Effect
from fencepost.effects.entry import Entry
from fencepost.effects.perform import Conclusion, Stopped, perform
from fencepost.runtime.performing import Hands, RunClock

if TYPE_CHECKING:
    from fencepost.runtime.execution import Execution

NO_SUCH_EFFECT = "the effect is not in the code"


def effect_named(execution: Execution, name: str) -> Effect[..., Any] | None:
    """The effect of that name that the workflow refers to, or None."""
    return next((effect for effect in execution.workflow.effects if effect.name == name), None)


async def lead_leftover(execution: Execution, operation: Operation) -> Conclusion:
    """Lead the operation as far as it goes now; its result is delivered to nobody."""
    effect = effect_named(execution, operation.effect)
    if effect is None:
        return Stopped(reason=NO_SUCH_EFFECT, detail=f"no effect named {operation.effect!r} is declared any more")
    args, kwargs = effect.arguments.decode(operation.request)
    bound: Bound[Any] = Bound(effect, args, kwargs)
    bound.performed = True
    scope = execution.host.outside.scope(effect.declared.scope, effect.declared.target)
    entry = Entry(operation, effect.contract, execution.owner)
    clock = RunClock(execution.host, execution.owned_since, scope)
    execution.open[operation.position] = entry
    conclusion = await Hands(execution.host, execution, bound).lead(perform(entry, effect, clock, _nobody, new=False))
    if operation.state in FINAL_OPERATION_STATES:
        execution.open.pop(operation.position, None)
    return conclusion


def _nobody() -> None:
    return None
