"""One run's page: what is known of it and what is not, its evidence and audit, and the buttons that apply, as forms.

A button does what the API's address and the command line do (`acting`), on the run as it was shown: one that has
changed since refuses it, and the page says so. Which buttons there are is `page_offers`; the document is that of
`fencepost show`.
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal, NamedTuple

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response
from pydantic import BaseModel, ConfigDict, Field

from fencepost.console.acting import act, answer_a_wait
from fencepost.console.api_forms import NUMBER_MAX, Approve, Signal
from fencepost.console.documents import Document
from fencepost.console.page_frame import Page, address, moved, problem_of, shown, texts_of
from fencepost.console.page_offers import FORMS, Offer, form_of, offers
from fencepost.console.page_texts import Texts
from fencepost.console.page_visits import Posted, Visiting, Visitor
from fencepost.console.paths import RunId
from fencepost.console.picture_words import in_language
from fencepost.console.problems import status_of
from fencepost.console.reading import Told, told_of
from fencepost.console.svg import Svg
from fencepost.console.timeline import timeline
from fencepost.console.versions import etag_of
from fencepost.core.errors import FencepostError, NotThere
from fencepost.runtime.contracts import recovery_table
from fencepost.runtime.foreseen import Foreseen, foreseen
from fencepost.runtime.permits import no_such_run
from fencepost.runtime.report import DONE

router = APIRouter(route_class=Page, include_in_schema=False)

STEPS_MAX = 200
"""So many steps are shown at a time."""

VERSION = "version"
"""The field that carries the ETag of what was shown."""


class How(BaseModel):
    """How a run is shown: after which verb, from which step on, and with what failed first in its picture."""

    model_config = ConfigDict(extra="forbid")

    done: str = ""
    steps: Annotated[int, Field(ge=0, le=NUMBER_MAX)] | None = None
    eventful: Literal["first"] | None = None


_PLAIN = How()


@router.get("/runs/{run:path}")
async def show_run(request: Request, visitor: Visiting, run: RunId, how: Annotated[How, Query()]) -> Response:
    """The page."""
    return await _page(request, visitor, run, how)


@router.post("/runs/{run:path}/{verb}")
async def do(request: Request, sent: Posted, run: RunId, verb: str) -> Response:
    """Do a verb, and show the run as it is then; what is refused is said on the run's page, and changes nothing."""
    name = verb.replace("-", " ")
    if name not in FORMS:
        raise NotThere(f"there is no verb {name!r} on runs", hint="the run's page has those that apply")
    fields, caller = dict(sent.fields), sent.visitor.caller
    version = fields.pop(VERSION, None)
    try:
        form = form_of(name, fields)
        if isinstance(form, Signal | Approve):
            await answer_a_wait(caller, run, form)
        else:
            await act(caller, name, run, form, if_match=version)
    except FencepostError as error:
        return await _page(request, sent.visitor, run, refused=Refused(error, name, fields))
    return moved(address("runs", run, done=name))


async def _page(
    request: Request, visitor: Visitor, run_id: str, how: How = _PLAIN, *, refused: Refused | None = None
) -> Response:
    found = await asyncio.to_thread(read_run, visitor, run_id)
    told = {
        "steps": steps_shown(found.story["steps"], how.steps),
        "picture": await asyncio.to_thread(found.picture, texts_of(request), eventful_first=how.eventful is not None),
        "eventful": how.eventful is not None,
        "guarantees": {row.step: row.guarantee for row in recovery_table(visitor.caller.app)},
        "offers": [
            (offer, refused.fields if refused is not None and refused.is_of(offer) else None)
            for offer in offers(found.story, visitor)
        ],
        "plan": found.plan,
        "done": how.done if how.done in FORMS else "",
        "error": None if refused is None else problem_of(refused.error),
    }
    status = 200 if refused is None else status_of(refused.error)
    return shown(request, "run.html", status=status, now=found.now, seen=found.version, **found.shown, **told)


class Refused(NamedTuple):
    """A form that was refused, so that nobody has to write it once more."""

    error: FencepostError
    verb: str
    fields: dict[str, str]

    def is_of(self, offer: Offer) -> bool:
        """Whether it is the form of this button."""
        return offer.verb == self.verb and all(self.fields.get(name) == value for name, value in offer.given)


class Steps(NamedTuple):
    """The steps that a page shows: first those of a long run that want a look, then some in their order.

    `before` and `after` are from which step on the neighbouring pages begin; None: there is none.
    """

    wanting: list[Document]
    some: list[Document]
    number: int
    first: int
    before: int | None
    after: int | None


def steps_shown(steps: list[Document], first: int | None) -> Steps:
    """All of them, or of a long run the newest, or those from `first` on."""
    number = len(steps)
    begin = max(0, number - STEPS_MAX) if first is None else min(first, number)
    end = begin + STEPS_MAX
    wanting = [] if number <= STEPS_MAX else [one for one in steps if _wants_a_look(one)][:STEPS_MAX]
    before = max(0, begin - STEPS_MAX) if begin else None
    return Steps(wanting, steps[begin:end], number, begin, before, end if end < number else None)


def _wants_a_look(step: Document) -> bool:
    return step["state"] in ("unknown", "failed") or bool(step.get("conflict"))


class Read(NamedTuple):
    """A run as its page shows it; `version` is the ETag of what was read."""

    told: Told
    version: str
    plan: list[Foreseen]
    now: int

    @property
    def story(self) -> Document:
        """Its document."""
        return self.told.document

    def picture(self, texts: Texts, *, eventful_first: bool) -> Svg:
        """Its timeline; on demand what failed, is unknown or was refused stands above the rest."""
        told = self.told
        say = in_language(texts.language)
        return timeline(told.history, told.audits, told.leases, now=self.now, eventful_first=eventful_first, say=say)

    @property
    def shown(self) -> dict[str, Any]:
        """What a template is given of it."""
        hold, report = self.story["run"]["hold"], self.story["compensation"] or {}
        return {
            "story": self.story,
            "run": self.story["run"],
            "version": self.version,
            # Of a hold that cannot be read there is a text that says why.
            "hold": hold if isinstance(hold, dict) else {} if hold is None else {"reason": hold},
            "is_made_good": all(one["outcome"] in DONE for one in report.get("effects", ())),
        }


def read_run(visitor: Visitor, run_id: str) -> Read:
    """Read a run. Raises `RunNotFound`."""
    store = visitor.caller.store
    found = store.find(visitor.caller.namespace, run_id)
    if found is None:
        raise no_such_run(run_id)
    told = told_of(store, found, redact=not visitor.caller.reads_payloads())
    may_go_back = "compensate" in told.document["verbs"] and visitor.may("compensate")
    plan = foreseen(visitor.caller, found) if may_go_back else []
    return Read(told, etag_of(found), plan, store.now())
