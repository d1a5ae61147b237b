"""The audit as pages: filtered, verified, and written out.

Rows are asked for by number, so that no page costs more the older the ledger is; verifying reads the whole chain, and
says how far it can tell. What a row and the chain are is `store.chain`.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response, StreamingResponse
from pydantic import BaseModel, BeforeValidator, ConfigDict

from fencepost.console.api_forms import Number
from fencepost.console.documents import audit_row, verdict_document
from fencepost.console.page_frame import Page, address, shown
from fencepost.console.page_runs import Text, given
from fencepost.console.page_visits import Visiting
from fencepost.core.permissions import VERBS
from fencepost.store.chain import Anchor
from fencepost.store.governing import AuditFilter

if TYPE_CHECKING:
    from fencepost.store.api import Store

router = APIRouter(route_class=Page, include_in_schema=False)

ROWS = 50
EXPORTED_AT_A_TIME = 1_000


class WantedRows(BaseModel):
    """Which rows of the audit are shown."""

    model_config = ConfigDict(extra="forbid")

    run: Text = None
    verb: Text = None
    actor: Text = None
    outcome: Text = None
    before: Annotated[Number | None, BeforeValidator(given)] = None

    @property
    def said(self) -> dict[str, str]:
        """What is asked for, as it stands in the address; without the page."""
        return self.model_dump(exclude_none=True, exclude={"before"})


@router.get("/audit")
async def show_audit(request: Request, visitor: Visiting, wanted: Annotated[WantedRows, Query()]) -> Response:
    """Who did what to which run, and why, newest first; what was refused too."""
    store, namespace = visitor.caller.store, visitor.caller.namespace
    page = AuditFilter(
        namespace, wanted.run, wanted.verb, wanted.actor, wanted.outcome, wanted.before, ROWS + 1
    )  # fmt: skip
    found = await asyncio.to_thread(store.list_audits, page)
    following = None if len(found) <= ROWS else address("audit", **wanted.said, before=found[ROWS - 1].no)
    return shown(
        request, "audit.html", now=await asyncio.to_thread(store.now), wanted=wanted, following=following,
        rows=[audit_row(one) for one in found[:ROWS]], verbs=sorted(VERBS),
    )  # fmt: skip


class Anchored(BaseModel):
    """A row of which somebody knows elsewhere."""

    model_config = ConfigDict(extra="forbid")

    no: Annotated[Number | None, BeforeValidator(given)] = None
    hash: Text = None


@router.get("/audit/verify")
async def verify(request: Request, visitor: Visiting, known: Annotated[Anchored, Query()]) -> Response:
    """Whether the audit is as it was written; with a row that was anchored, also whether its end is."""
    anchor = None if known.no is None or known.hash is None else Anchor(known.no, known.hash)
    verdict = await visitor.caller.verify_audit(anchor)
    now = await asyncio.to_thread(visitor.caller.store.now)
    return shown(request, "audit_verified.html", now=now, told=verdict_document(verdict))


@router.get("/audit/export")
async def export(visitor: Visiting) -> Response:
    """Every row of the namespace's audit, newest first, a JSON object a line."""
    name = f'attachment; filename="audit-{visitor.caller.namespace}.jsonl"'.encode("ascii", "replace").decode()
    lines = _lines(visitor.caller.store, visitor.caller.namespace)
    return StreamingResponse(lines, media_type="application/jsonl", headers={"Content-Disposition": name})


def _lines(store: Store, namespace: str) -> Iterator[str]:
    before: int | None = None
    while found := store.list_audits(AuditFilter(namespace, None, None, None, None, before, EXPORTED_AT_A_TIME)):
        yield "".join(json.dumps(audit_row(one)) + "\n" for one in found)
        before = found[-1].no
