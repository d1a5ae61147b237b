"""What a person does to a run over HTTP: one tiny handler for each verb, calling the function of every other door.

Each takes the version that the caller saw in If-Match, and leaves who, when and why in the audit. The guards and the
refusals are `runtime.verbs`'; which verbs there are, `runtime.repertoire`.
"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Response

from fencepost.console.api_answers import Done
from fencepost.console.api_forms import Because
from fencepost.console.api_runs import find
from fencepost.console.callers import Called, Caller
from fencepost.console.documents import run_row
from fencepost.console.paths import RunId
from fencepost.console.problems import ETAG, documented
from fencepost.console.versions import IfMatch, etag_of, version_meant

router = APIRouter(tags=["verbs"])

ANSWERS = ETAG | documented(401, 403, 404, 409, 412, 428)


@router.post("/runs/{run:path}/cancel", response_model=Done, responses=ANSWERS)
async def cancel(caller: Called, run: RunId, form: Because, response: Response, if_match: IfMatch = None) -> Any:
    """Stop what has not begun. What was sent is settled first; then the run is cancelled."""
    return await act(caller, "cancel", run, if_match, response, reason=form.reason)


async def act(
    caller: Caller, verb: str, run_id: str, if_match: str | None, response: Response, **arguments: Any
) -> Any:
    """Do a verb in the caller's name, on the run as they saw it."""
    before = await find(caller, run_id)
    version = version_meant(if_match, before)
    done = await getattr(caller, verb.replace(" ", "_"))(run_id, by=caller.person, version=version, **arguments)
    response.headers["ETag"] = etag_of(done)
    return {"verb": verb, "run": run_row(done)}
