"""A run's cancel, layer by layer, as a part of the story's document and as lines for a person.

A layer that was not reached says so. What each layer means is `core.cancellation`; which verb makes acceptable what
stands is in `offers`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from fencepost.console.printable import compact, instant, printable
from fencepost.core.cancellation import CONTAINED, Body, Cancellation, OperationLayers, ProviderCancel, Seen, StepLayers
from fencepost.core.states import label

if TYPE_CHECKING:
    from fencepost.console.story import Document, Told
    from fencepost.core.records import History

_WIDTH = 12
_CLOCK = slice(11, 23)


def cancellation(history: History, told: Told) -> Document | None:
    """The part of the document: `asked`, `accepted`, `effects`, `steps`, `children`, `stands` and `unsettled`."""
    found: Cancellation | None = history.cancellation
    if found is None:
        return None
    return {
        "asked": {"who": found.who, "why": found.why, "at": instant(found.asked_at)},
        "accepted": [_seen(one, told) for one in found.accepted],
        "effects": [_operation(one, told) for one in found.operations],
        "steps": [_step(one, told) for one in found.steps],
        "children": [
            {"id": one.id, "attached": one.attached, "state": one.state.value, "label": label(one.state)}
            for one in found.children
        ],
        "stands": [{"position": one.position, "reference": one.reference} for one in found.stands],
        "unsettled": [one.position for one in found.unsettled],
    }


def _seen(seen: Seen, told: Told) -> Document:
    return {"at": instant(seen.at), "how": seen.how, "owner": told.owner(seen.lease, seen.generation)}


def _provider(one: ProviderCancel, told: Told) -> Document:
    return {
        "sent_at": instant(one.sent_at),
        "answered_at": instant(one.answered_at),
        "answer": told.payload(one.answer),
        "owner": told.owner(one.lease, one.generation),
    }


def _operation(one: OperationLayers, told: Told) -> Document:
    owner = told.owner(one.lease, None)
    return {
        "position": one.position,
        "state": one.state.value,
        "label": label(one.state),
        "told": [_seen(seen, told) for seen in one.told],
        "provider": [_provider(cancel, told) for cancel in one.provider],
        "body": one.body.value,
        "body_ended_at": instant(one.body_ended_at),
        "body_in": owner,
        "dispatched_at": instant(one.dispatched_at),
        "reference": one.reference,
        "looked_up_at": instant(one.looked_up_at),
        "looked_up": one.looked_up,
    }


def _step(one: StepLayers, told: Told) -> Document:
    lease = one.told[-1].lease if one.told else None
    return {
        "position": one.position,
        "told": [_seen(seen, told) for seen in one.told],
        "body": one.body.value,
        "body_ended_at": instant(one.body_ended_at),
        "body_in": told.owner(lease, None),
    }


# -- lines ------------------------------------------------------------------------------------------------------------


def layers(found: Document | None) -> Iterator[str]:
    """The lines of the screen; none for a run that nobody has asked to stop."""
    if found is None:
        return
    asked = found["asked"]
    yield ""
    yield "cancel"
    yield _line("requested", f"{asked['at']}  by {printable(asked['who'])}: {printable(asked['why'])}")
    accepted = [f"{one['at']}  by {_worker(one['owner'])}" for one in found["accepted"]]
    yield from _lines("accepted", accepted or ["no worker has heard of it yet"])
    for effect in found["effects"]:
        yield from _effect(effect)
    for step in found["steps"]:
        yield f"  {printable(step['position'])}"
        yield from _of_body(step)
    for child in found["children"]:
        what = "cancelled with it" if child["attached"] else "detached, left alone"
        yield _line("child", f"{printable(child['id'])}  {what}; {child['state']}: {child['label']}")
    yield from _lines("not known", [printable(one) for one in found["unsettled"]])
    yield from _lines("stands", [_standing(one) for one in found["stands"]])


def _standing(one: Document) -> str:
    reference = "no reference" if one["reference"] is None else f"reference {printable(one['reference'])}"
    return f"{printable(one['position'])} ({reference})"


def _effect(effect: Document) -> Iterator[str]:
    yield f"  {printable(effect['position'])}  {effect['state']}: {effect['label']}"
    sent = effect["dispatched_at"]
    yield _line("dispatched", "no, nothing was sent" if sent is None else sent[_CLOCK], 6)
    if sent is None:
        return
    yield from _of_body(effect)
    yield from _lines("target", [_asked(one) for one in effect["provider"]] or ["was not asked to cancel"], 6)
    reference = effect["reference"]
    yield _line("reference", "not known" if reference is None else printable(reference), 6)
    looked = effect["looked_up_at"]
    yield _line("read back", "not asked" if looked is None else f"{looked[_CLOCK]}  {effect['looked_up']}", 6)


def _of_body(one: Document) -> Iterator[str]:
    yield from _lines("told", [f"{seen['at'][_CLOCK]}  {printable(seen['how'])}" for seen in one["told"]], 6)
    body, owner = one["body"], one["body_in"]
    if one["body_ended_at"] is not None:
        yield _line("body", f"{body} {one['body_ended_at'][_CLOCK]}", 6)
    elif body == Body.RUNNING and (owner is None or owner["lease_state"] != "live"):
        yield _line("body", f"nobody has seen it end, and its worker is gone ({_worker(owner)})", 6)
    else:
        yield _line("body", f"{body} ({_worker(owner)})", 6)


def _asked(one: Document) -> str:
    if one["answered_at"] is None:
        return f"{one['sent_at'][_CLOCK]}  asked to cancel; no answer was written down"
    if isinstance(one["answer"], dict) and CONTAINED in one["answer"]:
        why = printable(one["answer"][CONTAINED])
        return f"{one['answered_at'][_CLOCK]}  not asked to cancel, it is contained: {why}"
    said = compact(_said(one["answer"]))
    return f"{one['answered_at'][_CLOCK]}  asked to cancel, and answered {said}: evidence, no proof"


def _said(answer: Any) -> Any:
    """What a hook returned or how it failed; all that is kept of it is in `--json`."""
    if not isinstance(answer, dict):
        return answer
    return answer.get("answer", answer.get("failed", answer))


def _worker(owner: Document | None) -> str:
    if owner is None or owner["pid"] is None:
        return "a worker that is gone"
    generation = "" if owner["generation"] is None else f", generation {owner['generation']}"
    return f"pid {owner['pid']} on {printable(owner['host'])}{generation}"


def _line(name: str, value: str, indent: int = 2) -> str:
    return f"{' ' * indent}{name:<{_WIDTH}}{value}"


def _lines(name: str, values: list[str], indent: int = 2) -> Iterator[str]:
    for position, value in enumerate(values):
        yield _line(name if position == 0 else "", value, indent)
