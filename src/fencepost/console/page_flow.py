"""What lets runs begin and go on, as one page: queues, schedules, what is contained, and the buttons for each.

A button does what its address of the API does (`api_flow`); a schedule's compares the version that was shown.
"""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from fencepost.console.api_flow import list_queues, list_schedules, on_queue, on_schedule
from fencepost.console.api_forms import Because, Contain
from fencepost.console.page_frame import Page, moved, shown
from fencepost.console.page_offers import LINE, REASON, Field, Offer, taken
from fencepost.console.page_run import VERSION
from fencepost.console.page_visits import Posted, Sent, Visiting, Visitor
from fencepost.console.paths import Named
from fencepost.core.errors import NotThere
from fencepost.runtime import queues, schedules

router = APIRouter(route_class=Page, include_in_schema=False)

ON_QUEUES = {"pause": queues.pause, "resume": queues.resume}
ON_SCHEDULES = {
    "pause": schedules.pause, "resume": schedules.resume, "fire": schedules.fire, "remove": schedules.remove,
}  # fmt: skip
HERE = "/flow"


@router.get(HERE)
async def show_flow(request: Request, visitor: Visiting) -> Response:
    """The page."""
    caller = visitor.caller
    found = await list_queues(caller)
    plans = await list_schedules(caller)
    contained = await caller.contained()
    may_contain = [Offer("contain", fields=(Field("name", LINE, required=True), REASON))]
    return shown(
        request, "flow.html", now=await asyncio.to_thread(caller.store.now), contained=contained,
        queues=[(one, _of_queue(one, visitor)) for one in found["queues"]],
        schedules=[(one, _of_schedule(one, visitor)) for one in plans["schedules"]],
        may_contain=may_contain if visitor.may("contain") else [], may_release=visitor.may("release"),
        release=Offer("release"),
    )  # fmt: skip


def _of_queue(row: dict[str, Any], visitor: Visitor) -> list[Offer]:
    verb = "pause queue" if row["paused_at"] is None else "resume queue"
    return [Offer(verb, row["name"])] if visitor.may(verb) else []


def _of_schedule(row: dict[str, Any], visitor: Visitor) -> list[Offer]:
    wanted = ["pause schedule" if row["state"] != "paused" else "resume schedule", "fire schedule"]
    if row["state"] == "orphaned":
        wanted.append("remove schedule")
    return [Offer(verb, row["name"]) for verb in wanted if visitor.may(verb)]


@router.post("/queues/{name:path}/{verb}")
async def on_a_queue(sent: Posted, name: Named, verb: str) -> Response:
    """Pause a queue, or let it go on."""
    if verb not in ON_QUEUES:
        raise NotThere(f"there is no verb {verb!r} on queues", hint="the page has those that apply")
    await on_queue(sent.visitor.caller, verb, ON_QUEUES[verb], name, taken(Because, sent.fields))
    return moved(HERE)


@router.post("/schedules/{name:path}/{verb}")
async def on_a_schedule(sent: Posted, name: Named, verb: str) -> Response:
    """Pause, resume, fire or remove a schedule, as it was shown."""
    if verb not in ON_SCHEDULES:
        raise NotThere(f"there is no verb {verb!r} on schedules", hint="the page has those that apply")
    fields = dict(sent.fields)
    version, caller = fields.pop(VERSION, None), sent.visitor.caller
    await on_schedule(caller, verb, ON_SCHEDULES[verb], name, form=taken(Because, fields), if_match=version)
    caller.wake()
    return moved(HERE)


@router.post("/contain")
async def contain(sent: Posted) -> Response:
    """Let nothing new be sent toward something."""
    form = _what(sent)
    await sent.visitor.caller.contain(form.kind, form.name, by=sent.visitor.person, reason=form.reason)
    return moved(HERE)


@router.post("/release")
async def release(sent: Posted) -> Response:
    """Contain something no more."""
    form = _what(sent)
    await sent.visitor.caller.release(form.kind, form.name, by=sent.visitor.person, reason=form.reason)
    return moved(HERE)


def _what(sent: Sent) -> Contain:
    return taken(Contain, sent.fields)
