"""One run's page: what is known of it and what is not, its evidence and audit, and the buttons that apply, as forms.

A button does what the API's address and the command line do (`acting`), on the run as it was shown: one that has
changed since refuses it, and the page says so. Which buttons there are is `page_offers`; the document is that of
`fencepost show`.
"""

from __future__ import annotations

import asyncio
from typing import Any, NamedTuple

from fastapi import APIRouter, Request
from fastapi.responses import Response

from fencepost.console.acting import act, answer_a_wait
from fencepost.console.api_forms import Approve, Signal
from fencepost.console.documents import Document
from fencepost.console.page_frame import Page, address, moved, problem_of, shown, texts_of
from fencepost.console.page_offers import FORMS, form_of, offers
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
from fencepost.runtime.foreseen import Foreseen, foreseen
from fencepost.runtime.permits import no_such_run
from fencepost.runtime.report import DONE

router = APIRouter(route_class=Page, include_in_schema=False)

VERSION = "version"
"""The field that carries the ETag of what was shown."""


@router.get("/runs/{run:path}")
async def show_run(request: Request, visitor: Visiting, run: RunId, done: str = "") -> Response:
    """The page; `done` is the verb that has just been done."""
    return await _page(request, visitor, run, done=done if done in FORMS else "")


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
        return await _page(request, sent.visitor, run, refused=error, verb=name)
    return moved(address("runs", run, done=name))


async def _page(
    request: Request, visitor: Visitor, run_id: str, *, done: str = "", refused: FencepostError | None = None,
    verb: str = "",
) -> Response:  # fmt: skip
    found = await asyncio.to_thread(read_run, visitor, run_id)
    status = 200 if refused is None else status_of(refused)
    error = None if refused is None else problem_of(refused)
    more = {"offers": offers(found.story, visitor), "plan": found.plan, "done": done, "verb": verb, "error": error}
    eventful_first = "eventful" in request.query_params
    more |= {"picture": found.picture(texts_of(request), eventful_first=eventful_first), "eventful": eventful_first}
    return shown(request, "run.html", status=status, now=found.now, seen=found.version, **found.shown, **more)


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
    told = told_of(store, found)
    may_go_back = "compensate" in told.document["verbs"] and visitor.may("compensate")
    plan = foreseen(visitor.caller, found) if may_go_back else []
    return Read(told, etag_of(found), plan, store.now())
