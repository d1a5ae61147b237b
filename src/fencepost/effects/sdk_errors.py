"""What the errors of provider libraries prove about a send: openai, anthropic, stripe, botocore, grpc and psycopg.

Each of them may send a request several times before it raises. A refusal or a failed connect counts as proof only where
the library itself shows that it came with the first send: in its own variables, which the traceback keeps, or in what
it says of retries. gRPC shows neither; it repeats only where a service config or an interceptor tells it to. Switching
those retries off is named by `layers`; HTTP libraries are in `http_errors`.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from fencepost.core.classify import Reading, read_status
from fencepost.core.duration import MILLISECOND
from fencepost.effects.http_errors import (
    is_certificate_refusal,
    is_connect_failure,
    judge_httpx_reply,
    read_httpx,
    read_requests,
)
from fencepost.effects.judge import NOT_ALLOWED_TO_LEAVE, NOTHING_LEFT, UNRESOLVED, Judge, frames, in_doubt, passed

# -- openai and anthropic -----------------------------------------------------------------------------------------

_NO_CONNECTION = frozenset({"APIConnectionError", "APITimeoutError"})


def read_openai(error: Any, name: str, judge: Judge) -> Reading | None:
    """What an error of openai or anthropic proves; None for one that is not about a request."""
    package = type(error).__module__.partition(".")[0]
    alone = _sent_once(error, f"{package}._base_client.")
    if name in _NO_CONNECTION:
        return _read_cause(error, judge) if alone else UNRESOLVED
    if not hasattr(error, "response"):
        return None
    return judge_httpx_reply(error.response, judge, alone=alone)


def _sent_once(error: Any, client: str) -> bool:
    """Whether the client's own count of retries is there, and zero, and no middleware may have sent more."""
    seen = [frame.f_locals for where, frame in frames(error) if where.startswith(client)]
    counts = [one["retries_taken"] for one in seen if "retries_taken" in one]
    return bool(counts) and not any(counts) and all(one.get("chain") is None for one in seen)


def _read_cause(error: Any, judge: Judge) -> Reading:
    """What the HTTP library's error behind a provider library's proves."""
    cause = error.__cause__
    reader = {"httpx": read_httpx, "httpx2": read_httpx, "requests": read_requests}.get(
        type(cause).__module__.partition(".")[0]
    )
    return (reader and reader(cause, type(cause).__name__, judge)) or UNRESOLVED


# -- stripe -------------------------------------------------------------------------------------------------------

_STRIPE_REQUESTS = ("stripe._api_requestor.request", "stripe._api_requestor.request_async")
_STRIPE_RETRIES = (
    "stripe._http_client._request_with_retries_internal",
    "stripe._http_client._request_with_retries_internal_async",
)


def read_stripe(error: Any, name: str, judge: Judge) -> Reading | None:
    """What an error of stripe proves."""
    if name == "APIConnectionError":
        frame = next((frame for where in _STRIPE_RETRIES if (frame := passed(error, where))), None)
        first = frame is not None and frame.f_locals.get("num_retries") == 0
        return _read_cause(error, judge) if first else UNRESOLVED
    if error.http_status is None:
        return UNRESOLVED
    body = (error.http_body or "").encode()
    return judge.reply(error.http_status, error.headers, body, alone=not _stripe_repeats(error))


def _stripe_repeats(error: Any) -> bool:
    """Whether stripe was allowed to repeat this request: by the time it raises, it has forgotten if it did."""
    frame = next((frame for where in _STRIPE_REQUESTS if (frame := passed(error, where))), None)
    if frame is None:
        return True
    given = (frame.f_locals.get("options") or {}).get("max_network_retries")
    options = frame.f_locals["requestor"]._options  # noqa: SLF001 - it says so nowhere else
    return bool(options.max_network_retries if given is None else given)


# -- botocore -----------------------------------------------------------------------------------------------------

_AWS_UNSENT = {
    "ParamValidationError": NOT_ALLOWED_TO_LEAVE,
    "NoRegionError": NOT_ALLOWED_TO_LEAVE,
    "NoCredentialsError": NOTHING_LEFT,
    "PartialCredentialsError": NOTHING_LEFT,
    "CredentialRetrievalError": NOTHING_LEFT,
    "EndpointConnectionError": NOTHING_LEFT,
    "ConnectTimeoutError": NOTHING_LEFT,
}
_AWS_PROVES_NOTHING = frozenset(
    {"InternalError", "PriorRequestNotComplete", "RequestTimeout", "RequestTimeoutException"}
)
"""Codes that AWS sends with status 400 and that still may have been preceded by the effect."""
_AWS_SLOW_DOWN = ("Throttl", "SlowDown", "TooManyRequests", "RequestLimitExceeded", "ThroughputExceeded")


