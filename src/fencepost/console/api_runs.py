"""Runs over HTTP: listed, shown, started and signalled.

What a person does to one is in `api_verbs`; the documents are those of the command line's `--json` (`reading`).
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from fencepost.console.acting import answer_a_wait
from fencepost.console.api_answers import Begun, Outcome, Runs, Sent
from fencepost.console.api_forms import NUMBER_MAX, Name, Number, Signal, Start
from fencepost.console.api_story import Story
from fencepost.console.callers import Called, Caller, Looking
from fencepost.console.documents import outcome, run_row
from fencepost.console.inputs import called_with
from fencepost.console.paths import RunId
from fencepost.console.problems import ETAG, documented
from fencepost.console.reading import document_of, runs_page
from fencepost.console.versions import etag_of
from fencepost.core.errors import Misuse, NotPermitted, NotThere
from fencepost.core.records import Run
from fencepost.core.standin import missing
from fencepost.core.states import RunState
from fencepost.runtime.permits import no_such_run
from fencepost.runtime.workflow import Workflow
from fencepost.store.api import RunFilter

router = APIRouter(tags=["runs"])


WAIT_MAX = 30
"""Seconds for which a request may wait; whoever waits longer asks again."""


class Wanted(BaseModel):
    """Which runs a list shows."""

    model_config = ConfigDict(extra="forbid")

    state: RunState | None = Field(default=None, description="Only runs in this state.")
    workflow: Name | None = Field(default=None, description="Only runs of this workflow.", examples=["approve_invoice"])
    prefix: Name | None = Field(
        default=None, description="Only runs whose id begins so.", examples=["invoice:tenant-42"]
    )
    after: Number | None = Field(default=None, description="The next page: `next` of the page before.")
    limit: int = Field(default=50, ge=1, le=1_000, description="Runs on a page.")


class Told(BaseModel):
    """How a run is shown."""

    model_config = ConfigDict(extra="forbid")

    turn: Annotated[int, Field(ge=0, le=NUMBER_MAX)] | None = Field(
        default=None, description="An earlier turn of one that continued."
    )
    redact: bool = Field(
        default=False,
        description="Without requests, results, evidence and signals' values; so it is for whoever may only look, "
        "where the ledger is encrypted.",
    )


class Within(BaseModel):
    """How long somebody waits for a run."""

    model_config = ConfigDict(extra="forbid")

    within: int = Field(default=0, ge=0, le=WAIT_MAX, description="Seconds; the answer comes as soon as it is over.")


@router.get("/runs", response_model=Runs, responses=documented(401, 403))
async def list_runs(caller: Looking, wanted: Annotated[Wanted, Query()]) -> Any:
    """List runs, newest first."""
    state = None if wanted.state is None else wanted.state.value
    page = RunFilter(caller.namespace, state, wanted.workflow, wanted.prefix, wanted.after, wanted.limit)
    found = await asyncio.to_thread(runs_page, caller.store, page)
    return found.as_document()


@router.post("/runs", status_code=201, response_model=Begun, responses=documented(401, 403, 409))
async def start_run(caller: Called, form: Start, response: Response) -> Any:
    """Start a run, or find the one that this id and input have started already: the same request is one run."""
    await caller.may("start", form.id)
    declared = _workflow_of(caller, form)
    args, kwargs = called_with(declared, form.input)
    handle = await caller.app.start(
        declared, *args, id=form.id, on_behalf_of=form.on_behalf_of, queue=form.queue, queue_key=form.queue_key,
        priority=form.priority, delay=form.delay, dedup=form.dedup, **kwargs,
    )  # fmt: skip
    run = await find(caller, handle.id)
    response.headers["ETag"] = etag_of(run)
    return {"run": run_row(run)}


@router.get(
    "/runs/{run:path}",
    response_model=Story,
    responses=ETAG | documented(401, 403, 404),
)
async def show_run(caller: Looking, run: RunId, told: Annotated[Told, Query()], response: Response) -> Any:
    """Show one run, step by step: what is known, what is not, and which verbs apply."""
    found = await find(caller, run)
    if told.turn not in (None, found.turn):
        of_turn = await asyncio.to_thread(caller.store.turn, caller.namespace, run, told.turn)
        if of_turn is None:
            raise NotThere(
                f"the run has no turn {told.turn}", hint=f"its turns are 0 to {found.turn}", ids={"run": run}
            )
        found = of_turn
    response.headers["ETag"] = etag_of(found)
    redact = told.redact or not await asyncio.to_thread(caller.reads_payloads)
    return await asyncio.to_thread(document_of, caller.store, found, redact=redact)


@router.get("/outcomes/{run:path}", response_model=Outcome, responses=ETAG | documented(401, 403, 404))
async def wait_for_run(caller: Looking, run: RunId, how: Annotated[Within, Query()], response: Response) -> Any:
    """Say how a run has ended; one that has not is waited for, as long as is asked for."""
    handle = await caller.app.handle(run)
    found = await handle.left(within=f"{how.within}s")
    gone = None if found.result is None else missing(found.result)
    if gone is not None:
        raise NotThere(f"the run's result is not here: {gone}", ids={"run": run})
    if found.result is not None and not await asyncio.to_thread(caller.reads_payloads):
        raise NotPermitted(
            f"{caller.person!r} may only look, and the run's result is kept encrypted",
            hint="whoever has another role may read it", ids={"run": run},
        )  # fmt: skip
    response.headers["ETag"] = etag_of(found)
    return outcome(found)


@router.post("/runs/{run:path}/signal", response_model=Sent, responses=documented(401, 403, 404, 409))
async def signal_run(caller: Called, run: RunId, form: Signal) -> Any:
    """Send a run what it waits for. It is kept until its wait comes, applied once, or refused with a reason."""
    kept = await answer_a_wait(caller, run, form)
    return {"run": run, "signal": kept.id, "name": kept.name, "state": kept.state}


async def find(caller: Caller, run_id: str) -> Run:
    """The run with this id. Raises `RunNotFound`."""
    found = await asyncio.to_thread(caller.store.find, caller.namespace, run_id)
    if found is None:
        raise no_such_run(run_id)
    return found


def _workflow_of(caller: Caller, form: Start) -> Workflow[..., Any]:
    known = {number: one for (name, number), one in caller.workflows.items() if name == form.workflow}
    found = known.get(form.version or max(known, default=0))
    if found is None:
        has = ", ".join(sorted(f"{name} {number}" for name, number in caller.workflows)) or "none"
        raise Misuse(f"there is no workflow {form.workflow!r} of this version here", hint=f"there are: {has}")
    return found
