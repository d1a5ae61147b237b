"""What an exception of a common client library proves about the one send that raised it.

The first question is always: did a byte leave? Known are the errors of requests, urllib3, httpx and httpx2, smtplib,
http.client, ssl and sockets. A class is recognised by its name and the module that defines it, so that no library is
imported to read an error; somebody else's subclass, or an error raised *from* a client's error, is not recognised.

A client may have sent something before the request that failed: a redirect, a retry, an authentication round. Such an
error says nothing about what went before, so "nothing left" is concluded only where the traceback shows the client's
own record of earlier requests, and shows it clean. A stripped traceback proves nothing.

Only that one send is judged. Whether the attempt sent anything else is known to `call`; what an unrecognised error
means is decided in `core.classify`.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, NamedTuple

from fencepost.core.classify import Reading, read_status
from fencepost.core.contract import Contract
from fencepost.core.retry import retry_after
from fencepost.core.states import Outcome

_NOTHING_LEFT = Reading(Outcome.NOT_APPLIED, retryable=True)
_NOT_ALLOWED_TO_LEAVE = Reading(Outcome.NOT_APPLIED, retryable=False)
_UNRESOLVED = Reading(Outcome.UNRESOLVED, retryable=True)

_REFUSALS_FROM = 400
_NETWORK_ERRNOS = frozenset({errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN, errno.ENETRESET})


class _Judge(NamedTuple):
    """What reading a reply needs beside the reply."""

    contract: Contract
    now: int

    def reply(self, response: Any) -> Reading:
        """What the reply proves that the client turned into an error; one reached by way of another proves nothing."""
        if response is None or response.history or response.status_code < _REFUSALS_FROM:
            return _UNRESOLVED
        headers = response.headers
        wait = retry_after(headers.get("retry-after"), now=self.now, date=headers.get("date"))
        return read_status(self.contract, response.status_code, retry_after=wait)


def read_client_error(error: BaseException, contract: Contract, *, now: int) -> Reading | None:
    """What `error` proves about the one send that raised it; None for an error that is not known here.

    `contract` says which statuses are definite refusals. `now`, in microseconds since the epoch, is what a Retry-After
    date without the reply's own date is read against.
    """
    module = type(error).__module__
    reader = _READERS.get(module.partition(".")[0]) if isinstance(module, str) else None
    if reader is None:
        return None
    try:
        return reader(error, type(error).__name__, _Judge(contract, now))
    except Exception:  # noqa: BLE001 - an error built by hand may lack whatever its library always gives it
        return _UNRESOLVED


# -- sockets ------------------------------------------------------------------------------------------------------


def _builtin(error: Any, name: str, _judge: _Judge) -> Reading | None:
    if name == "ConnectionRefusedError":
        return _NOTHING_LEFT
    if isinstance(error, ConnectionError | TimeoutError) or (name == "OSError" and error.errno in _NETWORK_ERRNOS):
        # A time-out may be the connect's or the reply's, an unreachable network may show up after the last byte.
        return _UNRESOLVED
    return None


def _socket(_error: Any, name: str, _judge: _Judge) -> Reading | None:
    return _NOTHING_LEFT if name == "gaierror" else None


def _ssl(error: Any, _name: str, _judge: _Judge) -> Reading | None:
    if not isinstance(error, OSError):
        return None
    return _NOTHING_LEFT if _is_certificate_refusal(error) else _UNRESOLVED


def _is_certificate_refusal(error: Any) -> bool:
    """We refused the server's certificate, which happens in the handshake, before anything is sent inside."""
    return type(error).__module__ == "ssl" and type(error).__name__ == "SSLCertVerificationError"


def _http_client(_error: Any, _name: str, _judge: _Judge) -> Reading | None:
    return _UNRESOLVED


# -- smtplib ------------------------------------------------------------------------------------------------------

_SMTP_BEFORE_THE_MAIL = frozenset({"SMTPConnectError", "SMTPHeloError", "SMTPAuthenticationError", "SMTPSenderRefused"})
_SMTP_TRANSIENT = range(400, 500)
_SMTP_REFUSALS = range(400, 600)


def _smtplib(error: Any, name: str, _judge: _Judge) -> Reading | None:
    if name in _SMTP_BEFORE_THE_MAIL:
        return _smtp_refusal([error.smtp_code])
    if name == "SMTPRecipientsRefused":  # every one of them; smtplib returns those of a partial refusal
        return _smtp_refusal([code for code, _ in error.recipients.values()])
    if name == "SMTPNotSupportedError":
        return _NOT_ALLOWED_TO_LEAVE
    if name == "SMTPDataError" and error.smtp_code in _SMTP_REFUSALS:
        # The server has read the mail and says no: it has not taken it over (RFC 5321, 4.2.5 and 6.1).
        return _smtp_refusal([error.smtp_code])
    # Also the bare SMTPResponseException, which smtplib raises for a QUIT that fails after the mail was accepted.
    return _UNRESOLVED


