"""Leads an operation that its workflow no longer waits for to its outcome, by the effect's name alone.

A race's loser, a cancelled branch, or what must be known before a compensation: the result is kept and delivered to
nobody. The effect is found among those that the workflow's code refers to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fencepost.core.contract import Contract
from fencepost.core.records import Operation
from fencepost.effects.conclusion import Conclusion, Holding
from fencepost.effects.declare import Bound, Effect
from fencepost.effects.entry import Entry

if TYPE_CHECKING:
    from fencepost.runtime.execution import Execution
    from fencepost.runtime.recording import Recording

NO_SUCH_EFFECT = "the effect is not in the code"


def effect_named(execution: Recording, name: str) -> Effect[..., Any] | None:
    """The effect of that name that the workflow refers to, or None."""
    return next((effect for effect in execution.workflow.effects if effect.name == name), None)


def contract_of(execution: Recording, operation: Operation) -> Contract:
    """The contract of an operation's effect; of one that is not in the code any more nothing is promised."""
    effect = effect_named(execution, operation.effect)
    return Contract(operation.effect) if effect is None else effect.contract


async def lead_leftover(execution: Execution, operation: Operation) -> Conclusion:
    """Lead the operation as far as it goes now; its result is delivered to nobody."""
    effect = effect_named(execution, operation.effect)
    if effect is None:
        return Holding(reason=NO_SUCH_EFFECT, detail=f"no effect named {operation.effect!r} is declared any more")
    args, kwargs = effect.arguments.decode(operation.request)
    bound: Bound[Any] = Bound(effect, args, kwargs)
    bound.performed = True
    entry = Entry(operation, effect.contract, execution.owner)
    return await execution.lead(entry, bound, nobody, new=False)


def nobody(_position: str) -> None:
    """The delivery of a result that nobody waits for."""
    return
