"""What a person does to a run over HTTP: one tiny handler for each verb, calling the function of every other door.

Each takes the version that the caller saw in If-Match, and leaves who, when and why in the audit. The guards and the
refusals are `runtime.verbs`'; which verbs there are, `runtime.repertoire`. Many runs at once are `api_bulk`'s.
"""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter, Response

from fencepost.console.acting import act, answer_a_wait, detached_by
from fencepost.console.api_answers import Done, Rehearsed, Sent
from fencepost.console.api_forms import (
    Approve,
    Because,
    Form,
    Migrate,
    OfStep,
    Reconcile,
    Redecide,
    Rehearse,
    Settle,
    SettleConflict,
)
from fencepost.console.api_runs import find
from fencepost.console.callers import Called, Caller, Looking
from fencepost.console.documents import rehearsed_document, run_row
from fencepost.console.paths import RunId
from fencepost.console.problems import ETAG, documented
from fencepost.console.versions import IfMatch, etag_of
from fencepost.runtime import migrating

router = APIRouter(tags=["verbs"])

ANSWERS = ETAG | documented(401, 403, 404, 409, 412, 428)


@router.post("/runs/{run:path}/cancel", response_model=Done, responses=ANSWERS)
async def cancel(caller: Called, run: RunId, form: Because, response: Response, if_match: IfMatch = None) -> Any:
    """Stop what has not begun. What was sent is settled first; then the run is cancelled.

    Its attached children are cancelled with it; detached ones are named, and go on.
    """
    return await _act(caller, "cancel", run, form, if_match=if_match, response=response)


@router.post("/runs/{run:path}/resume", response_model=Done, responses=ANSWERS)
async def resume(caller: Called, run: RunId, form: Because, response: Response, if_match: IfMatch = None) -> Any:
    """Let a held or failed run go on."""
    return await _act(caller, "resume", run, form, if_match=if_match, response=response)


@router.post("/runs/{run:path}/reconcile", response_model=Done, responses=ANSWERS)
async def reconcile(caller: Called, run: RunId, form: Reconcile, response: Response, if_match: IfMatch = None) -> Any:
    """Have a run's unknown effects asked about now, or that of one step; a worker does it."""
    return await _act(caller, "reconcile", run, form, if_match=if_match, response=response)


@router.post("/runs/{run:path}/retry", response_model=Done, responses=ANSWERS)
async def retry(caller: Called, run: RunId, form: OfStep, response: Response, if_match: IfMatch = None) -> Any:
    """Give an operation that failed for good a new budget, and let its run go on."""
    return await _act(caller, "retry", run, form, if_match=if_match, response=response)


@router.post("/runs/{run:path}/settle", response_model=Done, responses=ANSWERS)
async def settle(caller: Called, run: RunId, form: Settle, response: Response, if_match: IfMatch = None) -> Any:
    """Say whether an unknown effect happened: the reason is kept as evidence, and the run goes on by itself.

    "Did not happen" is believed only when no request can still land.
    """
    return await _act(caller, "settle", run, form, if_match=if_match, response=response)


@router.post("/runs/{run:path}/settle-conflict", response_model=Done, responses=ANSWERS)
async def settle_conflict(
    caller: Called, run: RunId, form: SettleConflict, response: Response, if_match: IfMatch = None
) -> Any:
    """Say that what contradicted itself was put right at the target, and what stands there now."""
    return await _act(caller, "settle conflict", run, form, if_match=if_match, response=response)


@router.post("/runs/{run:path}/compensate", response_model=Done, responses=ANSWERS)
async def compensate(caller: Called, run: RunId, form: Because, response: Response, if_match: IfMatch = None) -> Any:
    """Have a worker compensate a run's effects, the last first. Those that failed before are tried again."""
    return await _act(caller, "compensate", run, form, if_match=if_match, response=response)


@router.post("/runs/{run:path}/compensate-step", response_model=Done, responses=ANSWERS)
async def compensate_step(
    caller: Called, run: RunId, form: OfStep, response: Response, if_match: IfMatch = None
) -> Any:
    """Have a worker compensate one effect of a run and nothing else of it; refused while what rests on it stands."""
    return await _act(caller, "compensate step", run, form, if_match=if_match, response=response)


@router.post("/runs/{run:path}/forward", response_model=Done, responses=ANSWERS)
async def forward(caller: Called, run: RunId, form: OfStep, response: Response, if_match: IfMatch = None) -> Any:
    """Have a failed step's work done the other way that its effect declares; its run goes on with that answer."""
    return await _act(caller, "forward", run, form, if_match=if_match, response=response)


@router.post("/runs/{run:path}/redecide", response_model=Done, responses=ANSWERS)
async def redecide(caller: Called, run: RunId, form: Redecide, response: Response, if_match: IfMatch = None) -> Any:
    """Have a decision of a run's model made anew, where the stored one was wrong. Effects are not sent again."""
    return await _act(caller, "redecide", run, form, if_match=if_match, response=response)


@router.post("/runs/{run:path}/terminate", response_model=Done, responses=ANSWERS)
async def terminate(caller: Called, run: RunId, form: Because, response: Response, if_match: IfMatch = None) -> Any:
    """End a run at once, whatever it is doing. Its effects stand."""
    return await _act(caller, "terminate", run, form, if_match=if_match, response=response)


@router.post("/runs/{run:path}/reopen", response_model=Done, responses=ANSWERS)
async def reopen(caller: Called, run: RunId, form: Because, response: Response, if_match: IfMatch = None) -> Any:
    """Let a run that was terminated, was cancelled or has succeeded go on from where it ended."""
    return await _act(caller, "reopen", run, form, if_match=if_match, response=response)


@router.post("/runs/{run:path}/migrate", response_model=Done, responses=ANSWERS)
async def migrate(caller: Called, run: RunId, form: Migrate, response: Response, if_match: IfMatch = None) -> Any:
    """Pin a run to another version of its workflow; the first difference in its history refuses it."""
    return await _act(caller, "migrate", run, form, if_match=if_match, response=response)


@router.post("/runs/{run:path}/rehearse", response_model=Rehearsed, responses=documented(401, 403, 404))
async def rehearse(caller: Looking, run: RunId, form: Rehearse) -> Any:
    """Say whether a run's history fits another version of its workflow, and change nothing."""
    found = await find(caller, run)
    came = await asyncio.to_thread(migrating.rehearsed, caller, found, to=form.to)
    return rehearsed_document(found, form.to, came)


@router.post("/runs/{run:path}/approve", response_model=Sent, responses=documented(401, 403, 404, 409))
async def approve(caller: Called, run: RunId, form: Approve) -> Any:
    """Allow, or refuse, the one call that a run waits to be allowed; the caller's right is asked when it is used."""
    kept = await answer_a_wait(caller, run, form)
    return {"run": run, "signal": kept.id, "name": kept.name, "state": kept.state}


async def _act(
    caller: Caller, verb: str, run_id: str, form: Form, *, if_match: str | None, response: Response
) -> dict[str, Any]:
    """Do a verb in the caller's name, on the run as they saw it, with what the form says."""
    acted = await act(caller, verb, run_id, form, if_match=if_match)
    response.headers["ETag"] = etag_of(acted.run)
    detached = await detached_by(caller, acted.run) if verb == "cancel" else []
    return {"verb": verb, "before": acted.before, "run": run_row(acted.run), "detached": detached}
