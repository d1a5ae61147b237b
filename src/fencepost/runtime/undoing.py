"""Compensates one effect that stands: under whose right, after which policy, by an operation of its own.

Whether it may begin is asked each time before anything of it is sent: who has started it, whether something that rests
on the effect still stands, whether anything is unknown, and last the policy, whose verdict is kept. What a refusal
leaves is a row that says so, and nothing at the target. In which order effects come here is `compensating`'s matter.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fencepost.core.compensation import AttachedChild, may_begin_in, may_start
from fencepost.core.errors import ErrorRecord, Permanent
from fencepost.core.position import effect_position, of_turn
from fencepost.core.records import VERDICT, Observation, Operation
from fencepost.core.recovery import in_the_way
from fencepost.core.states import OperationState
from fencepost.effects.compensation import Compensation
from fencepost.effects.conclusion import Conclusion, Holding, Later, Superseded
from fencepost.effects.declare import Bound, Effect
from fencepost.effects.entry import Entry
from fencepost.effects.policy import PolicyFailed, Verdict
from fencepost.effects.policy import ask as ask_policy
from fencepost.effects.promises import Stands
from fencepost.runtime.children import unknown_below
from fencepost.runtime.intent import new_operation
from fencepost.runtime.leftovers import effect_named, nobody
from fencepost.runtime.performing import rest
from fencepost.runtime.report import LEFT, CompensatedEffect
from fencepost.runtime.workflow import COMPENSATION

if TYPE_CHECKING:
    from fencepost.core.asks import CompensateAsk
    from fencepost.runtime.execution import Execution

_KNOWN = (OperationState.SUCCEEDED, OperationState.FAILED)
_NOT_BEGUN = (OperationState.RESERVED, OperationState.CANCELLED)
"""Of a compensation in these states nothing is on its way; a person has asked for it again, or it was held back."""


@dataclass(frozen=True, slots=True)
class Standing:
    """An effect that has happened; `turn` is the earlier turn whose it is, None if that of the run at work."""

    operation: Operation
    turn: int | None = None

    @property
    def step(self) -> str:
        """Its step, as the turn at work calls it."""
        return self.operation.step if self.turn is None else of_turn(self.turn, self.operation.step)

    @property
    def place(self) -> str:
        """Its position, as the turn at work calls it."""
        return effect_position(self.step, self.operation.item)

    def told(self, outcome: str, why: str = "") -> CompensatedEffect:
        """What became of it."""
        return CompensatedEffect(self.place, outcome, self.operation.reference, why)


async def undo(
    execution: Execution, standing: Standing, ask: CompensateAsk, *, held_by: str | None
) -> CompensatedEffect | Conclusion:
    """What became of one effect, or the conclusion that stops the compensation for now.

    `held_by` names an effect that rests on this one and was not compensated.
    """
    effect = effect_named(execution, standing.operation.effect)
    terms = None if effect is None else effect.declared.compensate
    if isinstance(terms, Stands):
        return standing.told("stands as declared")
    if effect is None or terms is None:
        return standing.told("no compensation")
    position = _position(standing)
    known = execution.operations.get(position)
    if known is None or known.state in _NOT_BEGUN:
        barred = _barred(terms, standing, ask, held_by) or await _may_not_begin(execution, standing, effect, terms)
        if barred is not None:
            if known is not None and known.state is OperationState.RESERVED and not isinstance(barred, Later):
                execution.moves += _entry(execution, known, terms).withdraw(execution.host.store.now())
            return barred
    if known is None or known.state not in _KNOWN:
        otherwise = await _lead(execution, standing, effect, terms, known)
        if otherwise is not None:
            return otherwise
        known = execution.operations[position]
    return _told(standing, terms, known)


def as_it_stands(execution: Execution, standing: Standing) -> CompensatedEffect:
    """What is to be said of an effect that nobody asks to compensate now, which may have been done before."""
    effect = effect_named(execution, standing.operation.effect)
    terms = None if effect is None else effect.declared.compensate
    if isinstance(terms, Stands):
        return standing.told("stands as declared")
    known = execution.operations.get(_position(standing))
    if isinstance(terms, Compensation) and known is not None and known.state in _KNOWN:
        return _told(standing, terms, known)
    return standing.told(LEFT if isinstance(terms, Compensation) else "no compensation")


def _position(standing: Standing) -> str:
    """Where the effect's compensation is, or will be."""
    return effect_position(COMPENSATION + standing.step, standing.operation.item)


def _told(standing: Standing, terms: Compensation, known: Operation) -> CompensatedEffect:
    """What became of an effect by its compensation, as that stands."""
    if known.state is OperationState.SUCCEEDED:
        return standing.told("restored" if terms.restores else "compensated")
    verdict = json.loads(known.policy or "{}")
    if verdict.get("verdict") == "refused":
        return standing.told("refused", str(verdict.get("why", "")))
    return standing.told("failed", "" if known.error is None else ErrorRecord.from_text(known.error).message)


def holds_back(execution: Execution, one: Operation | AttachedChild, outcome: CompensatedEffect) -> bool:
    """Whether what this effect rests on is held back, since it was not compensated."""
    if outcome.is_done or isinstance(one, AttachedChild):
        return False
    effect = effect_named(execution, one.effect)
    terms = None if effect is None else effect.declared.compensate
    return not isinstance(terms, Compensation) or terms.on_failure == "hold"


