"""The console's pages, put together: their addresses, and the files that they load.

What each shows is in the `page_` modules, over the queries and verbs of every other door.
"""

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import Response

from fencepost.console import (
    page_audit,
    page_charts,
    page_flow,
    page_front,
    page_ledger,
    page_live,
    page_many,
    page_provider,
    page_run,
    page_runs,
    page_sign_in,
    page_step,
)
from fencepost.console.page_frame import Page, asset
from fencepost.core.errors import NotThere

_FILES = APIRouter(route_class=Page, include_in_schema=False)
_KINDS = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8", "svg": "image/svg+xml"}

FRESH = "public, max-age=300"
"""For how long a browser may use such a file again without asking: nobody's data is in it."""


@_FILES.get("/static/{name}")
async def show_file(request: Request, name: str) -> Response:
    """One of the files that pages load, to anybody."""
    del request
    kind = _KINDS.get(name.rpartition(".")[2])
    content = asset(name)
    if kind is None or content is None:
        raise NotThere(f"there is no file {name!r}", hint="the pages load what there is")
    return Response(content, media_type=kind, headers={"Cache-Control": FRESH})


ROUTERS = (
    _FILES,
    page_sign_in.router,
    page_audit.router,
    page_charts.router,
    page_step.router,
    page_provider.router,
    page_front.router,
    page_flow.router,
    page_ledger.router,
    page_live.router,
    page_many.router,
    page_runs.router,
    page_run.router,
)
"""In this order: a run's id may hold anything."""
