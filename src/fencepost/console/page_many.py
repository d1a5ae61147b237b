"""One verb on many runs, as pages: what it would do to each is shown first, then done to those, as they were shown.

It is a job, which anybody may pause meanwhile and let go on. Each run is done by itself, with its own audit row; the
functions are those of every other door (`api_bulk`).
"""

from __future__ import annotations

import asyncio
import json
from typing import Any, NamedTuple, get_args

from fastapi import APIRouter, Request
from fastapi.responses import Response

from fencepost.console.api_forms import Because, BulkVerb
from fencepost.console.documents import bulk_row
from fencepost.console.page_frame import Page, moved, shown
from fencepost.console.page_offers import Offer, taken
from fencepost.console.page_visits import Posted, Sent, Visiting, Visitor
from fencepost.console.paths import JobNumber
from fencepost.core.bulk import BulkState
from fencepost.core.errors import Misuse
from fencepost.runtime.bulk import Each, Selection

router = APIRouter(route_class=Page, include_in_schema=False)

HERE = "/many"
JOBS = 50
RUN = "run."
"""How the fields begin that name a run: each is its id and the row version that was shown, as a JSON list."""

WHOLE = tuple(verb for verb in get_args(BulkVerb) if verb not in ("retry", "compensate step", "migrate"))
"""The verbs that need nothing but why; the others are the command line's."""


class Meant(NamedTuple):
    """What somebody wants done to which runs, as they were shown."""

    verb: str
    shown: dict[str, int]
    reason: str


@router.get(HERE)
async def show_jobs(request: Request, visitor: Visiting) -> Response:
    """The jobs that are open, with how far each is."""
    found = await visitor.caller.bulks(limit=JOBS)
    now = await asyncio.to_thread(visitor.caller.store.now)
    return shown(request, "many.html", now=now, jobs=[(bulk_row(one), _of_job(one.state, visitor)) for one in found])


def _of_job(state: BulkState, visitor: Visitor) -> list[Offer]:
    verb = "resume bulk" if state is BulkState.PAUSED else "pause bulk"
    return [Offer(verb)] if visitor.may(verb) else []


@router.post("/many/preview")
async def preview(request: Request, sent: Posted) -> Response:
    """Show what the verb would do to each; nothing is changed."""
    meant = _meant(sent)
    found = await _do(sent.visitor, meant, dry_run=True)
    able = {one.run: one.version for one in found if one.refused is None}
    return await _answer(request, sent.visitor, meant, found, able=able)


@router.post("/many/do")
async def do(request: Request, sent: Posted) -> Response:
    """Do it to those that were shown, if they are still as they were."""
    meant = _meant(sent)
    return await _answer(request, sent.visitor, meant, await _do(sent.visitor, meant, dry_run=False), able={})


@router.post("/many/{job}/pause")
async def pause(sent: Posted, job: JobNumber) -> Response:
    """Let nobody go on with a job; whoever is at it stops after the run that is being done."""
    await sent.visitor.caller.pause_bulk(job, by=sent.visitor.person, reason=taken(Because, sent.fields).reason)
    return moved(HERE)


@router.post("/many/{job}/resume")
async def resume(sent: Posted, job: JobNumber) -> Response:
    """Go on with a job; no run is done twice."""
    await sent.visitor.caller.resume_bulk(job, by=sent.visitor.person, reason=taken(Because, sent.fields).reason)
    return moved(HERE)


async def _do(visitor: Visitor, meant: Meant, *, dry_run: bool) -> list[Each]:
    wanted = Selection(shown=meant.shown, limit=len(meant.shown))
    return await visitor.caller.bulk(meant.verb, wanted, dry_run=dry_run, by=visitor.person, reason=meant.reason)


async def _answer(
    request: Request, visitor: Visitor, meant: Meant, found: list[Each], *, able: dict[str, int]
) -> Response:
    now = await asyncio.to_thread(visitor.caller.store.now)
    runs = [field_of(run, version) for run, version in able.items()]
    return shown(request, "many_each.html", now=now, meant=meant, found=found, runs=runs)


def field_of(run: str, version: int) -> str:
    """What a field says of a run that was shown."""
    return json.dumps([run, version])


def _meant(sent: Sent) -> Meant:
    fields = dict(sent.fields)
    runs = [_run_in(fields.pop(name)) for name in sorted(fields) if name.startswith(RUN)]
    verb = fields.pop("verb", "")
    if verb not in WHOLE or not runs:
        raise Misuse("which runs, and what is to be done to them?", hint="tick some, and choose a verb")
    return Meant(verb, dict(runs), taken(Because, fields).reason)


def _run_in(text: str) -> tuple[str, int]:
    try:
        told: Any = json.loads(text)
    except (ValueError, RecursionError):
        told = None
    match told:
        case [str(run), int(version)]:
            return run, version
    raise Misuse("a run in the form is none", hint="open the page again, and tick some")
