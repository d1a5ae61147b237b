"""What concerns the whole ledger, as pages: what waits for a second person, and the contracts.

A second person confirms what the first one saw; the function is that of every other door. The audit is `page_audit`.
"""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from fencepost.console.api_forms import Because
from fencepost.console.documents import proposal_row
from fencepost.console.page_frame import Page, address, moved, shown
from fencepost.console.page_offers import Offer, taken
from fencepost.console.page_visits import Posted, Visiting
from fencepost.console.paths import ProposalNumber
from fencepost.runtime.contracts import HEADINGS, recovery_table

router = APIRouter(route_class=Page, include_in_schema=False)

PROPOSALS = "/proposals"
ROWS = 50


@router.get(PROPOSALS)
async def show_proposals(request: Request, visitor: Visiting) -> Response:
    """What one person has asked for and a second one has to confirm."""
    found = await visitor.caller.proposals(limit=ROWS)
    now = await asyncio.to_thread(visitor.caller.store.now)
    rows = [(proposal_row(one, now), _offers(visitor, one.verb, one.proposed_by)) for one in found]
    reads = await asyncio.to_thread(visitor.caller.reads_payloads)
    return shown(request, "proposals.html", now=now, rows=rows, reads=reads)


def _offers(visitor: Visiting, verb: str, proposed_by: str) -> list[Offer]:
    """Nobody is the second person for what they have proposed themselves."""
    confirms = proposed_by != visitor.person and visitor.may("confirm") and visitor.may(verb)
    wanted = (("confirm", confirms), ("decline", visitor.may("decline")))
    return [Offer(one) for one, may in wanted if may]


@router.post("/proposals/{proposal}/confirm")
async def confirm(sent: Posted, proposal: ProposalNumber) -> Response:
    """Carry out what another person proposed, if the run is still as that person saw it."""
    form, visitor = taken(Because, sent.fields), sent.visitor
    done = await visitor.caller.confirm(proposal, by=visitor.person, reason=form.reason)
    return moved(address("runs", done.id))


@router.post("/proposals/{proposal}/decline")
async def decline(sent: Posted, proposal: ProposalNumber) -> Response:
    """Close a proposal without carrying it out."""
    form, visitor = taken(Because, sent.fields), sent.visitor
    await visitor.caller.decline(proposal, by=visitor.person, reason=form.reason)
    return moved(PROPOSALS)


@router.get("/contracts")
async def show_contracts(request: Request, visitor: Visiting) -> Response:
    """What happens to each step when something goes wrong, and what its contract guarantees; blanks as blanks."""
    steps = [_step(asdict(row)) for row in recovery_table(visitor.caller.app)]
    now = await asyncio.to_thread(visitor.caller.store.now)
    return shown(request, "contracts.html", now=now, steps=steps)


def _step(row: dict[str, Any]) -> dict[str, Any]:
    """A step's name, what its contract leaves open, and every other cell under its heading."""
    cells = [
        (HEADINGS[name], "; ".join(value) if isinstance(value, tuple | list) else value)
        for name, value in row.items()
        if name not in ("step", "blanks")
    ]
    return {"name": row["step"], "blanks": list(row["blanks"]), "cells": cells}
