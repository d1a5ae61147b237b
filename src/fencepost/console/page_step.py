"""One step of a run by itself: what was intended, all that was seen of it, the rung it stands on, and its buttons.

It is the part of the run's page that is about this step, for whoever is sent its address; a button here is the run's
own, and answers on the run's page (`page_run`).
"""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response

from fencepost.console.documents import Document
from fencepost.console.page_frame import Page, shown
from fencepost.console.page_offers import offers
from fencepost.console.page_run import Read, read_run
from fencepost.console.page_visits import Visiting, Visitor
from fencepost.console.paths import RunId
from fencepost.core.errors import NotThere
from fencepost.core.guarantee import Rung
from fencepost.core.recovery import Moment, rung_now
from fencepost.runtime.contracts import recovery_table

router = APIRouter(route_class=Page, include_in_schema=False)


@router.get("/step")
async def show_step(
    request: Request, visitor: Visiting, run: Annotated[RunId, Query()], at: Annotated[str, Query(min_length=1)]
) -> Response:
    """The page of the step at this position."""
    found = await asyncio.to_thread(read_run, visitor, run)
    step = next((one for one in found.story["steps"] if one["position"] == at), None)
    if step is None:
        raise NotThere(f"run {run} has no step at {at!r}", hint="its page has those that there are")
    told: dict[str, Any] = {
        "step": step,
        "version": found.version,
        "rung": _rung_of(visitor, found, step),
        "guarantees": {row.step: row.guarantee for row in recovery_table(visitor.caller.app)},
        "offers": [one for one in offers(found.story, visitor) if one.about == at],
        "audit": [row for row in found.story["audit"] if (row["step"], row["item"]) == (step["name"], step["item"])],
    }
    return shown(request, "step_alone.html", now=found.now, run=found.story["run"], **told)


def _rung_of(visitor: Visitor, found: Read, step: Document) -> Rung | None:
    """Where an effect stands now, by its contract in this console's code; None: it is no effect, or not in the code."""
    operations = {one.position: one for one in found.told.history.operations}
    contracts = {one.name: one.contract for one in visitor.caller.app.effects()}
    operation = operations.get(step["position"])
    if operation is None or operation.effect not in contracts:
        return None
    moment = Moment(found.now, scope=operation.scope)
    return rung_now(operation, contracts[operation.effect], moment)
