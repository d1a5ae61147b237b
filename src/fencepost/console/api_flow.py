"""What lets runs begin and go on, over HTTP: schedules, queues, and what is contained.

Each handler calls the function of every other door: `runtime.schedules`, `runtime.queues`, `runtime.containing`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from fastapi import APIRouter

from fencepost.console.api_answers import (
    Contained,
    Containments,
    DoneToQueue,
    DoneToSchedule,
    Queues,
    Released,
    Schedules,
)
from fencepost.console.api_forms import Because, Contain
from fencepost.console.callers import Called, Caller, Looking
from fencepost.console.documents import Document, containment_row, queue_row, schedule_row
from fencepost.console.paths import Named
from fencepost.console.problems import documented
from fencepost.console.versions import IfMatch, number_meant
from fencepost.core.queue import QueueStanding
from fencepost.core.schedule import Plan
from fencepost.runtime import queues, schedules

router = APIRouter(tags=["schedules, queues, containment"])

DONE_TO_SCHEDULE = documented(401, 403, 404, 409, 412, 428)


@router.get("/schedules", response_model=Schedules, responses=documented(401, 403))
async def list_schedules(caller: Looking) -> Any:
    """List schedules, those that no code declares any more included."""
    found = await asyncio.to_thread(caller.store.schedules, caller.namespace)
    lives = await asyncio.to_thread(works, caller)
    return {"schedules": [schedule_row(plan, works=lives) for plan in found]}


@router.post("/schedules/{name:path}/pause", response_model=DoneToSchedule, responses=DONE_TO_SCHEDULE)
async def pause_schedule(caller: Called, name: Named, form: Because, if_match: IfMatch = None) -> Any:
    """Let a schedule start nothing until it is resumed. Runs that were started go on."""
    return await on_schedule(caller, "pause", schedules.pause, name, form=form, if_match=if_match)


@router.post("/schedules/{name:path}/resume", response_model=DoneToSchedule, responses=DONE_TO_SCHEDULE)
async def resume_schedule(caller: Called, name: Named, form: Because, if_match: IfMatch = None) -> Any:
    """Let a paused schedule go on from now on. What passed in the pause is not caught up."""
    return await on_schedule(caller, "resume", schedules.resume, name, form=form, if_match=if_match)


@router.post("/schedules/{name:path}/fire", response_model=DoneToSchedule, responses=DONE_TO_SCHEDULE)
async def fire_schedule(caller: Called, name: Named, form: Because, if_match: IfMatch = None) -> Any:
    """Start a run of a schedule now, also of a paused or orphaned one. Its timetable stays as it is."""
    done = await on_schedule(caller, "fire", schedules.fire, name, form=form, if_match=if_match)
    caller.wake()
    return done


@router.post("/schedules/{name:path}/remove", response_model=DoneToSchedule, responses=DONE_TO_SCHEDULE)
async def remove_schedule(caller: Called, name: Named, form: Because, if_match: IfMatch = None) -> Any:
    """Remove a schedule that no live worker declares. Its runs stay."""
    return await on_schedule(caller, "remove", schedules.remove, name, form=form, if_match=if_match)


@router.get("/queues", response_model=Queues, responses=documented(401, 403))
async def list_queues(caller: Looking) -> Any:
    """List queues: their limits, how many slots are taken, how many runs are due, and which are paused."""
    found = await asyncio.to_thread(caller.store.queues, caller.namespace)
    return {"queues": await asyncio.to_thread(_with_lengths, caller, found)}


@router.post("/queues/{name:path}/pause", response_model=DoneToQueue, responses=documented(401, 403, 404))
async def pause_queue(caller: Called, name: Named, form: Because) -> Any:
    """Let no run of a queue begin or go on until it is resumed."""
    return await on_queue(caller, "pause", queues.pause, name, form)


@router.post("/queues/{name:path}/resume", response_model=DoneToQueue, responses=documented(401, 403, 404))
async def resume_queue(caller: Called, name: Named, form: Because) -> Any:
    """Let the runs of a paused queue go on."""
    return await on_queue(caller, "resume", queues.resume, name, form)


@router.get("/contained", response_model=Containments, responses=documented(401, 403))
async def list_contained(caller: Looking) -> Any:
    """List what is contained, by people and by breakers."""
    return {"contained": [containment_row(one) for one in await caller.contained()]}


@router.post("/contain", response_model=Contained, responses=documented(401, 403))
async def contain(caller: Called, form: Contain) -> Any:
    """Let no new effect be sent toward something, by any worker, until it is released. Look-ups go on."""
    found = await caller.contain(form.kind, form.name, by=caller.person, reason=form.reason)
    return {"contained": containment_row(found)}


@router.post("/release", response_model=Released, responses=documented(401, 403))
async def release(caller: Called, form: Contain) -> Any:
    """Contain something no more: the runs that wait for it go on by themselves."""
    found = await caller.release(form.kind, form.name, by=caller.person, reason=form.reason)
    return {"released": None if found is None else containment_row(found)}


async def on_schedule(
    caller: Caller, said: str, verb: Callable[..., Plan | None], name: str, *, form: Because, if_match: str | None
) -> Document:
    """Do a verb on a schedule as the caller saw it."""
    version = number_meant(if_match, {"schedule": name})
    plan = await asyncio.to_thread(verb, caller, name, by=caller.person, reason=form.reason, version=version)
    lives = await asyncio.to_thread(works, caller)
    return {"verb": said, "schedule": None if plan is None else schedule_row(plan, works=lives)}


async def on_queue(caller: Caller, said: str, verb: Callable[..., QueueStanding], name: str, form: Because) -> Document:
    """Do a verb on a queue."""
    found = await asyncio.to_thread(verb, caller, name, by=caller.person, reason=form.reason)
    caller.wake()
    return {"verb": said, "queue": (await asyncio.to_thread(_with_lengths, caller, [found]))[0]}


def _with_lengths(caller: Caller, found: list[QueueStanding]) -> list[Document]:
    lengths = caller.store.queue_lengths(caller.namespace)
    return [queue_row(one, *lengths.get(one.name, (0, 0))) for one in found]


def works(caller: Caller) -> bool:
    """Whether any worker lives."""
    now = caller.store.now()
    return any(lease.closed_at is None and lease.expires_at > now for lease in caller.store.leases())
