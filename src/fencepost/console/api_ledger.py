"""What concerns the whole ledger, over HTTP: proposals, alerts, the audit, its check, the contracts, purge and restore.

Each handler calls the function of every other door. What looks beyond the caller's namespace needs an admin.
"""

from __future__ import annotations

import asyncio
from dataclasses import asdict
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Response
from pydantic import BaseModel, ConfigDict, Field

from fencepost.console.api_answers import (
    Alerts,
    AuditRows,
    Checked,
    Contract,
    Done,
    Epoch,
    Proposal,
    Proposals,
    Purged,
    Verdict,
)
from fencepost.console.api_forms import Because, Name, Number, Purge
from fencepost.console.callers import Called, Looking
from fencepost.console.documents import (
    alert_row,
    audit_row,
    checked_document,
    proposal_row,
    run_row,
    verdict_document,
)
from fencepost.console.paths import ProposalNumber
from fencepost.console.problems import ETAG, documented
from fencepost.console.versions import etag_of
from fencepost.runtime import checking, restoring
from fencepost.runtime.contracts import recovery_table
from fencepost.runtime.retention import Retention
from fencepost.store.chain import Anchor
from fencepost.store.governing import AuditFilter

router = APIRouter(tags=["ledger"])


class WantedProposals(BaseModel):
    """Which proposals a list shows."""

    model_config = ConfigDict(extra="forbid")

    all: bool = Field(default=False, description="Also what was confirmed, declined or is over.")
    limit: int = Field(default=50, ge=1, le=1_000, description="Proposals at most, the newest first.")


class WantedRows(BaseModel):
    """Which audit rows a list shows."""

    model_config = ConfigDict(extra="forbid")

    run: Name | None = Field(default=None, description="Only what was done to this run.")
    verb: Name | None = Field(default=None, description="Only this verb.", examples=["settle"])
    actor: Name | None = Field(default=None, description="Only what they did.", examples=["ann"])
    outcome: Literal["done", "refused"] | None = Field(default=None, description="Only what was done, or refused.")
    before: Number | None = Field(default=None, description="The next page: `next` of the page before.")
    limit: int = Field(default=50, ge=1, le=1_000, description="Rows on a page.")


class Anchored(BaseModel):
    """A known end of the chain."""

    model_config = ConfigDict(extra="forbid")

    no: Number | None = Field(default=None, description="The number of an anchored row.")
    hash: Name | None = Field(default=None, description="Its hash.")


@router.get("/proposals", response_model=Proposals, responses=documented(401, 403))
async def list_proposals(caller: Looking, wanted: Annotated[WantedProposals, Query()]) -> Any:
    """List what one person has asked for and a second one has to confirm."""
    found = await caller.proposals(every=wanted.all, limit=wanted.limit)
    now = await asyncio.to_thread(caller.store.now)
    hidden: dict[str, Any] = {} if await asyncio.to_thread(caller.reads_payloads) else {"arguments": {}}
    return {"proposals": [proposal_row(one, now) | hidden for one in found]}


@router.post("/proposals/{proposal}/confirm", response_model=Done, responses=ETAG | documented(401, 403, 404, 409, 412))
async def confirm(caller: Called, proposal: ProposalNumber, form: Because, response: Response) -> Any:
    """Carry out what another person proposed, if the run is still as that person saw it."""
    kept = await asyncio.to_thread(caller.store.proposal, caller.namespace, proposal)
    before = None if kept is None else await asyncio.to_thread(caller.store.find, caller.namespace, kept.run_id)
    done = await caller.confirm(proposal, by=caller.person, reason=form.reason)
    assert kept is not None, "it was just confirmed"
    assert before is not None, "so its run is there"
    response.headers["ETag"] = etag_of(done)
    return {"verb": kept.verb, "before": before.state, "run": run_row(done)}


@router.post("/proposals/{proposal}/decline", response_model=Proposal, responses=documented(401, 403, 404, 409))
async def decline(caller: Called, proposal: ProposalNumber, form: Because) -> Any:
    """Close a proposal, one's own or another's, without carrying it out."""
    closed = await caller.decline(proposal, by=caller.person, reason=form.reason)
    return proposal_row(closed, await asyncio.to_thread(caller.store.now))


@router.get("/alerts", response_model=Alerts, responses=documented(401, 403))
async def list_alerts(caller: Looking) -> Any:
    """Measure every alert on the ledger, the most urgent first."""
    found = await caller.alerts()
    return {"alerts": [alert_row(one) for one in found], "firing": sum(one.fires for one in found)}


@router.get("/audit", response_model=AuditRows, responses=documented(401, 403))
async def list_audit(caller: Looking, wanted: Annotated[WantedRows, Query()]) -> Any:
    """List who did what to which run, and why, newest first; what was refused too."""
    page = AuditFilter(
        caller.namespace, wanted.run, wanted.verb, wanted.actor, wanted.outcome, wanted.before, wanted.limit + 1
    )
    found = await asyncio.to_thread(caller.store.list_audits, page)
    following = found[wanted.limit - 1].no if len(found) > wanted.limit else None
    return {"rows": [audit_row(one) for one in found[: wanted.limit]], "next": following}


@router.get("/audit/verify", response_model=Verdict, responses=documented(401, 403))
async def verify_audit(caller: Looking, known: Annotated[Anchored, Query()]) -> Any:
    """Say whether the audit is as it was written. The rows of all namespaces are one chain.

    Without an anchor, rows that were cut off at its end are not missed.
    """
    anchor = None if known.no is None or known.hash is None else Anchor(known.no, known.hash)
    return verdict_document(await caller.verify_audit(anchor))


@router.get("/check", response_model=Checked, responses=documented(401, 403))
async def check(caller: Called) -> Any:
    """Look through the whole ledger for contradictions, in all its namespaces. Changes nothing; takes its time."""
    await caller.may("check")
    return checked_document(await asyncio.to_thread(checking.check, caller.store))


@router.get("/contract", response_model=Contract, responses=documented(401, 403))
async def contract(caller: Looking) -> Any:
    """The recovery table of the console's app: what happens to each step when something goes wrong."""
    rows = recovery_table(caller.app)
    return {"blanks": sum(len(row.blanks) for row in rows), "steps": [asdict(row) for row in rows]}


@router.post("/purge", response_model=Purged, responses=documented(401, 403))
async def purge(caller: Called, form: Purge) -> Any:
    """Remove what runs hold that ended long ago; their ids stay taken. Runs that anything still needs are kept."""
    done = await caller.purge(Retention(form.keep), by=caller.person, reason=form.reason, dry_run=form.dry_run)
    return {"runs": dict(done.runs), "kept": done.kept, "dry_run": form.dry_run}


@router.post("/restored", response_model=Epoch, responses=documented(401, 403))
async def restored(caller: Called, form: Because) -> Any:
    """Say that the ledger was restored from a backup: every lease, generation and token of before is void."""
    found = await asyncio.to_thread(restoring.restored, caller, by=caller.person, reason=form.reason)
    return {"epoch": found.number, **_times(found)}


@router.post("/restored/close", response_model=Epoch, responses=documented(401, 403, 409))
async def close_lost_time(caller: Called, form: Because) -> Any:
    """Say that nothing more will turn up from the time that was lost with the last restore."""
    found = await asyncio.to_thread(restoring.close_lost_time, caller, by=caller.person, reason=form.reason)
    return {"epoch": found.number, **_times(found)}


def _times(epoch: Any) -> dict[str, int | None]:
    return {"lost_from": epoch.lost_from, "began_at": epoch.began_at, "closed_at": epoch.closed_at}
