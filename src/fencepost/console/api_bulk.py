"""One verb on many runs over HTTP, and the jobs that this makes: listed, shown, paused, and gone on with.

Each handler calls the function of every other door. Which runs are meant is `runtime.bulk`, doing it `runtime.bulking`;
the verbs on one run are `api_verbs`'.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import asdict
from typing import Annotated, Any

from fastapi import APIRouter, Query
from pydantic import BaseModel, ConfigDict, Field

from fencepost.console.api_answers import DoneToJob, DoneToMany, Jobs, JobShown
from fencepost.console.api_forms import Because, Bulk
from fencepost.console.callers import Called, Looking
from fencepost.console.documents import Document, bulk_row, bulk_run_row
from fencepost.console.paths import JobNumber
from fencepost.console.problems import documented
from fencepost.runtime import bulking
from fencepost.runtime.bulk import Each, Selection, own_arguments

router = APIRouter(tags=["verbs on many runs"])


class WantedJobs(BaseModel):
    """Which jobs a list shows."""

    model_config = ConfigDict(extra="forbid")

    all: bool = Field(default=False, description="Also those that are done.")
    limit: int = Field(default=50, ge=1, le=1_000, description="Jobs at most, the newest first.")


@router.post("/bulk", response_model=DoneToMany, responses=documented(401, 403, 404, 409))
async def bulk(caller: Called, form: Bulk) -> Any:
    """Do one verb to many runs, each by itself with its own audit row; one that is refused does not stop the others.

    It is a job of its own, which anybody may pause meanwhile.
    """
    wanted = Selection(form.state, form.held_by, form.workflow, form.prefix, form.limit, form.shown)
    own = own_arguments(form.verb, step=form.step, item=form.item, to=form.to)
    done = await caller.bulk(form.verb, wanted, dry_run=form.dry_run, by=caller.person, reason=form.reason, **own)
    return _done(form.verb, done, dry_run=form.dry_run)


@router.get("/bulk/jobs", response_model=Jobs, responses=documented(401, 403))
async def list_jobs(caller: Looking, wanted: Annotated[WantedJobs, Query()]) -> Any:
    """List jobs on many runs that are open, newest first: who began them, why, and how far they are."""
    return {"jobs": [bulk_row(one) for one in await caller.bulks(every=wanted.all, limit=wanted.limit)]}


@router.get("/bulk/jobs/{job}", response_model=JobShown, responses=documented(401, 403, 404))
async def show_job(caller: Looking, job: JobNumber) -> Any:
    """Show a job: what became of each of its runs."""
    found = await asyncio.to_thread(bulking.named, caller, job)
    each = await asyncio.to_thread(caller.store.bulk_runs, job, every=True, after=-1, limit=found.runs)
    return {"job": bulk_row(found), "each": [bulk_run_row(one) for one in each]}


@router.post("/bulk/jobs/{job}/pause", response_model=DoneToJob, responses=documented(401, 403, 404, 409))
async def pause_job(caller: Called, job: JobNumber, form: Because) -> Any:
    """Let nobody go on with a job until it is resumed; whoever is at it stops after the run that is being done."""
    return {"verb": "pause", "job": bulk_row(await caller.pause_bulk(job, by=caller.person, reason=form.reason))}


@router.post("/bulk/jobs/{job}/resume", response_model=DoneToMany, responses=documented(401, 403, 404, 409))
async def resume_job(caller: Called, job: JobNumber, form: Because) -> Any:
    """Go on with a job that was paused, or whose process was killed; no run is done twice.

    What is done is done in the caller's name, for the reason of the job.
    """
    done = await caller.resume_bulk(job, by=caller.person, reason=form.reason)
    return _done((await asyncio.to_thread(bulking.named, caller, job)).verb, done)


def _done(verb: str, done: Iterable[Each], *, dry_run: bool = False) -> Document:
    return {"verb": verb, "dry_run": dry_run, "runs": [asdict(one) for one in done]}
