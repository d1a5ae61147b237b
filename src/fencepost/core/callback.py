"""The token with which an outside system reports on a job: how it is made, how it is recognised, and what it may say.

    token = HMAC-SHA256(secret, scheme, operation key, name)          stored of it: SHA-256(token)

So every attempt of an operation, in whichever life, hands out the same token: one key, one request. Whoever reads the
ledger cannot make one, since the secret is not in it. A report is what its holder says: the job is done, with a value,
or has failed. Handing tokens out is `effects.callbacks`, taking reports in is
`runtime.callbacks`.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, NamedTuple

from fencepost.core.errors import DeclarationError, ErrorRecord, JobFailed, ValueRefused
from fencepost.core.identity import canonical

if TYPE_CHECKING:
    from fencepost.core.records import Run

SCHEME = "fencepost callback 1"
"""How tokens are made; another computation gets another number."""

SECRET_BYTES_MIN = 32
WHY_CHARACTERS_MAX = 2_000

REPORT = "callback"
"""The sender of a report's signal, the verb of its audit row, and how its id begins."""

_DIGEST_CHARACTERS = 40
"""So much of a token's digest stands in the ids of its reports."""

_PREFIX = "fpc_"
_FORM = re.compile(rf"{_PREFIX}[A-Za-z0-9_-]{{43}}", re.ASCII)
_DONE, _FAILED = "done", "failed"


class HandedOut(NamedTuple):
    """A callback's token as the ledger knows it: for which job of which operation, in which turn, and its digest."""

    run: Run
    step: str
    item: str | None
    name: str
    digest: str


def checked_secrets(secrets: str | Iterable[str]) -> tuple[bytes, ...]:
    """One secret or several as bytes, the one for new tokens first.

    Raises:
        DeclarationError: one is shorter than 32 bytes.
    """
    found = tuple(secret.encode() for secret in ((secrets,) if isinstance(secrets, str) else secrets))
    if any(len(one) < SECRET_BYTES_MIN for one in found):
        raise DeclarationError(
            f"a callback secret has less than {SECRET_BYTES_MIN} bytes",
            hint="make one with `python -c 'import secrets; print(secrets.token_urlsafe(32))'`",
        )
    return found


def token_of(secret: bytes, key: str, name: str) -> str:
    """The token for reports on the job of that name, which the operation with this key has begun: 256 bits."""
    mac = hmac.new(secret, canonical([SCHEME, key, name]).encode(), hashlib.sha256).digest()
    return _PREFIX + base64.urlsafe_b64encode(mac).rstrip(b"=").decode()


def is_token(text: str) -> bool:
    """Whether the text has a token's form; whether there is such a token says only the ledger."""
    return _FORM.fullmatch(text) is not None


def token_digest(token: str) -> str:
    """What the ledger holds of a token: its SHA-256, in hexadecimal."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def is_same(one: str, other: str) -> bool:
    """Whether two digests are the same, in a time that does not tell where they differ."""
    return hmac.compare_digest(one.encode(), other.encode())


# -- reports ----------------------------------------------------------------------------------------------------------


def report_id(digest: str, number: int = 1) -> str:
    """The id of the signal that a report under the token with this digest becomes; its `number`-th, counted from 1."""
    first = f"{REPORT}:{digest[:_DIGEST_CHARACTERS]}"
    return first if number == 1 else f"{first}:{number}"


def is_under_another(signal_id: str, digests: Collection[str]) -> bool:
    """Whether this signal is a report under another token than those of `digests`; no report is, and with none, none.

    A turn of a run that has handed a job over waits for that one: what a job of an earlier turn brings comes too late.
    """
    sender, _, rest = signal_id.partition(":")
    known = {digest[:_DIGEST_CHARACTERS] for digest in digests}
    return sender == REPORT and bool(known) and rest.partition(":")[0] not in known


def done(value: str) -> str:
    """The report of a job that is done; `value` is the canonical JSON of its result."""
    return f'{{"{_DONE}":{value}}}'


def failed(why: str) -> str:
    """The report of a job that has failed."""
    return canonical({_FAILED: why[:WHY_CHARACTERS_MAX]})


def value_in(report: str) -> str | None:
    """The canonical JSON of the result in a report; None for a job that has failed.

    Raises:
        ValueRefused: it is no report.
    """
    said = json.loads(report)
    if isinstance(said, dict) and said.keys() == {_DONE}:
        return report[len(done("")) - 1 : -1]
    if isinstance(said, dict) and said.keys() == {_FAILED} and isinstance(said[_FAILED], str):
        return None
    raise ValueRefused("a report on a job is waited for", hint=f'it is {{"{_DONE}": result}} or {{"{_FAILED}": "why"}}')


def failure_in(report: str) -> ErrorRecord:
    """What the workflow is told of a job that has failed."""
    return ErrorRecord.of(JobFailed, str(json.loads(report)[_FAILED]))
