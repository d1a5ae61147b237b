"""`call.http`: HTTP for bodies, with the operation's key, one write per attempt, and errors that say what they prove.

`Rules` prepares a request, refuses what may not leave, and turns the reply into a `Reply` or a typed error; `Http` and
`SyncHttp` only carry it to the transport and wait. How bytes leave and when they may not is `transport`; what a status
proves is `core.classify`.
"""

from __future__ import annotations

import hashlib
import json as jsonlib
from collections.abc import Awaitable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import httpcore2
from pydantic_core import to_jsonable_python

from fencepost.core.classify import Reading, read_status
from fencepost.core.duration import interval
from fencepost.core.errors import Misuse, Permanent, RateLimited, StepError, Transient, Unresolved
from fencepost.core.identity import canonical
from fencepost.core.records import REQUEST
from fencepost.core.retry import retry_after
from fencepost.core.states import Outcome
from fencepost.effects.exchange import SendFacts
from fencepost.effects.judge import is_in_progress, is_replayed
from fencepost.effects.promises import KeyArgument, KeyHeader
from fencepost.effects.secret import hide_credentials
from fencepost.effects.transport import Headers, Params, RawReply, is_write, outcome_of_failure

if TYPE_CHECKING:
    from fencepost.effects.attempting import Attempting


A = TypeVar("A")

EVIDENCE_BODY_CHARACTERS_MAX = 500
"""How much of a refusal's body is kept as evidence beside its digest."""

TRACEPARENT = "traceparent"
"""The header of W3C Trace Context; one that the body gives itself is left as it is."""

_KEPT_HEADERS = ("retry-after", "date", "location", "idempotent-replayed", "x-request-id", "request-id")
_OK = 200
_REDIRECT = 300


