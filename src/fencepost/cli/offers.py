"""Lays out the commands that apply to a run, as they can be pasted: with the ledger and the app that the user named.

What has to be filled in stands in capitals. Which verbs apply is decided in the runtime and read from the document of
`story`, in their order; here they get their text.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from fencepost.console.printable import printable
from fencepost.console.story import Document
from fencepost.store.postgres_url import without_password


@dataclass(frozen=True, slots=True)
class Place:
    """Where the user said that the run is: `--app`, `--db` and `--namespace`, each None if it was not given."""

    app: str | None = None
    db: str | None = None
    namespace: str | None = None

    def options(self, *, with_code: bool) -> str:
        """The options for one more command about the run; what the environment says need not be said."""
        app = self.app or ("MODULE:APP" if with_code else None)
        db = None if self.db is None else without_password(self.db)
        named = (
            ("--app", app, os.environ.get("FENCEPOST_APP")),
            ("--db", db, without_password(os.environ.get("FENCEPOST_DB", ""))),
            ("--namespace", self.namespace, None),
        )
        return "".join(f" {option} {_quoted(text)}" for option, text, known in named if text and text != known)


def offers(story: Document, place: Place) -> Iterator[str]:
    """The commands, one a line, in the order of the document."""
    run = _quoted(story["run"]["id"])
    found = [
        f"  fencepost {verb.partition(' ')[0]} {run}{form}{place.options(with_code=_needs_code(verb, story))}"
        for verb in story["verbs"]
        for form in _forms(verb, story)
    ]
    yield "verbs that apply" if found else "no verb applies"
    yield from found


def _forms(verb: str, story: Document) -> list[str]:
    """How the command goes on after the run: once for each thing that it may be meant for."""
    if verb == "redecide":
        return [f" {_quoted(position)} --reason TEXT" for position in story["decisions"]]
    known = _FORMS.get(verb)
    if known is None:
        return [_WHOLE_RUN.get(verb, " --reason TEXT")]
    # Of an earlier turn there is nothing else to be done, and it is not the one that a verb is meant for by itself.
    turn = f" --turn {story['run']['turn']}" if story["run"]["state"] == "continued" else ""
    return [f"{form}{turn}" for step in story["steps"] for form in known(step)]


def _settle(step: Document) -> Iterator[str]:
    if step["kind"] != "effect" or step["conflict"]:
        return
    lacks_result = step["state"] == "succeeded" and step["result"] is None
    if step["state"] == "unknown" or lacks_result:
        yield f" {_operation(step)} --happened --result JSON --reason TEXT"
    if step["state"] == "unknown":
        yield f" {_operation(step)} --did-not-happen --reason TEXT"


def _retry(step: Document) -> Iterator[str]:
    if step["kind"] == "effect" and step["state"] == "failed":
        yield f" {_operation(step)} --reason TEXT"


def _forward(step: Document) -> Iterator[str]:
    if step["kind"] == "effect" and step["goes_otherwise"]:
        yield f" {_operation(step)} --reason TEXT"


def _compensate_step(step: Document) -> Iterator[str]:
    if step["kind"] == "effect" and step["goes_back_alone"]:
        yield f" {_operation(step)} --reason TEXT"


def _signal(step: Document) -> Iterator[str]:
    if step["kind"] == "wait" and step["state"] == "open" and step["allows"] is None:
        yield f" {_quoted(step['name'])} JSON"


def _settle_conflict(step: Document) -> Iterator[str]:
    if step["kind"] == "effect" and step["conflict"]:
        known = step["state"] in ("succeeded", "failed", "cancelled")
        if not known or step["state"] == "succeeded":
            yield f" {_operation(step)} --conflict --happened --reason TEXT"
        if step["state"] != "succeeded" and all(one["outcome"] != "applied" for one in step["attempts"]):
            yield f" {_operation(step)} --conflict --did-not-happen --reason TEXT"


def _approve(step: Document) -> Iterator[str]:
    if step["kind"] == "wait" and step["state"] == "open" and step["allows"] is not None:
        yield f" {_quoted(step['name'])} --digest {_quoted(step['allows'])}"


_WHOLE_RUN = {"migrate": " --to VERSION --reason TEXT"}
"""Verbs that are meant for the run, and need more than a reason."""


_FORMS: dict[str, Callable[[Document], Iterator[str]]] = {
    "settle": _settle,
    "settle conflict": _settle_conflict,
    "retry": _retry,
    "forward": _forward,
    "compensate step": _compensate_step,
    "approve": _approve,
    "signal": _signal,
}


def _operation(step: Document) -> str:
    item = "" if step["item"] is None else f" --item {_quoted(step['item'])}"
    return f"{_quoted(step['name'])}{item}"


def _needs_code(verb: str, story: Document) -> bool:
    """Whether the verb has to know the contract of an effect."""
    failed = [step for step in story["steps"] if step["kind"] == "effect" and step["state"] == "failed"]
    return verb in ("settle", "settle conflict", "retry", "forward", "migrate") or (
        verb == "resume" and story["run"]["state"] == "failed" and bool(failed)
    )


def _quoted(text: str) -> str:
    return shlex.quote(printable(text, limit=None))