def _smtp_refusal(codes: list[int]) -> Reading:
    again = any(code in _SMTP_TRANSIENT or code not in _SMTP_REFUSALS for code in codes)
    return _NOTHING_LEFT if again else _NOT_ALLOWED_TO_LEAVE


# -- requests and urllib3 -----------------------------------------------------------------------------------------

_REQUESTS_UNSENDABLE = frozenset({"MissingSchema", "InvalidSchema", "InvalidURL", "InvalidHeader", "InvalidProxyURL"})
_REQUESTS_FOLLOW_UPS = frozenset({"requests.sessions.resolve_redirects", "requests.hooks.dispatch_hook"})
_URLLIB3_CONNECT = frozenset({"NewConnectionError", "NameResolutionError", "ConnectTimeoutError"})


def _requests(error: Any, name: str, judge: _Judge) -> Reading | None:
    if name == "HTTPError":
        return judge.reply(error.response)
    passed = {where for where, _ in _frames(error)}
    if not any(where.startswith("requests.") for where in passed) or passed & _REQUESTS_FOLLOW_UPS:
        return _UNRESOLVED
    if name in _REQUESTS_UNSENDABLE:
        return _NOT_ALLOWED_TO_LEAVE
    inner = error.args[0] if error.args else None
    return _NOTHING_LEFT if isinstance(inner, Exception) and _never_connected(inner) else _UNRESOLVED


def _urllib3(error: Any, _name: str, _judge: _Judge) -> Reading | None:
    return _NOTHING_LEFT if _never_connected(error) else _UNRESOLVED


def _never_connected(error: Exception) -> bool:
    """Whether urllib3 gave up before it had a connection, this time and each time that it tried before."""
    last = getattr(error, "reason", error)  # of a MaxRetryError
    retries = [frame for where, frame in _frames(error) if where == "urllib3.util.retry.increment"]
    if not retries or not _is_connect_failure(last):
        return False
    earlier = [entry for frame in retries for entry in frame.f_locals["self"].history]
    return all(_is_connect_failure(entry.error) for entry in earlier)  # a redirect has no error


def _is_connect_failure(error: Any) -> bool:
    name = type(error).__name__
    if not type(error).__module__.startswith("urllib3."):
        return False
    if name == "ProxyError":
        return _is_connect_failure(error.original_error)
    if name == "SSLError":
        return bool(error.args) and _is_certificate_refusal(error.args[0])
    return name in _URLLIB3_CONNECT


# -- httpx and httpx2 ---------------------------------------------------------------------------------------------

_HTTPX_UNSENT = {
    "ConnectError": _NOTHING_LEFT,
    "ConnectTimeout": _NOTHING_LEFT,
    "PoolTimeout": _NOTHING_LEFT,
    "UnsupportedProtocol": _NOT_ALLOWED_TO_LEAVE,
    "InvalidURL": _NOT_ALLOWED_TO_LEAVE,
}
_HTTPX_FOLLOWS = ("._client._send_handling_auth", "._client._send_handling_redirects")


def _httpx(error: Any, name: str, judge: _Judge) -> Reading | None:
    if name == "HTTPStatusError":
        return judge.reply(error.response)
    package = type(error).__module__.partition(".")[0]
    frames = [(where, frame) for where, frame in _frames(error) if where.startswith(f"{package}.")]
    earlier = any(where.endswith(_HTTPX_FOLLOWS) and frame.f_locals.get("history") for where, frame in frames)
    return _UNRESOLVED if earlier or not frames else _HTTPX_UNSENT.get(name, _UNRESOLVED)


def _frames(error: BaseException) -> Iterator[tuple[str, FrameType]]:
    """The functions that the error passed, outermost first, as "module.function" with their frames."""
    trace = error.__traceback__
    while trace is not None:
        frame = trace.tb_frame
        yield f"{frame.f_globals.get('__name__', '')}.{frame.f_code.co_name}", frame
        trace = trace.tb_next


_READERS: dict[str, Callable[[Any, str, _Judge], Reading | None]] = {
    "builtins": _builtin,
    "socket": _socket,
    "ssl": _ssl,
    "http": _http_client,
    "smtplib": _smtplib,
    "requests": _requests,
    "urllib3": _urllib3,
    "httpx": _httpx,
    "httpx2": _httpx,
}
