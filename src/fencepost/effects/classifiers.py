"""What an exception of a common client library proves about the one send that raised it.

The first question is always: did a byte leave? Known are the errors of sockets, ssl, http.client and smtplib, which are
read here, of HTTP clients (`http_errors`) and of provider libraries (`sdk_errors`). A class is recognised by its name
and the module that defines it, so that no library is imported to read an error; somebody else's subclass, or an error
raised *from* a client's error, is not recognised.

A client may have sent something before the request that failed: a redirect, a retry, an authentication round. Such an
error says nothing about what went before, so "nothing left" is concluded only where the traceback shows the client's
own record of earlier requests, and shows it clean. A stripped traceback proves nothing, nor does one that passed a
library which repeats calls.

Only that one send is judged. Whether the attempt sent anything else is known to `call`; what an unrecognised error
means is decided in `core.classify`.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

from fencepost.core.classify import Reading
from fencepost.core.contract import Contract
from fencepost.effects.http_errors import (
    is_certificate_refusal,
    read_aiohttp,
    read_httpx,
    read_requests,
    read_urllib3,
)
from fencepost.effects.judge import NOT_ALLOWED_TO_LEAVE, NOTHING_LEFT, UNRESOLVED, Judge, frames, in_doubt
from fencepost.effects.sdk_errors import (
    read_botocore,
    read_grpc,
    read_openai,
    read_psycopg,
    read_psycopg_pool,
    read_stripe,
)

_NETWORK_ERRNOS = frozenset({errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN, errno.ENETRESET})

_REPEATERS = frozenset({"backoff", "retrying", "stamina", "tenacity"})
"""Libraries that call a function again; an error that passed one of them may not be the first."""


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
        found = reader(error, type(error).__name__, Judge(contract, now))
    except Exception:  # noqa: BLE001 - an error built by hand may lack whatever its library always gives it
        return UNRESOLVED
    if found is not None and any(where.partition(".")[0] in _REPEATERS for where, _ in frames(error)):
        return in_doubt(found)
    return found


# -- sockets ------------------------------------------------------------------------------------------------------


def _builtin(error: Any, name: str, _judge: Judge) -> Reading | None:
    if name == "ConnectionRefusedError":
        return NOTHING_LEFT
    if isinstance(error, ConnectionError | TimeoutError) or (name == "OSError" and error.errno in _NETWORK_ERRNOS):
        # A time-out may be the connect's or the reply's, an unreachable network may show up after the last byte.
        return UNRESOLVED
    return None


def _socket(_error: Any, name: str, _judge: Judge) -> Reading | None:
    return NOTHING_LEFT if name == "gaierror" else None


def _ssl(error: Any, _name: str, _judge: Judge) -> Reading | None:
    if not isinstance(error, OSError):
        return None
    return NOTHING_LEFT if is_certificate_refusal(error) else UNRESOLVED


def _http_client(_error: Any, _name: str, _judge: Judge) -> Reading | None:
    return UNRESOLVED


# -- smtplib ------------------------------------------------------------------------------------------------------

_SMTP_BEFORE_THE_MAIL = frozenset({"SMTPConnectError", "SMTPHeloError", "SMTPAuthenticationError", "SMTPSenderRefused"})
_SMTP_TRANSIENT = range(400, 500)
_SMTP_REFUSALS = range(400, 600)


def _smtplib(error: Any, name: str, _judge: Judge) -> Reading | None:
    if name in _SMTP_BEFORE_THE_MAIL:
        return _smtp_refusal([error.smtp_code])
    if name == "SMTPRecipientsRefused":  # every one of them; smtplib returns those of a partial refusal
        return _smtp_refusal([code for code, _ in error.recipients.values()])
    if name == "SMTPNotSupportedError":
        return NOT_ALLOWED_TO_LEAVE
    if name == "SMTPDataError" and error.smtp_code in _SMTP_REFUSALS:
        # The server has read the mail and says no: it has not taken it over (RFC 5321, 4.2.5 and 6.1).
        return _smtp_refusal([error.smtp_code])
    # Also the bare SMTPResponseException, which smtplib raises for a QUIT that fails after the mail was accepted.
    return UNRESOLVED


def _smtp_refusal(codes: list[int]) -> Reading:
    again = any(code in _SMTP_TRANSIENT or code not in _SMTP_REFUSALS for code in codes)
    return NOTHING_LEFT if again else NOT_ALLOWED_TO_LEAVE


# -- by module ----------------------------------------------------------------------------------------------------

_READERS: dict[str, Callable[[Any, str, Judge], Reading | None]] = {
    "aiohttp": read_aiohttp,
    "anthropic": read_openai,
    "botocore": read_botocore,
    "builtins": _builtin,
    "grpc": read_grpc,
    "http": _http_client,
    "httpx": read_httpx,
    "httpx2": read_httpx,
    "openai": read_openai,
    "psycopg": read_psycopg,
    "psycopg_pool": read_psycopg_pool,
    "requests": read_requests,
    "smtplib": _smtplib,
    "socket": _socket,
    "ssl": _ssl,
    "stripe": read_stripe,
    "urllib3": read_urllib3,
}
