"""What the errors of HTTP client libraries prove about a send: requests, urllib3, httpx, httpx2 and aiohttp.

"Nothing left" is concluded only where the traceback shows the client's own record of earlier requests, and shows it
clean: a redirect, a retry or an authentication round may have sent something before. A middleware of aiohttp keeps no
record; a refusal that is raised outside of the client does not show it. What the reply itself proves is in `judge`;
libraries for one provider are in `sdk_errors`.
"""

from __future__ import annotations

from typing import Any

from fencepost.core.classify import Reading
from fencepost.effects.judge import NOT_ALLOWED_TO_LEAVE, NOTHING_LEFT, UNRESOLVED, Judge, frames, passed

# -- requests and urllib3 -----------------------------------------------------------------------------------------

_REQUESTS_UNSENDABLE = frozenset({"MissingSchema", "InvalidSchema", "InvalidURL", "InvalidHeader", "InvalidProxyURL"})
_REQUESTS_FOLLOW_UPS = frozenset({"requests.sessions.resolve_redirects", "requests.hooks.dispatch_hook"})
_URLLIB3_CONNECT = frozenset({"NewConnectionError", "NameResolutionError", "ConnectTimeoutError"})


def read_requests(error: Any, name: str, judge: Judge) -> Reading | None:
    """What an error of requests proves."""
    if name == "HTTPError":
        reply = error.response
        if reply is None:
            return UNRESOLVED
        body = reply.content if reply._content_consumed else b""  # noqa: SLF001 - what is not read yet would block
        return judge.reply(reply.status_code, reply.headers, body, alone=not reply.history and _went_once(reply.raw))
    places = {where for where, _ in frames(error)}
    if not any(where.startswith("requests.") for where in places) or places & _REQUESTS_FOLLOW_UPS:
        return UNRESOLVED
    if name in _REQUESTS_UNSENDABLE:
        return NOT_ALLOWED_TO_LEAVE
    inner = error.args[0] if error.args else None
    return NOTHING_LEFT if isinstance(inner, Exception) and never_connected(inner) else UNRESOLVED


def read_urllib3(error: Any, _name: str, _judge: Judge) -> Reading | None:
    """What an error of urllib3 proves; it raises none for a status."""
    return NOTHING_LEFT if never_connected(error) else UNRESOLVED


def _went_once(raw: Any) -> bool:
    """Whether urllib3 sent the request once on the way to this reply; connects that failed are no sends."""
    history = getattr(getattr(raw, "retries", None), "history", ())
    return all(is_connect_failure(entry.error) for entry in history)


def never_connected(error: Exception) -> bool:
    """Whether urllib3 gave up before it had a connection, this time and each time that it tried before."""
    last = getattr(error, "reason", error)  # of a MaxRetryError
    retries = [frame for where, frame in frames(error) if where == "urllib3.util.retry.increment"]
    if not retries or not is_connect_failure(last):
        return False
    earlier = [entry for frame in retries for entry in frame.f_locals["self"].history]
    return all(is_connect_failure(entry.error) for entry in earlier)  # a redirect has no error


def is_connect_failure(error: Any) -> bool:
    """Whether urllib3's error says that there was no connection, or none to trust."""
    name = type(error).__name__
    if not type(error).__module__.startswith("urllib3."):
        return False
    if name == "ProxyError":
        return is_connect_failure(error.original_error)
    if name == "SSLError":
        return bool(error.args) and is_certificate_refusal(error.args[0])
    return name in _URLLIB3_CONNECT


def is_certificate_refusal(error: Any) -> bool:
    """Whether we refused the server's certificate: in the handshake, before anything is sent inside."""
    return type(error).__module__ == "ssl" and type(error).__name__ == "SSLCertVerificationError"


# -- httpx and httpx2 ---------------------------------------------------------------------------------------------

_HTTPX_UNSENT = {
    "ConnectError": NOTHING_LEFT,
    "ConnectTimeout": NOTHING_LEFT,
    "PoolTimeout": NOTHING_LEFT,
    "UnsupportedProtocol": NOT_ALLOWED_TO_LEAVE,
    "InvalidURL": NOT_ALLOWED_TO_LEAVE,
}
_HTTPX_FOLLOWS = ("._client._send_handling_auth", "._client._send_handling_redirects")


def read_httpx(error: Any, name: str, judge: Judge) -> Reading | None:
    """What an error of httpx or httpx2 proves."""
    if name == "HTTPStatusError":
        return judge_httpx_reply(error.response, judge)
    package = type(error).__module__.partition(".")[0]
    own = [(where, frame) for where, frame in frames(error) if where.startswith(f"{package}.")]
    earlier = any(where.endswith(_HTTPX_FOLLOWS) and frame.f_locals.get("history") for where, frame in own)
    return UNRESOLVED if earlier or not own else _HTTPX_UNSENT.get(name, UNRESOLVED)


def judge_httpx_reply(reply: Any, judge: Judge, *, alone: bool = True) -> Reading:
    """What a reply proves that is one of httpx or httpx2, whoever raised for it."""
    if reply is None:
        return UNRESOLVED
    body = reply.content if hasattr(reply, "_content") else b""  # one that is streamed was not read
    return judge.reply(reply.status_code, reply.headers, body, alone=alone and not reply.history)


# -- aiohttp ------------------------------------------------------------------------------------------------------

_AIOHTTP_REPLIES = frozenset({"ClientResponseError", "ContentTypeError"})
_AIOHTTP_UNSENT = {
    "ClientConnectorError": NOTHING_LEFT,
    "ClientConnectorDNSError": NOTHING_LEFT,
    "ClientConnectorSSLError": NOTHING_LEFT,
    "ClientConnectorCertificateError": NOTHING_LEFT,
    "ClientProxyConnectionError": NOTHING_LEFT,
    "ClientHttpProxyError": NOTHING_LEFT,
    "ConnectionTimeoutError": NOTHING_LEFT,
    "ServerFingerprintMismatch": NOTHING_LEFT,
    "UnixClientConnectorError": NOTHING_LEFT,
    "InvalidURL": NOT_ALLOWED_TO_LEAVE,
    "InvalidUrlClientError": NOT_ALLOWED_TO_LEAVE,
    "NonHttpUrlClientError": NOT_ALLOWED_TO_LEAVE,
}
_AIOHTTP_SENT_AGAIN = frozenset({"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"})
"""Methods that aiohttp sends a second time, unasked, where a connection that it had kept turns out to be dead."""


def read_aiohttp(error: Any, name: str, judge: Judge) -> Reading | None:
    """What an error of aiohttp proves."""
    if name in _AIOHTTP_REPLIES:
        # After a DELETE that was repeated, 404 would be its own doing.
        once = error.request_info.method not in _AIOHTTP_SENT_AGAIN
        return judge.reply(error.status, error.headers or {}, alone=once and not error.history)
    proof = _AIOHTTP_UNSENT.get(name, UNRESOLVED)
    if proof is UNRESOLVED:
        return UNRESOLVED
    frame = passed(error, "aiohttp.client._request")
    return proof if frame is not None and _first_of_aiohttp(frame.f_locals) else UNRESOLVED


def _first_of_aiohttp(seen: dict[str, Any]) -> bool:
    """Whether aiohttp's own variables say that it had sent nothing before."""
    sent_again = seen.get("method") in _AIOHTTP_SENT_AGAIN and seen.get("retry_persistent_connection") is False
    return not (seen.get("history") or seen.get("effective_middlewares") or sent_again)
