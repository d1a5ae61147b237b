"""What is seen of a ledger from outside, over HTTP: a run's trace, the numbers for Prometheus, how the workers fare.

Each handler calls the function of every other door; what is measured is `telemetry`'s matter. Whoever has no token is
told whether the console itself is well, and nothing else: a load balancer asks for no more.
"""

from __future__ import annotations

import asyncio
from typing import Any, Literal

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse
from pydantic import Field

from fencepost.console.api_answers import Instant, Shown
from fencepost.console.api_runs import find
from fencepost.console.callers import Looking
from fencepost.console.documents import trace_document
from fencepost.console.paths import RunId
from fencepost.console.problems import Documented, documented
from fencepost.console.workers import workers_of
from fencepost.runtime.tracing import read_trace
from fencepost.telemetry.exposition import CONTENT_TYPE
from fencepost.telemetry.health import health
from fencepost.telemetry.metrics import metrics

router = APIRouter(tags=["watching"])
probe = APIRouter()

_WELL, _UNWELL = 200, 503
_EXAMPLE = "# TYPE fencepost_held_runs gauge\n# EOF\n"
_OPEN_METRICS: Documented = {200: {"content": {CONTENT_TYPE: {"schema": {"type": "string"}, "example": _EXAMPLE}}}}


class Span(Shown):
    """One thing that a run did, or that was done to it; `parent` is the id of the span around it."""

    id: str
    parent: str | None
    name: str
    kind: str = Field(examples=["attempt"])
    began_at: Instant
    ended_at: Instant | None
    status: Literal["open", "ok", "error", "unknown"]
    says: str
    attributes: dict[str, str | int | bool]


class Trace(Shown):
    """The one trace of a run, across crashes, workers and verbs."""

    trace: str = Field(description="Its id, under which OpenTelemetry has it too.")
    run: str
    namespace: str
    spans: list[Span]


class Worker(Shown):
    """A worker that holds a lease; `overdue` is how many microseconds too late it is with renewing it."""

    lease: str
    host: str
    pid: int
    renewed_at: Instant
    expires_at: Instant
    overdue: int


class Fares(Shown):
    """Whether the workers on the ledger move, and for how many microseconds a run has waited that could go on."""

    well: bool
    workers: list[Worker]
    waiting: int


class OpenMetrics(Response):
    """OpenMetrics text."""

    media_type = CONTENT_TYPE


@router.get("/traces/{run:path}", response_model=Trace, responses=documented(401, 403, 404))
async def trace_run(caller: Looking, run: RunId) -> Any:
    """Show what a run did as one trace, made from the ledger."""
    found = await find(caller, run)
    return trace_document(await asyncio.to_thread(read_trace, caller.store, found))


@router.get(
    "/metrics",
    response_class=OpenMetrics,
    responses=_OPEN_METRICS | documented(401, 403),
)
async def read_metrics(caller: Looking) -> Any:
    """The ledger's numbers as OpenMetrics text. What workers count each of them serves itself."""
    return OpenMetrics(await asyncio.to_thread(metrics, caller.app))


@router.get("/health", response_model=Fares, responses=documented(401, 403))
async def read_health(caller: Looking) -> Any:
    """Say of each worker that holds a lease whether it still moves."""
    return (await asyncio.to_thread(workers_of, caller.store, caller.namespace)).as_document()


@probe.api_route("/health", methods=["GET", "HEAD"], include_in_schema=False)
async def is_well(request: Request) -> JSONResponse:
    """Whether the console answers and reaches its ledger: 200 or 503, to anybody."""
    found = await asyncio.to_thread(health, request.app.state.fencepost)
    return JSONResponse({"well": found.is_well}, _WELL if found.is_well else _UNWELL)
