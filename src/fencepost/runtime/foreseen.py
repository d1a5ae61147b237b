"""What compensating a run would come to, effect by effect and in which order, before anything of it is done.

It reads the ledger and the declarations of the code at hand, and asks nobody: a policy, a look-up or a target may
decide otherwise when it is done. Doing it is `compensating`; the order is decided in `core.compensation`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from fencepost.core.compensation import UNSETTLED, AttachedChild, order
from fencepost.core.position import effect_position, of_turn
from fencepost.core.records import History, Operation, Run
from fencepost.core.states import OperationState
from fencepost.effects.promises import Stands
from fencepost.runtime.workflow import COMPENSATION, Workflow

if TYPE_CHECKING:
    from fencepost.store.api import Store


class Foreseen(NamedTuple):
    """What would become of one effect, or of a child with all of its effects.

    `will` is "compensate", "restore" (its compensation is declared to bring the former state back), "stands as
    declared", "no compensation", "settle first", "done already", "child", or "code not here": what its effect declares
    is not known to this process. `by` names the effect that would be sent, or the child.
    """

    place: str
    will: str
    by: str = ""
    reference: str | None = None


class Knowing(Protocol):
    """Whose ledger and code it is."""

    workflows: dict[tuple[str, int], Workflow[..., Any]]

    @property
    def store(self) -> Store:
        """The opened ledger's store."""


def foreseen(app: Knowing, run: Run) -> list[Foreseen]:
    """Every effect that may stand, in the order in which it would be compensated; what must be settled comes first."""
    store = app.store
    past = store.load_all(store.turns_with_effects(run)) if run.turn else []
    last = store.load(run.no)
    compensations = {one.position: one for one in last.operations if one.compensates is not None}
    found: list[Foreseen] = []
    for history in (last, *past):
        turn = None if history.run.no == run.no else history.run.turn
        found += _of_turn(app, history, turn, compensations)
    return [one for one in found if one.will == "settle first"] + [one for one in found if one.will != "settle first"]


def _of_turn(
    app: Knowing, history: History, turn: int | None, compensations: Mapping[str, Operation]
) -> Iterator[Foreseen]:
    declared = app.workflows.get((history.run.workflow, history.run.workflow_version))
    for one in history.operations:
        if one.compensates is None and (one.state in UNSETTLED or one.conflict):
            yield Foreseen(_place(one, turn), "settle first", reference=one.reference)
    for each in order(history.operations, _children(history)):
        if isinstance(each, AttachedChild):
            yield Foreseen(each.position, "child", each.run.id)
        elif not each.conflict:
            yield _of_effect(declared, each, turn, compensations)


def _of_effect(
    declared: Workflow[..., Any] | None, operation: Operation, turn: int | None, compensations: Mapping[str, Operation]
) -> Foreseen:
    place, reference = _place(operation, turn), operation.reference
    step = operation.step if turn is None else of_turn(turn, operation.step)
    known = compensations.get(effect_position(COMPENSATION + step, operation.item))
    if known is not None and known.state is OperationState.SUCCEEDED:
        return Foreseen(place, "done already", known.effect, reference)
    effect = None if declared is None else next((e for e in declared.effects if e.name == operation.effect), None)
    if effect is None:
        return Foreseen(place, "code not here", reference=reference)
    terms = effect.declared.compensate
    if terms is None:
        return Foreseen(place, "no compensation", reference=reference)
    if isinstance(terms, Stands):
        return Foreseen(place, "stands as declared", terms.why, reference)
    return Foreseen(place, "restore" if terms.restores else "compensate", terms.name, reference)


def _place(operation: Operation, turn: int | None) -> str:
    step = operation.step if turn is None else of_turn(turn, operation.step)
    return effect_position(step, operation.item)


def _children(history: History) -> list[AttachedChild]:
    delivered = {step.position: step.delivered for step in history.steps if step.kind == "child"}
    return [
        AttachedChild(child.parent_step, child, delivered.get(child.parent_step))
        for child in history.children
        if child.parent_step is not None
    ]