def read_botocore(error: Any, name: str, judge: Judge) -> Reading | None:
    """What an error of boto3's clients proves."""
    if hasattr(error, "response") and hasattr(error, "operation_name"):
        return _aws_reply(error.response, judge)
    sender = passed(error, "botocore.endpoint._send_request")
    if sender is not None and sender.f_locals["attempts"] != 1:
        return UNRESOLVED
    if sender is None and passed(error, "botocore.client._make_api_call") is None:
        return UNRESOLVED
    if name == "SSLError":
        return NOTHING_LEFT if is_certificate_refusal((error.kwargs["error"].args or (None,))[0]) else UNRESOLVED
    if name == "ProxyConnectionError":
        return NOTHING_LEFT if is_connect_failure(error.kwargs["error"]) else UNRESOLVED
    return _AWS_UNSENT.get(name, UNRESOLVED)


def _aws_reply(response: dict[str, Any], judge: Judge) -> Reading:
    facts, code = response["ResponseMetadata"], str(response.get("Error", {}).get("Code", ""))
    found = judge.reply(facts["HTTPStatusCode"], facts["HTTPHeaders"], alone=facts["RetryAttempts"] == 0)
    if code in _AWS_PROVES_NOTHING:
        return in_doubt(found)
    if any(word in code for word in _AWS_SLOW_DOWN):  # some services say so with 400
        return replace(found, retryable=True)
    return found


# -- grpc ---------------------------------------------------------------------------------------------------------

_GRPC_AS_HTTP = {
    "INVALID_ARGUMENT": 400,
    "FAILED_PRECONDITION": 400,
    "OUT_OF_RANGE": 400,
    "UNAUTHENTICATED": 401,
    "PERMISSION_DENIED": 403,
    "NOT_FOUND": 404,
    "ABORTED": 409,
    "ALREADY_EXISTS": 409,
    "RESOURCE_EXHAUSTED": 429,
    "UNAVAILABLE": 503,
}
"""The HTTP status that Google's mapping gives a code (google/rpc/code.proto); all others prove nothing."""
_PUSHBACK = re.compile(r"\d{1,12}", re.ASCII)
_GRPC_UNARY = {"_InactiveRpcError": "grpc._channel.__call__", "AioRpcError": "grpc.aio._call.__await__"}


def read_grpc(error: Any, name: str, judge: Judge) -> Reading | None:
    """What the error of a unary call proves; that a connection failed is told by no code."""
    places = {where for where, _ in frames(error)}
    is_unary = _GRPC_UNARY.get(name) in places
    is_intercepted = any(where.startswith(("grpc._interceptor.", "grpc.aio._interceptor.")) for where in places)
    status = _GRPC_AS_HTTP.get(error.code().name)
    if status is None or "message larger than max" in (error.details() or ""):
        return UNRESOLVED  # the answer to an effect that happened can be too large, too
    pushback = dict(error.trailing_metadata() or ()).get("grpc-retry-pushback-ms", "")
    wait = int(pushback) * MILLISECOND if _PUSHBACK.fullmatch(pushback) else None
    found = read_status(judge.contract, status, retry_after=wait)
    return found if is_unary and not is_intercepted else in_doubt(found)


# -- psycopg ------------------------------------------------------------------------------------------------------

_CONNECTS = ("psycopg.connection.connect", "psycopg.connection_async.connect")
_MANY = ("psycopg.cursor.executemany", "psycopg.cursor_async.executemany")
_SQL_REFUSED_FOR_GOOD = ("0A", "21", "22", "23", "25", "28", "2B", "2F", "3D", "3F", "42", "44", "54")
_SQL_REFUSED_FOR_NOW = ("40001", "40P01", "53", "55P03", "57014")
"""SQLSTATE classes and states with which the server gave the statement, and the transaction around it, up."""


def read_psycopg(error: Any, _name: str, _judge: Judge) -> Reading | None:
    """What an error of psycopg proves of the one statement, or the one transaction, that raised it."""
    if any(passed(error, where) for where in _CONNECTS):
        return NOTHING_LEFT
    state = error.sqlstate or ""
    if any(passed(error, where) for where in _MANY):  # outside of a transaction the rows before it stand
        return UNRESOLVED
    if state.startswith(_SQL_REFUSED_FOR_NOW):
        return NOTHING_LEFT
    return NOT_ALLOWED_TO_LEAVE if state.startswith(_SQL_REFUSED_FOR_GOOD) else UNRESOLVED


def read_psycopg_pool(_error: Any, name: str, _judge: Judge) -> Reading | None:
    """What an error of psycopg's pool proves: it had no connection to give."""
    return NOTHING_LEFT if name in ("PoolTimeout", "TooManyRequests") else UNRESOLVED
