"""What outside systems send in: reports on jobs, under the token of the job, and providers' signed events.

Neither needs an API token: whoever holds a job's token may report on that job, and an event proves itself by its
signature. What becomes of them is `receiving`'s matter; here they get addresses and a place in the schema.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import APIRouter, Path, Request, Response
from pydantic import Field

from fencepost.console.api_answers import Shown
from fencepost.console.api_forms import NAME_CHARACTERS_MAX
from fencepost.console.problems import documented
from fencepost.core.errors import NotThere
from fencepost.core.states import SignalState
from fencepost.receiving import CallbackEndpoint, WebhookEndpoint
from fencepost.receiving.asgi import request_of
from fencepost.receiving.endpoint import Endpoint

if TYPE_CHECKING:
    from collections.abc import Mapping

router = APIRouter(tags=["from outside"])

Kind = Annotated[
    Literal["done", "failed", "heartbeat"],
    Path(description="`done` with the result, `failed` with `why`, `heartbeat` with the progress, if any."),
]
JobToken = Annotated[str, Path(description="The job's token, as it was handed out.", max_length=NAME_CHARACTERS_MAX)]
Source = Annotated[
    str, Path(description="Whose events these are.", examples=["payments"], max_length=NAME_CHARACTERS_MAX)
]

_JSON = {"application/json": {"schema": {}, "examples": {"done": {"value": {"pages": 3}}}}}
BODY: dict[str, Any] = {"requestBody": {"content": _JSON}}


class Reported(Shown):
    """What became of a report: the state of its signal; of a heartbeat, whether anything waits for it just now."""

    state: SignalState | Literal["refused"] | None = Field(default=None)
    reason: str | None = Field(default=None, description="Of an event: why no run took it, however often it comes.")
    waiting: bool | None = Field(default=None)


TAKEN: dict[int | str, dict[str, Any]] = {202: {"model": Reported, "description": "It is kept, or was before."}}
REPORTS = TAKEN | documented(404, 409, 410)
EVENTS = TAKEN | {204: {"description": "It is of no interest here."}} | documented(401, 404)


@router.post("/jobs/{kind}", response_model=Reported, responses=REPORTS, openapi_extra=BODY)
async def report(request: Request, kind: Kind) -> Response:
    """Report on a job, with its token as `Authorization: Bearer TOKEN`. The same report again is taken again."""
    del kind  # it is the path's last part
    return await _answered(CallbackEndpoint(request.app.state.fencepost), request)


@router.post("/jobs/{token}/{kind}", response_model=Reported, responses=REPORTS, openapi_extra=BODY)
async def report_by_address(request: Request, token: JobToken, kind: Kind) -> Response:
    """Report on a job at an address that holds its token, for systems that can only be given an address."""
    del token, kind
    return await _answered(CallbackEndpoint(request.app.state.fencepost), request)


@router.post("/webhooks/{source}", response_model=Reported, responses=EVENTS, openapi_extra=BODY, status_code=202)
async def take_event(request: Request, source: Source) -> Response:
    """Take a provider's event, signed as Standard Webhooks has it. One that comes again counts once."""
    found: Mapping[str, WebhookEndpoint] = request.app.state.webhooks
    if source not in found:
        raise NotThere(f"no events of {source!r} are taken here", ids={"webhook": source})
    return await _answered(found[source], request)


async def _answered(endpoint: Endpoint, request: Request) -> Response:
    answer = await endpoint.answered(request_of(request.scope, await request.body()))
    return Response(answer.body, answer.status, headers=dict(answer.headers))
