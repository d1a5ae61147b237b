"""The front page, for whoever is woken at night: what is unknown, what is held and why, what failed, and who works.

Every number says as of when it is, and none costs more on a larger ledger: lists are short, and counts end at a bound.
What a run is and what may be done to it is `page_run`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from fencepost.console.page_frame import Page, shown
from fencepost.console.page_visits import Visiting
from fencepost.console.workers import workers_of
from fencepost.core.states import RunState

if TYPE_CHECKING:
    from fencepost.store.api import Store

router = APIRouter(route_class=Page, include_in_schema=False)

SHOWN_MAX = 20
"""Rows of a list."""

COUNTED_MAX = 1_000
"""Further than this nothing is counted: the page then says "more than"."""

ENDED_BADLY = (RunState.FAILED, RunState.COMPENSATING, RunState.PARTLY_COMPENSATED, RunState.COMPENSATION_FAILED)
ON_THEIR_WAY = (RunState.RUNNING, RunState.WAITING, RunState.READY, RunState.CANCELLING)


@router.get("/")
async def show_front(request: Request, visitor: Visiting) -> Response:
    """The page."""
    namespace = visitor.caller.namespace
    found = await asyncio.to_thread(read_front, visitor.caller.store, namespace)
    return shown(request, "front.html", namespace=namespace, most=COUNTED_MAX, **found)


def read_front(store: Store, namespace: str) -> dict[str, Any]:
    """What the page shows, by name; `now` is the ledger's clock."""
    states = (*ENDED_BADLY, *ON_THEIR_WAY)
    looked = store.first_look(namespace, states, limit=SHOWN_MAX + 1, most=COUNTED_MAX + 1)
    lengths = store.queue_lengths(namespace)
    return {
        "unknown": looked.unknown[:SHOWN_MAX],
        "is_more_unknown": len(looked.unknown) > SHOWN_MAX,
        "held": looked.held,
        "failed": looked.failed,
        "badly": [(state.value, looked.counts[state]) for state in ENDED_BADLY],
        "on_their_way": [(state.value, looked.counts[state]) for state in ON_THEIR_WAY],
        "behind": [
            {"queue": one, "due": lengths.get(one.name, (0, 0))[0]}
            for one in store.queues(namespace)
            if one.paused_at is not None or lengths.get(one.name, (0, 0))[0]
        ],
        "workers": workers_of(store, namespace),
        "now": store.now(),
    }