# -- whether it may begin ---------------------------------------------------------------------------------------------


def _barred(
    terms: Compensation, standing: Standing, ask: CompensateAsk, held_by: str | None
) -> CompensatedEffect | None:
    if not may_start(terms.by, ask.roles):
        return standing.told("not permitted", f"only {terms.starters} may start it")
    return None if held_by is None else standing.told("held back", f"{held_by} rests on it and still stands")


async def _may_not_begin(
    execution: Execution, standing: Standing, effect: Effect[..., Any], terms: Compensation
) -> CompensatedEffect | Later | None:
    """Why this compensation may not begin: another operation is unknown, or an old request may still land after it."""
    unknown = in_the_way((entry.operation for entry in execution.open.values()), terms.effect.contract)
    below = await unknown_below(execution, standing.operation.run) if _has_children(execution, standing) else None
    if unknown or below:
        which = unknown[0].position if unknown else below
        return standing.told("not settled", f"{which} is unknown")
    moment = execution.host.moment(execution.owned_since, standing.operation.scope)
    until = execution.host.store.now() + may_begin_in(standing.operation, effect.contract, moment)
    if await rest(execution, until):
        return None
    return Later(until=until, why="an old request of the effect may still land")


def _has_children(execution: Execution, standing: Standing) -> bool:
    """Whether a child may be unknown beside it; of an earlier turn that is not known here."""
    return standing.turn is not None or bool(execution.history.children)


def _verdict(execution: Execution, bound: Bound[Any], terms: Compensation) -> Verdict | None:
    """What the policies say now: that of the compensating effect, and that of the terms; None: there is none.

    Raises:
        PolicyFailed: there is no verdict. Nothing is written, so that it is asked anew once it is mended.
    """
    verdict: Verdict | None = None
    for policy in (bound.effect.declared.policy, terms.policy):
        if policy is not None and (verdict is None or verdict.allows):
            verdict = ask_policy(policy, execution.history.run.principal, *bound.args, **bound.kwargs)
    return verdict


# -- leading it -------------------------------------------------------------------------------------------------------


async def _lead(
    execution: Execution, standing: Standing, effect: Effect[..., Any], terms: Compensation, known: Operation | None
) -> CompensatedEffect | Conclusion | None:
    """Lead the compensating operation as far as it goes; None where its row says what became of it."""
    entry, bound = _intended(execution, standing, effect, terms, known)
    if entry.operation.state is OperationState.RESERVED:
        try:
            verdict = _verdict(execution, bound, terms)
        except PolicyFailed as error:
            return Holding(reason=type(error).__name__, detail=str(error), at=entry.operation.position)
        if verdict is not None and not _allowed(execution, entry, verdict):
            return None
    execution.operations[entry.operation.position] = entry.operation
    conclusion = await execution.lead(
        entry,
        bound,
        nobody,
        new=known is None,
        minds_below=standing.turn is None and _has_children(execution, standing),
    )
    if isinstance(conclusion, Later | Superseded):
        return conclusion
    execution.moves += conclusion.moves
    execution.observations += conclusion.observations
    if not isinstance(conclusion, Holding):
        return None
    execution.moves += conclusion.with_hold  # the run is not held: the report shows that it failed
    if entry.operation.state is OperationState.UNKNOWN:
        # Law 3: while this one is unknown no other compensation begins, and only a person can settle it.
        return Holding(reason=conclusion.reason, detail=conclusion.detail, at=entry.operation.position)
    return None if entry.operation.state in _KNOWN else standing.told("not settled", conclusion.reason)


def _intended(
    execution: Execution, standing: Standing, effect: Effect[..., Any], terms: Compensation, known: Operation | None
) -> tuple[Entry, Bound[Any]]:
    """The compensating operation; its arguments are the effect's own, its result and its reference."""
    operation, undoing = standing.operation, terms.effect
    args, kwargs = effect.arguments.decode(operation.request)
    result = None if operation.result is None else effect.results.decode(operation.result)
    bound: Bound[Any] = Bound(undoing, (*args, *kwargs.values(), result, operation.reference), {})
    bound.performed = True
    if known is not None:
        bound.args, bound.kwargs = undoing.arguments.decode(known.request)
        entry = _entry(execution, known, terms)
        if known.state is OperationState.CANCELLED:
            execution.moves.append(entry.ask_again(execution.host.store.now()))
        return entry, bound
    entry = new_operation(
        execution.history.run, bound, step=COMPENSATION + standing.step, item=operation.item,
        scope=execution.host.scope_of(undoing), owner=execution.owner,
    )  # fmt: skip
    entry.operation.compensates = standing.place
    return entry, bound


def _allowed(execution: Execution, entry: Entry, verdict: Verdict) -> bool:
    """Keep the verdict; what is refused gets a row that says so, and nothing of it is sent."""
    operation, now = entry.operation, execution.host.store.now()
    operation.policy = verdict.as_text()
    if not entry.is_new:
        seen = Observation(VERDICT, None, operation.policy, now)
        execution.observations.append(entry.observe(seen))
    if verdict.allows:
        return True
    execution.operations[operation.position] = operation
    execution.moves += entry.refuse(ErrorRecord.of(Permanent, f"refused by policy: {verdict.why}").as_text(), now)
    return False


def _entry(execution: Execution, known: Operation, terms: Compensation) -> Entry:
    return Entry(known, terms.effect.contract, execution.owner)