class SameKeyOtherRequest(Misuse):
    """The body would send another request under the key of an attempt that may have been received."""


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply with a 2xx status. `body` is raw; `json()` and `text` read it."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> Any:
        """The body as JSON; raises `Unresolved` if it is none: the request was received and answered all the same."""
        try:
            return jsonlib.loads(self.body)
        except ValueError as error:
            raise Unresolved(f"the reply {self.status} is not JSON: {error}", hint="its digest is kept") from error

    @property
    def text(self) -> str:
        """The body as text."""
        return self.body.decode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request that is ready to leave; `digest` is over method, URL and body, not over headers, which may rotate."""

    method: str
    url: str
    headers: dict[str, str]
    params: Params
    content: bytes
    digest: str

    @property
    def is_write(self) -> bool:
        """Whether it may change something at the target."""
        return is_write(self.method)

    def declared(self) -> dict[str, str]:
        """What is written down before it leaves: whatever else may go under the key is refused from then on."""
        return {"method": self.method, "url": self.url, "digest": self.digest}


class Rules:
    """What may be sent within one attempt, and what its reply means."""

    __slots__ = ("_attempting", "_reads", "_written")

    def __init__(self, attempting: Attempting) -> None:
        self._attempting = attempting
        self._reads: SendFacts | None = None  # their own: a read is no send of the effect, and proves nothing of it
        self._written: str | None = None

    def prepare(
        self, method: str, url: str, *, json: Any, content: bytes | None, headers: Headers, params: Params
    ) -> Prepared:
        """The request with the target's address and headers, and with the operation's key where it is declared.

        Raises `Misuse` for what cannot be sent, or what the target's `headers` function raises: nothing is sent.
        """
        try:
            return self._prepared(method, url, json=json, content=content, headers=headers, params=params)
        except Exception as error:
            if is_write(method):
                self._attempting.unsent(error)
            raise

    def _prepared(
        self, method: str, url: str, *, json: Any, content: bytes | None, headers: Headers, params: Params
    ) -> Prepared:
        given = dict(headers or {})
        target = self._attempting.target
        if url.startswith("/") and target is None:
            raise Misuse(f"{url!r} is relative, and the step names no target", hint='declare @effect(target="name")')
        if target is not None and url.startswith("/"):
            url = target.base_url.rstrip("/") + url
            if target.headers is not None:
                ours = target.headers()
                hide_credentials(ours)
                given = {**ours, **given}
        write = is_write(method)
        if json is not None:
            if content is not None:
                raise Misuse("a request has either json= or content=", hint="pass one of them")
            content = self._json(json, write=write)
            given.setdefault("content-type", "application/json")
        sent = content or b""
        key = self._attempting.send_key
        if write and isinstance(key, KeyHeader):
            given[key.header] = self._attempting.key
        if (traceparent := self._attempting.site.traceparent) is not None and not _names(given, TRACEPARENT):
            given[TRACEPARENT] = traceparent(self._attempting)
        digest = hashlib.sha256(b"\n".join((method.upper().encode(), _whole(url, params).encode(), sent))).hexdigest()
        return Prepared(method, url, given, params, sent, digest)

    def _json(self, json: Any, *, write: bool) -> bytes:
        plain = to_jsonable_python(json, by_alias=True)
        key = self._attempting.send_key
        if write and isinstance(key, KeyArgument):
            if not isinstance(plain, dict):
                raise Misuse(
                    f"the key travels in {key.argument!r}, but the JSON body is no object", hint="send an object"
                )
            plain[key.argument] = self._attempting.key
        return canonical(plain, where="json").encode()

    def admit(self, prepared: Prepared) -> bool:
        """Check that a write may leave now; True if its digest is still to be written down before it does.

        Raises `LeaseLost`, `DeadlinePassed`, `SameKeyOtherRequest`, or `Misuse` for a second write: nothing is sent.
        """
        attempting = self._attempting
        if not prepared.is_write:
            return False
        if not attempting.may_write:
            raise attempting.unsent(Misuse("a look-up or read may not write", hint="use GET"))
        if self._written is not None:
            raise attempting.unsent(
                Misuse(
                    "a second write in one attempt", hint="make it a step of its own", ids={"step": attempting.position}
                )
            )
        attempting.check_permission()
        known = attempting.known_digest
        if known is not None and known != prepared.digest:
            raise attempting.unsent(
                SameKeyOtherRequest(
                    "same key, different parameters: the body built another request than at the first attempt",
                    hint="build the request from the step's arguments alone; no clock, attempt number or random value",
                    ids={"step": attempting.position, "key": attempting.key},
                )
            )
        self._written = prepared.digest
        return known is None

    def sent(self, prepared: Prepared) -> dict[str, Any]:
        """The arguments of a door's request; a write counts as one that may have left from here on."""
        if prepared.is_write:
            self._attempting.leaves()
        return {
            "method": prepared.method,
            "url": prepared.url,
            "deadline": self._attempting.deadline,
            "headers": prepared.headers,
            "params": prepared.params,
            "content": prepared.content,
            "facts": self._facts(prepared),
        }

    def _facts(self, prepared: Prepared) -> SendFacts:
        if prepared.is_write:
            return self._attempting.facts
        if self._reads is None:
            self._reads = SendFacts()
        return self._reads

    def receive(self, prepared: Prepared, raw: RawReply) -> Reply:
        """The reply, or the typed error that it amounts to; what it proves is noted for the attempt."""
        attempting = self._attempting
        if prepared.is_write:
            attempting.note_reply(_reply_evidence(raw), replayed=is_replayed(raw.headers))
        if _OK <= raw.status < _REDIRECT and not (
            prepared.is_write and self._reading(raw).outcome is not Outcome.APPLIED
        ):
            if raw.is_truncated:
                raise Unresolved(f"the reply {raw.status} is not whole: {raw.trouble}", hint="its digest is kept")
            return Reply(raw.status, raw.headers, raw.body)
        reading = self._reading(raw)
        error = _typed(raw, reading)
        raise attempting.answered(error, reading) if prepared.is_write else error

    def _reading(self, raw: RawReply) -> Reading:
        wait = retry_after(
            raw.headers.get("retry-after"), now=self._attempting.site.now(), date=raw.headers.get("date")
        )
        return read_status(
            self._attempting.contract, raw.status, retry_after=wait, in_progress=is_in_progress(raw.headers, raw.body)
        )

    def failed(self, prepared: Prepared, error: Exception) -> Exception:
        """What to raise for a request that brought no reply."""
        attempting = self._attempting
        failure = outcome_of_failure(self._facts(prepared), error)
        if not prepared.is_write:
            whole = isinstance(error, StepError) or _is_fault(error)
            return error if whole else Transient(failure.why, hint="ask again later")
        attempting.note_failure(failure.says, failure.why)
        if failure.says == "nothing left":
            attempting.left -= 1
            return attempting.unsent(error if _is_fault(error) else Transient(failure.why, hint="nothing was sent"))
        return attempting.answered(
            Unresolved(failure.why, hint="what happened is settled before anything is sent again"),
            Reading(Outcome.UNRESOLVED, retryable=True),
        )


def _names(headers: dict[str, str], name: str) -> bool:
    return any(one.lower() == name for one in headers)


def _is_fault(error: Exception) -> bool:
    """Whether the request itself cannot be sent, now or later."""
    return isinstance(error, _FAULTS) and not isinstance(error, OSError)  # a refused certificate is a ValueError too


_FAULTS = (Misuse, TypeError, ValueError, httpcore2.LocalProtocolError, httpcore2.UnsupportedProtocol)


def _whole(url: str, params: Params) -> str:
    return url if not params else f"{url}?{canonical(to_jsonable_python(params))}"


