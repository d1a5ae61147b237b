"""Which buttons a run's page has for whoever looks: each verb that applies and that they may do, with its form.

Which verbs apply is the runtime's, read from the document of `story`; what each would do is said in `texts.toml`. A
form carries the version that was shown, and what it sends is checked as the API's own forms are.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from pydantic import ValidationError

from fencepost.console import api_forms
from fencepost.console.documents import Document
from fencepost.core.errors import Misuse

if TYPE_CHECKING:
    from fencepost.console.page_visits import Visitor

F = TypeVar("F", bound=api_forms.Form)

FORMS: dict[str, type[api_forms.Form]] = {
    "settle": api_forms.Settle,
    "settle conflict": api_forms.SettleConflict,
    "reconcile": api_forms.Reconcile,
    "resume": api_forms.Because,
    "retry": api_forms.OfStep,
    "forward": api_forms.OfStep,
    "redecide": api_forms.Redecide,
    "approve": api_forms.Approve,
    "deny": api_forms.Approve,
    "signal": api_forms.Signal,
    "cancel": api_forms.Because,
    "compensate": api_forms.Because,
    "compensate step": api_forms.OfStep,
    "migrate": api_forms.Migrate,
    "terminate": api_forms.Because,
    "reopen": api_forms.Because,
}
"""What each verb takes, as over the API."""

LINES, JSON, LINE, NUMBER, TICK = "lines", "json", "line", "number", "tick"


class Field(NamedTuple):
    """One thing that a person fills in."""

    name: str
    kind: str
    required: bool = False


REASON = Field("reason", LINES, required=True)


class Offer(NamedTuple):
    """One button: the verb, which way of it, what about, what it sends along, and what is filled in before.

    `way` tells two buttons of one verb apart: that an effect "happened", or "did-not".
    """

    verb: str
    about: str = ""
    way: str = ""
    given: tuple[tuple[str, str], ...] = ()
    fields: tuple[Field, ...] = (REASON,)

    @property
    def key(self) -> str:
        """Under what its texts stand."""
        return "-".join(("verb." + self.verb.replace(" ", "-"), *([self.way] if self.way else [])))


def offers(story: Document, visitor: Visitor) -> list[Offer]:
    """The buttons, the most likely to help first."""
    wanted = [one for verb in story["verbs"] for one in _of_verb(verb, story)]
    return [one for one in wanted if visitor.may(one.verb)]


def _of_verb(verb: str, story: Document) -> Iterator[Offer]:
    if verb == "redecide":
        yield from (
            Offer(verb, one, given=(("step", one),), fields=(REASON, Field("override", TICK)))
            for one in story["decisions"]
        )
    elif verb == "migrate":
        yield Offer(verb, fields=(Field("to", NUMBER, required=True), REASON))
    elif verb in _PER_STEP:
        yield from (one for step in story["steps"] for one in _PER_STEP[verb](step, story))
    else:
        yield Offer(verb)


def _settle(step: Document, _: Document) -> Iterator[Offer]:
    if step["kind"] != "effect" or step["conflict"]:
        return
    if step["state"] == "unknown" or (step["state"] == "succeeded" and step["result"] is None):
        yield _happened("settle", step)
    if step["state"] == "unknown":
        yield _did_not("settle", step)


def _settle_conflict(step: Document, story: Document) -> Iterator[Offer]:
    if step["kind"] != "effect" or not step["conflict"]:
        return
    turn = (("turn", str(story["run"]["turn"])),) if story["run"]["state"] == "continued" else ()
    if step["state"] == "succeeded" or step["state"] not in ("failed", "cancelled"):
        yield _happened("settle conflict", step, turn)
    if step["state"] != "succeeded" and all(one["outcome"] != "applied" for one in step["attempts"]):
        yield _did_not("settle conflict", step, turn)


def _happened(verb: str, step: Document, more: tuple[tuple[str, str], ...] = ()) -> Offer:
    fields = (Field("result", JSON), Field("reference", LINE), REASON, Field("override", TICK))
    return Offer(verb, step["position"], "happened", (("happened", "true"), *_which(step), *more), fields)


def _did_not(verb: str, step: Document, more: tuple[tuple[str, str], ...] = ()) -> Offer:
    given = (("happened", "false"), *_which(step), *more)
    return Offer(verb, step["position"], "did-not", given, (REASON, Field("override", TICK)))


def _of_failed(step: Document, _: Document) -> Iterator[Offer]:
    if step["kind"] == "effect" and step["state"] == "failed":
        yield Offer("retry", step["position"], given=_which(step))


def _forward(step: Document, _: Document) -> Iterator[Offer]:
    if step["kind"] == "effect" and step["goes_otherwise"]:
        yield Offer("forward", step["position"], given=_which(step))


def _compensate_step(step: Document, _: Document) -> Iterator[Offer]:
    if step["kind"] == "effect" and step["goes_back_alone"]:
        yield Offer("compensate step", step["position"], given=_which(step))


def _signal(step: Document, _: Document) -> Iterator[Offer]:
    if step["kind"] == "wait" and step["state"] == "open" and step["allows"] is None:
        fields = (Field("value", JSON), Field("id", LINE), Field("reason", LINES))
        yield Offer("signal", step["name"], given=(("name", step["name"]),), fields=fields)


def _approve(step: Document, _: Document) -> Iterator[Offer]:
    if step["kind"] == "wait" and step["state"] == "open" and step["allows"] is not None:
        given = (("name", step["name"]), ("digest", step["allows"]))
        comment = (Field("comment", LINES),)
        yield Offer("approve", step["name"], given=(("approved", "true"), *given), fields=comment)
        yield Offer("deny", step["name"], given=(("approved", "false"), *given), fields=comment)


def _which(step: Document) -> tuple[tuple[str, str], ...]:
    item = () if step["item"] is None else (("item", step["item"]),)
    return (("step", step["name"]), *item)


_PER_STEP: dict[str, Callable[[Document, Document], Iterator[Offer]]] = {
    "settle": _settle,
    "settle conflict": _settle_conflict,
    "retry": _of_failed,
    "forward": _forward,
    "compensate step": _compensate_step,
    "signal": _signal,
    "approve": _approve,
}
"""Verbs that are meant for one thing of the run."""

_JSON = frozenset({"result", "value"})
_SAID = frozenset({"happened", "override", "approved", "to", "turn"})


def form_of(verb: str, fields: dict[str, str]) -> api_forms.Form:
    """What a form sent, as the verb takes it; what was left empty was not sent.

    Raises:
        Misuse: something in it is not of its form.
    """
    return taken(FORMS[verb], fields)


def taken(kind: type[F], fields: dict[str, str]) -> F:
    """What a form sent, as a form of the API. Raises `Misuse` where it is not of that form."""
    told = {name: _read(name, text) for name, text in fields.items() if text != ""}
    try:
        return kind.model_validate(told)
    except ValidationError as error:
        flaws = "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors())
        raise Misuse(f"the form is not complete: {flaws}", hint="fill it in, and send it once more") from error


def _read(name: str, text: str) -> Any:
    """A field's value: JSON where a value may be any, true, false and numbers as such, and any other a text."""
    if name not in _JSON | _SAID:
        return text.replace("\r\n", "\n")
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Misuse(
            f"{name} is no JSON: {error}", hint='write "text" in quotes, 12, true, or {"id": "t-1"}'
        ) from error
