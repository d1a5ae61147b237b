"""The address at which outside systems report on their jobs, for whatever web framework an app already has.

    POST .../done        the body is the result, as JSON            202
    POST .../failed      {"why": "..."}                             202
    POST .../heartbeat   the progress, as JSON, or nothing          200, {"waiting": true or false}

The token comes as `Authorization: Bearer TOKEN`, or as the last part of the path but one (`/jobs/TOKEN/done`), which
servers write to their logs. A token that nobody gave out is answered 404, whatever is wrong with it; one that has
brought another answer 409; one whose run has ended 410; a value that the run does not take 422. The same report again
is 202 again. What becomes of a report is the runtime's matter.
"""

from __future__ import annotations

import json
from typing import Any

from fencepost.core.errors import CallbackRefused, FencepostError, ValueRefused
from fencepost.receiving import answer as answers
from fencepost.receiving.answer import Answer
from fencepost.receiving.endpoint import Deed, Endpoint
from fencepost.receiving.request import Request

_BEARER = "bearer "
_STATUSES = {"unknown": 404, "used": 409, "over": 410, "misfit": 422}
_TITLES = {
    "unknown": "No such token",
    "used": "This token has brought another answer",
    "over": "The job is not waited for any more",
    "misfit": "Not what is waited for",
}


class CallbackEndpoint(Endpoint):
    """The address for reports on jobs: mount `CallbackEndpoint(app).asgi` or `.wsgi`.

    Args:
        app: whose jobs they are.
        body_max: bytes of a result; more is refused with 413.
    """

    def begin(self, request: Request) -> Deed | Answer:
        """What is reported."""
        *before, kind = request.path.rstrip("/").split("/")
        token = _token_in(request, before)
        if kind not in _READ or not token:
            return answers.problem(
                404, _TITLES["unknown"], "POST to .../done, .../failed or .../heartbeat with a token"
            )
        try:
            value = json.loads(request.body, parse_constant=_no_constant) if request.body.strip() else None
            return _READ[kind](token, value)
        except ValueError as error:
            return answers.problem(400, "Not the JSON that is asked for", str(error))

    def refusal(self, error: FencepostError) -> Answer | None:
        """What is answered to a report that was not taken; a stranger learns nothing more."""
        if isinstance(error, CallbackRefused):
            detail = error.message if error.refusal != "unknown" else "nothing was taken in"
            return answers.problem(_STATUSES[error.refusal], _TITLES[error.refusal], detail)
        if isinstance(error, ValueRefused):
            return answers.problem(422, _TITLES["misfit"], error.message)
        return None


def _token_in(request: Request, path: list[str]) -> str:
    given = request.headers.get("authorization", "")
    if given[: len(_BEARER)].lower() == _BEARER:
        return given[len(_BEARER) :].strip()
    return path[-1] if path else ""


def _done(token: str, value: Any) -> Deed:
    return Deed("callback", (token, value), {}, _kept)


def _failed(token: str, value: Any) -> Deed:
    why = value.get("why") if isinstance(value, dict) else value
    if not isinstance(why, str):
        raise ValueError('say why: {"why": "..."}')  # noqa: TRY004 - it is what was sent that is wrong, not our call
    return Deed("callback", (token,), {"failed": why}, _kept)


def _heartbeat(token: str, value: Any) -> Deed:
    return Deed("heartbeat", (token,), {"progress": value}, _beaten)


_READ = {"done": _done, "failed": _failed, "heartbeat": _heartbeat}


def _kept(signal: Any) -> Answer:
    return Answer.json(202, {"state": signal.state.value})


def _beaten(waiting: Any) -> Answer:
    return Answer.json(200, {"waiting": bool(waiting)})


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
