"""A new decision: a model is asked again where its stored answer was wrong, and the run goes on from there.

Nothing is changed of what was recorded. The model's step, and whatever the code asks for after it and is no effect,
stands under a path of its own from then on. Effects stay where they are with their keys: those that the new decision
leads to again return what is recorded, and are not sent twice. Which decisions count is `core.decisions`; whether a run
may be decided anew, `applicable`; what the driver does with it, `core.driver`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fencepost.core.contract import Contract
from fencepost.core.decisions import KIND, decisions
from fencepost.core.errors import Misuse, VerbRefused
from fencepost.core.identity import canonical
from fencepost.core.position import REDECIDE, ROOT, version_path
from fencepost.core.records import History, Run, Step
from fencepost.core.states import OperationState, StepState
from fencepost.core.transitions import STEP, StepEvent
from fencepost.effects.entry import Entry, Owner
from fencepost.runtime.applicable import MAY_DECIDE_ANEW, no_new_decision, no_new_decision_of
from fencepost.runtime.deeds import Deed, Desk, perform
from fencepost.runtime.moves import move_run
from fencepost.store.moves import MoveStep, OpenStep

if TYPE_CHECKING:
    from fencepost.store.moves import Move


def redecide(
    app: Desk, run: Run, *, step: str | None = None, by: str, reason: str, override: bool = False,
    version: int | None = None,
) -> Run:  # fmt: skip
    """Have one decision of a run's model made anew: that at position `step`, or the only one that it has.

    Refused while effects that came after it stand. `override`: the person takes them upon themselves; they stay as they
    are, and if the workflow asks for one of them again it gets what is recorded.
    """

    def deed(history: History, now: int) -> Deed:
        decision = _permitted(history, step, override=override)
        number = 1 + sum(one.kind == KIND for one in history.steps)
        position = f"{REDECIDE}{number}"
        place = 1 + max(history.run.delivered, *_places(history))
        since = decision.delivered or 0
        told = {one.position: one.delivered for one in history.operations if one.delivered and one.delivered >= since}
        detail = canonical({"by": by, "why": reason, "from": since, "override": override, "effects": told})
        opened = OpenStep(
            run.no, history.run.generation, position, KIND, decision.name, "", decision.version, StepState.DONE.value,
            None, detail, decision.position, None, place, None, now, now,
        )  # fmt: skip
        goes_on = move_run(history.run, MAY_DECIDE_ANEW[history.run.state], now)
        moves = [*_withdrawn(history, now), *_effects(history, set(told), now), opened]
        moves.append(goes_on._replace(delivered=place, wake_at=now))
        return Deed(moves, step=decision.position, anew=_anew(history, decision, position))

    asked = {"step": step, "override": override}
    return perform(
        app, run, "redecide", by=by, reason=reason, version=version, deed=deed, override=override, asked=asked
    ).run


def _permitted(history: History, step: str | None, *, override: bool) -> Step:
    """The decision that is to be made anew. Raises `VerbRefused` where it may not be, as things stand."""
    why = no_new_decision(history)
    if why is not None:
        raise VerbRefused(why, hint="`fencepost show` lists the verbs", ids={"run": history.run.id})
    decision = _chosen(history, step)
    why = None if override else no_new_decision_of(history, decision)
    if why is not None:
        raise VerbRefused(
            why, hint="compensate what stands, or override: then it stays, and is yours to make good",
            ids={"run": history.run.id},
        )  # fmt: skip
    return decision


def _chosen(history: History, step: str | None) -> Step:
    """The decision that is meant, by its position or by the name of its step."""
    found = decisions(history)
    known = ", ".join(one.position for one in found) or "none"
    if step is not None:
        found = [one for one in found if one.position == step] or [one for one in found if one.name == step]
    if len(found) == 1:
        return found[0]
    what = "has no such decision" if not found else "has more than one decision"
    raise Misuse(
        f"the run {what}" + ("" if step is None else f": {step}"),
        hint=f"say which one by its position; its decisions are: {known}",
        ids={"run": history.run.id},
    )


def _anew(history: History, decision: Step, position: str) -> str:
    """Where the new decision will stand."""
    last = next((one for one in reversed(_versions(history)) if decision.position.startswith(version_path(one))), None)
    return version_path(position) + decision.position.removeprefix(ROOT if last is None else version_path(last))


def _versions(history: History) -> list[str]:
    return [one.position for one in history.steps if one.kind == KIND]


def _places(history: History) -> list[int]:
    return [0, *(one.delivered or 0 for one in history.steps), *(one.delivered or 0 for one in history.operations)]


def _withdrawn(history: History, now: int) -> list[Move]:
    """What is waited for is waited for no longer: where the code still asks for it, it does so under its new path."""
    to = STEP.after(StepState.OPEN, StepEvent.CANCEL)
    return [
        MoveStep(
            history.run.no, history.run.generation, one.position, one.state.value, StepEvent.CANCEL.value, to.value,
            None, None, None, None, None, now,
        )
        for one in history.steps
        if one.state is StepState.OPEN
    ]  # fmt: skip


def _effects(history: History, told: set[str], now: int) -> list[Move]:
    """Effects that the workflow was told of are told again where it asks for them; what was not sent is taken back."""
    owner = Owner("", history.run.generation, history.run.state.value)
    moves: list[Move] = []
    for one in history.operations:
        entry = Entry(one, Contract(one.effect), owner)
        if one.position in told:
            moves.append(entry.deliver(0, now))
        if one.state is OperationState.RESERVED:
            moves += entry.withdraw(now)
    return moves