def _reply_evidence(raw: RawReply) -> dict[str, Any]:
    kept = {name: raw.headers[name] for name in _KEPT_HEADERS if name in raw.headers}
    evidence: dict[str, Any] = {"kind": "reply", "status": raw.status, "digest": raw.digest, "headers": kept}
    if not _OK <= raw.status < _REDIRECT:
        evidence["body"] = raw.body.decode("utf-8", "replace")[:EVIDENCE_BODY_CHARACTERS_MAX]
    if raw.trouble:
        evidence["trouble"] = raw.trouble
    return evidence


def _typed(raw: RawReply, reading: Reading) -> StepError:
    text = f"the target answered {raw.status}"
    ids = {"status": str(raw.status), "digest": raw.digest[:12]}
    if reading.outcome is Outcome.UNRESOLVED:
        return Unresolved(text, hint="this status proves neither that it happened nor that it did not", ids=ids)
    if reading.retryable:
        wait = interval(reading.retry_after)
        return RateLimited(text, retry_after=wait, hint="tried again within the budget", ids=ids)
    return Permanent(text, hint="trying again cannot help", ids=ids)


class _Methods(Generic[A]):
    """The HTTP methods over one `request`, whichever way it waits."""

    __slots__ = ("_attempting", "_rules")

    def __init__(self, attempting: Attempting) -> None:
        self._attempting = attempting
        self._rules = Rules(attempting)

    def request(
        self,
        method: str,
        url: str,
        *,
        json: Any = None,
        content: bytes | None = None,
        headers: Headers = None,
        params: Params = None,
    ) -> A:
        """Send one request; the classes below say how."""
        raise NotImplementedError

    def get(self, url: str, *, params: Params = None, headers: Headers = None) -> A:
        """GET; see `request`."""
        return self.request("GET", url, params=params, headers=headers)

    def post(self, url: str, *, json: Any = None, content: bytes | None = None, headers: Headers = None) -> A:
        """POST; see `request`."""
        return self.request("POST", url, json=json, content=content, headers=headers)

    def put(self, url: str, *, json: Any = None, content: bytes | None = None, headers: Headers = None) -> A:
        """PUT; see `request`."""
        return self.request("PUT", url, json=json, content=content, headers=headers)

    def patch(self, url: str, *, json: Any = None, headers: Headers = None) -> A:
        """PATCH; see `request`."""
        return self.request("PATCH", url, json=json, headers=headers)

    def delete(self, url: str, *, params: Params = None, headers: Headers = None) -> A:
        """DELETE; see `request`."""
        return self.request("DELETE", url, params=params, headers=headers)


class Http(_Methods[Awaitable[Reply]]):
    """HTTP for `async def` bodies. Every method returns a `Reply` with a 2xx status or raises a typed error."""

    __slots__ = ()

    async def request(
        self,
        method: str,
        url: str,
        *,
        json: Any = None,
        content: bytes | None = None,
        headers: Headers = None,
        params: Params = None,
    ) -> Reply:
        """Send one request. Relative URLs go to the step's target.

        Raises:
            Permanent, RateLimited: a definite refusal; the write was not applied.
            Transient: nothing left this process, or a read failed.
            Unresolved: it may or may not have been applied.
            Misuse: it may not be sent: a second write, another request under the same key.
        """
        attempting = self._attempting
        prepared = self._rules.prepare(method, url, json=json, content=content, headers=headers, params=params)
        if self._rules.admit(prepared):
            try:
                await attempting.note(REQUEST, prepared.declared())
            except Exception as error:  # noqa: BLE001 - whatever it is, it says whether a byte left
                raise attempting.unsent(error) from None
            attempting.check_permission()
        try:
            raw = await attempting.site.outside.async_door().request(**self._rules.sent(prepared))
        except Exception as error:
            raise self._rules.failed(prepared, error) from error
        return self._rules.receive(prepared, raw)


class SyncHttp(_Methods[Reply]):
    """HTTP for plain `def` bodies, blocking; the same methods as `Http`."""

    __slots__ = ()

    def request(
        self,
        method: str,
        url: str,
        *,
        json: Any = None,
        content: bytes | None = None,
        headers: Headers = None,
        params: Params = None,
    ) -> Reply:
        """As `Http.request`, blocking."""
        attempting = self._attempting
        prepared = self._rules.prepare(method, url, json=json, content=content, headers=headers, params=params)
        if self._rules.admit(prepared):
            try:
                attempting.note_blocking(REQUEST, prepared.declared())
            except Exception as error:  # noqa: BLE001 - as above
                raise attempting.unsent(error) from None
            attempting.check_permission()
        try:
            raw = attempting.site.outside.sync_door().request(**self._rules.sent(prepared))
        except Exception as error:
            raise self._rules.failed(prepared, error) from error
        return self._rules.receive(prepared, raw)
