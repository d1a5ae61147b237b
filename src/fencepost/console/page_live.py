"""Keeps an open page as the ledger is: a stream of server-sent events with the part of it that changes by itself.

A stream is no use of the session, so that an open page keeps nobody signed in, and ends with it. What somebody reads or
writes meanwhile, evidence and forms, is never replaced under their hands; a page without scripts is as it was when it
was opened, and says when that was. Pages are `page_front` and `page_run`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request
from fastapi.responses import Response, StreamingResponse

from fencepost.console.page_frame import Page, filled
from fencepost.console.page_front import COUNTED_MAX, read_front
from fencepost.console.page_run import read_run
from fencepost.console.page_visits import Visiting
from fencepost.console.paths import RunId
from fencepost.core.errors import StoreUnavailable
from fencepost.runtime import accounts

if TYPE_CHECKING:
    from fencepost.console.page_visits import Visitor

router = APIRouter(route_class=Page, include_in_schema=False)

LOOKS_EVERY = 1.0
"""Seconds between two looks at the ledger."""

HEARD_EVERY = 10
"""After so many looks without a change the browser is told that there is none, and the time."""

STREAMS_MAX = 100
"""More are not kept open at a time; a page then stays as it was opened."""

Draw = Callable[[], tuple[str, str]]
"""What is shown now, and what tells it from what was shown before: ages alone are no change."""


@router.get("/live/front")
async def follow_front(request: Request, visitor: Visiting) -> Response:
    """The front page, whenever something of it has changed."""
    namespace = visitor.caller.namespace

    def draw() -> tuple[str, str]:
        found = read_front(visitor.caller.store, namespace)
        now = found.pop("now")
        html = filled(request, "front_body.html", now=now, namespace=namespace, most=COUNTED_MAX, **found)
        return html, _without_ages(found)

    return await _stream(request, visitor, draw)


@router.get("/live/runs/{run:path}")
async def follow_run(request: Request, visitor: Visiting, run: RunId, seen: str = "") -> Response:
    """How a run stands, whenever it has changed; `seen` is the version that the page shows."""

    def draw() -> tuple[str, str]:
        found = read_run(visitor, run)
        html = filled(request, "run_now.html", now=found.now, seen=seen, **found.shown)
        return html, found.version

    return await _stream(request, visitor, draw)


async def _stream(request: Request, visitor: Visitor, draw: Draw) -> Response:
    state = request.app.state
    if state.streams >= STREAMS_MAX:
        raise StoreUnavailable("too many pages are kept fresh at a time", hint="reload the page to see it as it is")
    return StreamingResponse(
        _events(request, visitor, draw), media_type="text/event-stream", headers={"X-Accel-Buffering": "no"}
    )


async def _events(request: Request, visitor: Visitor, draw: Draw) -> AsyncIterator[str]:
    """Events until the session, the server or the page ends."""
    state = request.app.state
    state.streams += 1
    try:
        last, quiet = "", HEARD_EVERY
        while not state.is_ending():
            if await asyncio.to_thread(accounts.visitor, visitor.caller, visitor.secret, is_used=False) is None:
                return
            html, mark = await asyncio.to_thread(draw)
            quiet += 1
            if mark != last or quiet > HEARD_EVERY:
                last, quiet = mark, 0
                yield "".join(f"data: {line}\n" for line in html.splitlines()) + "\n"
            await asyncio.sleep(LOOKS_EVERY)
    finally:
        state.streams -= 1


def _without_ages(found: dict[str, object]) -> str:
    """What is shown, as a text that is the same as long as nothing but time has passed."""
    return repr({name: one for name, one in found.items() if name != "workers"})
