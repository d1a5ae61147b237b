"""Charts of the namespace: the age of what is unknown, throughput, latency, and retries by target.

They are drawn by `charts` from the ledger's newest runs, only when somebody asks: the front page costs nothing more.
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from fencepost.console.charts import charts, figures
from fencepost.console.page_frame import Page, shown, texts_of
from fencepost.console.page_visits import Visiting
from fencepost.console.picture_words import in_language
from fencepost.core.duration import microseconds

router = APIRouter(route_class=Page, include_in_schema=False)

Within = Literal["1h", "6h", "24h", "7d"]
WITHIN: tuple[Within, ...] = ("1h", "6h", "24h", "7d")


@router.get("/charts")
async def show_charts(request: Request, visitor: Visiting, within: Annotated[Within, Query()] = "1h") -> Response:
    """The page."""
    caller = visitor.caller
    found = await asyncio.to_thread(figures, caller.store, caller.namespace)
    now = await asyncio.to_thread(caller.store.now)
    targets = {one.name: one.declared.target for one in caller.app.effects() if one.declared.target is not None}
    say = in_language(texts_of(request).language)
    drawn = charts(found, now=now, within=microseconds(within), targets=targets, say=say)
    return shown(request, "charts.html", now=now, pictures=list(drawn), within=within, choices=WITHIN)
