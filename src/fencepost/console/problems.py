"""Turns an error into what is answered: a problem document (RFC 9457) with the hint and the ids, and its status.

The one table of errors and statuses is here; from it comes what the schema says that each address can answer. How the
command line ends for the same errors is `cli.exits`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError, ResponseValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException
from starlette.routing import Match

from fencepost.console.callers import Unnamed
from fencepost.console.versions import VersionNeeded
from fencepost.core.errors import (
    Ambiguous,
    CallbackRefused,
    ChangedSince,
    FencepostError,
    ForeignDatabase,
    Misuse,
    NotOwner,
    NotPermitted,
    NotThere,
    RunInputMismatch,
    SecondPersonNeeded,
    StoreUnavailable,
    VerbRefused,
)

LOG = logging.getLogger("fencepost.console")

MEDIA_TYPE = "application/problem+json"

RETRY_AFTER = 5
"""Seconds after which to come back, where the ledger cannot be used."""

STATUSES: tuple[tuple[type[FencepostError], int], ...] = (
    (Unnamed, 401),
    (NotPermitted, 403),
    (NotThere, 404),
    (ChangedSince, 412),
    (VersionNeeded, 428),
    (SecondPersonNeeded, 409),
    (VerbRefused, 409),
    (RunInputMismatch, 409),
    (CallbackRefused, 409),
    (ForeignDatabase, 503),
    (StoreUnavailable, 503),
    (Ambiguous, 409),
    (NotOwner, 409),
    (Misuse, 422),
)
"""The status of each error: the first line that it is one of."""

MEANINGS: Mapping[int, str] = {
    400: "The request cannot be read: its body is no JSON.",
    401: "No token, or one that is not taken: unknown, expired, revoked, or of another namespace.",
    403: "The caller lacks the role, by the namespace's permissions or by the token's scopes.",
    404: "Nothing here has this id, name or number.",
    405: "This address takes other methods.",
    410: "Nobody waits for it any more: its run has ended.",
    409: "Refused as things are; the hint says what to do. `ids` has a `proposal` where a second person is needed.",
    412: "It has changed since the caller saw it: If-Match names another version. Look again, then decide.",
    413: "The body is larger than is taken.",
    415: "The body is not JSON by its Content-Type.",
    422: "Something in the request is not of its form; `errors` says what and where.",
    428: "If-Match is needed: the ETag of what the caller saw, or * for whatever is there now.",
    503: "The ledger cannot be read or written now; nothing was done.",
}
"""What each status means here, for the schema."""

EVERYWHERE = (400, 405, 413, 422, 503)
"""What any address can answer."""


class Flaw(BaseModel):
    """What is wrong at one place of a request."""

    at: str = Field(description="Where: `body.reason`, `query.limit`.", examples=["body.reason"])
    what: str = Field(examples=["Field required"])


class Problem(BaseModel):
    """What is wrong, about what, and what to do next."""

    type: str = Field(
        default="about:blank", description="Stable: the error's name.", examples=["urn:fencepost:verb-refused"]
    )
    title: str = Field(examples=["Conflict"])
    status: int = Field(examples=[409])
    detail: str = Field(examples=["the run is succeeded: cancel does not apply"])
    hint: str = Field(default="", description="What to do next.", examples=["`fencepost show` lists the verbs"])
    ids: dict[str, str] = Field(
        default={}, description="Which run, step, key or proposal it is about.", examples=[{"run": "invoice:42"}]
    )
    errors: list[Flaw] = Field(default=[], description="Of a request that is not of its form: each place.")


Documented = dict[int | str, dict[str, Any]]

ETAG: Documented = {
    200: {"headers": {"ETag": {"description": "The version, for If-Match.", "schema": {"type": "string"}}}}
}
"""What is said of an answer that has a version."""


def documented(*statuses: int) -> Documented:
    """What an address can answer beside its own: these statuses, and what any can."""
    return {
        status: {"model": Problem, "description": MEANINGS[status], "content": {MEDIA_TYPE: {}}}
        for status in sorted({*statuses, *EVERYWHERE})
    }


def is_problem(status: int) -> bool:
    """Whether what is answered with this status is a problem document."""
    return status in MEANINGS


def example(status: int) -> dict[str, Any]:
    """A problem document as it is answered with this status."""
    kind = next((kind for kind, known in STATUSES if known == status), None)
    name = HTTPStatus(status).phrase.lower().replace(" ", "-") if kind is None else _name_of(kind)
    return _told(status, name, MEANINGS[status]).model_dump()


def status_of(error: FencepostError) -> int:
    """The status that an error is answered with."""
    return next((status for kind, status in STATUSES if isinstance(error, kind)), 500)


def answer(
    status: int, name: str, detail: str, *, hint: str = "", ids: Mapping[str, str] | None = None,
    errors: Iterable[Flaw] = (), headers: Mapping[str, str] | None = None,
) -> JSONResponse:  # fmt: skip
    """A problem document as a response."""
    told = _told(status, name, detail, hint=hint, ids=dict(ids or {}), errors=list(errors))
    return JSONResponse(told.model_dump(), status, headers=dict(headers or {}), media_type=MEDIA_TYPE)


def _told(status: int, name: str, detail: str, **more: Any) -> Problem:
    title = HTTPStatus(status).phrase
    return Problem(type=f"urn:fencepost:{name}", title=title, status=status, detail=detail, **more)


def of_error(error: FencepostError) -> JSONResponse:
    """What is answered where Fencepost has refused."""
    status = status_of(error)
    if status == HTTPStatus.INTERNAL_SERVER_ERROR:
        return _unexpected(error)
    headers = {}
    if status == HTTPStatus.UNAUTHORIZED:
        headers["WWW-Authenticate"] = "Bearer"
    if status == HTTPStatus.SERVICE_UNAVAILABLE:
        headers["Retry-After"] = str(RETRY_AFTER)
    return answer(status, _name_of(type(error)), error.message, hint=error.hint, ids=error.ids, headers=headers)


def install(server: FastAPI) -> None:
    """Have every error of a server answered with a problem document."""

    @server.exception_handler(FencepostError)
    async def refused(_: Request, error: FencepostError) -> JSONResponse:
        return of_error(error)

    @server.exception_handler(RequestValidationError)
    async def misfits(_: Request, error: RequestValidationError) -> JSONResponse:
        flaws = [_flaw(one) for one in error.errors()]
        if any(one["type"] == "json_invalid" for one in error.errors()):
            return answer(400, "not-json", "the body is no JSON", errors=flaws)
        return answer(422, "not-of-its-form", "the request is not of its form", errors=flaws)

    @server.exception_handler(HTTPException)
    async def unroutable(request: Request, error: HTTPException) -> JSONResponse:
        name = HTTPStatus(error.status_code).phrase.lower().replace(" ", "-")
        headers = dict(error.headers or {})
        if error.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
            headers["Allow"] = ", ".join(_methods_at(request))
        return answer(error.status_code, name, str(error.detail), headers=headers)

    @server.exception_handler(ResponseValidationError)
    async def unfit(_: Request, error: ResponseValidationError) -> JSONResponse:
        # The error's own text holds what did not fit, which may be anybody's.
        places = {".".join(map(str, one["loc"])) for one in error.errors()}
        LOG.error("an answer is not of its form at %s", ", ".join(sorted(places)))
        return _not_expected()

    @server.exception_handler(RecursionError)
    async def too_deep(_: Request, __: RecursionError) -> JSONResponse:
        return answer(422, "not-of-its-form", "a value is nested too deeply")

    @server.exception_handler(Exception)
    async def unexpected(_: Request, error: Exception) -> JSONResponse:
        return _unexpected(error)


def _methods_at(request: Request) -> list[str]:
    """What may be done at an address, by all routes that have it; a framework's own answer names those of one."""
    routes = [one for one in request.app.routes if one.matches(request.scope)[0] is not Match.NONE]
    return sorted({method for one in routes for method in getattr(one, "methods", None) or ()})


def _unexpected(error: Exception) -> JSONResponse:
    LOG.error("a request was not answered", exc_info=error)
    return _not_expected()


def _not_expected() -> JSONResponse:
    return answer(500, "unexpected", "an error that Fencepost did not expect", hint="the server's log has it")


def _flaw(one: Mapping[str, Any]) -> Flaw:
    return Flaw(at=".".join(map(str, one["loc"])), what=str(one["msg"]))


def _name_of(kind: type[FencepostError]) -> str:
    """The class's name in words: `VerbRefused` is `verb-refused`."""
    name = kind.__name__
    return "".join(f"-{letter.lower()}" if letter.isupper() else letter for letter in name).removeprefix("-")
