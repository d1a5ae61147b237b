"""The door's HTTP: one request, sent at most once, its reply kept raw, and what its failure proves.

`SyncDoor` and `AsyncDoor` differ only in how they wait; every rule is a plain function or an object that both use.
They stand on httpcore2's connection pools directly, whose `network_backend` is public, and borrow `httpx2.Request` only
to build a URL and headers. An httpx2 client would bring redirects, cookies, environment proxies and per-client
options, and its transports let one replace the backend only behind a private name.

HTTP/1.1 only; no redirects, no retries, no cookies, and no proxy that is not declared: each would be a second sender.
Typed errors for statuses, keys in headers and the rule of one write per attempt are the lead above this: `http`.
"""

import os
import ssl
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from hashlib import sha256
from types import TracebackType
from typing import Any, Final, Literal, NamedTuple, Self

import httpcore2
import httpx2

from fencepost.core.errors import FencepostError, Misuse
from fencepost.effects.deadline import boot_now, deadline_assumption
from fencepost.effects.exchange import Exchange, Probe, SendFacts
from fencepost.effects.stream import AsyncBackend, Backend

__all__ = [
    "AsyncDoor",
    "Failure",
    "RawReply",
    "SendFacts",
    "SyncDoor",
    "is_write",
    "outcome_of_failure",
]

REPLY_BYTES_MAX: Final = 1_048_576
CONNECTIONS_MAX: Final = 100
IDLE_SECONDS_MAX: Final = 4.0  # common servers close an idle connection after 5; be first, not in a race with them


class _ReplyTooLong(FencepostError):
    """More came than is kept."""


_BROKEN: Final = (httpcore2.NetworkError, httpcore2.ProtocolError, FencepostError)
"""How a reply's body can break off: the connection, the server's bytes, the limit, or the deadline."""

Scalar = str | int | float | bool | None
Params = Mapping[str, Scalar | Sequence[Scalar]] | list[tuple[str, Scalar]] | str | None
Headers = Mapping[str, str] | list[tuple[str, str]] | None


@dataclass(frozen=True, slots=True)
class RawReply:
    """A reply as it came.

    Attributes:
        status: The status code; 2xx is not judged here.
        headers: All headers, case-insensitive, repeated ones kept.
        body: At most `reply_bytes_max` bytes, undecoded.
        digest: SHA-256 of `body`, hexadecimal.
        trouble: Why `body` is not the whole reply (too long, connection broke, deadline); None if it is. The status
            is evidence all the same.
    """

    status: int
    headers: httpx2.Headers
    body: bytes
    digest: str
    trouble: str | None = None

    @property
    def is_truncated(self) -> bool:
        """Whether bytes of the body are missing."""
        return self.trouble is not None


class Failure(NamedTuple):
    """What an exception of a door proves. "nothing left" is proof that the attempt was not applied."""

    says: Literal["nothing left", "unresolved"]
    why: str


def outcome_of_failure(facts: SendFacts, error: BaseException) -> Failure:
    """What is proved by `error`, which ended a door's request whose facts are `facts`.

    Only the byte counter decides, never the class of the error: a time-out may come before the first byte, a refused
    connection after the last. `error` is named in `why` for whoever reads the evidence. When the request ended, by
    whichever error, its connection was reset, so that nothing of it leaves later.
    """
    named = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    if facts.bytes_out == 0:
        return Failure("nothing left", f"no byte left this process ({named})")
    how_much = "the whole request" if facts.all_out else f"{facts.bytes_out} bytes"
    return Failure("unresolved", f"{how_much} left this process ({named})")


def is_write(method: str) -> bool:
    """Whether a request with this method may change something at the target."""
    return method.upper() not in {"GET", "HEAD", "OPTIONS"}


@dataclass(frozen=True, slots=True)
class DoorOptions:
    """What a door is set to for its whole life.

    Attributes:
        ssl_context: For https; None: httpcore2's default, which reads the system's certificates.
        proxy: URL of an HTTP proxy. A proxy holds bytes after we have let go of them, so declaring one is printed as
            an assumption; asking it for a tunnel counts as bytes of the request.
        connections_max: Connections at a time; further requests wait for one, within their deadline.
        idle_seconds_max: How long an unused connection is kept.
        reply_bytes_max: How much of a reply is read and kept.
        probe: Called at the fault points of `exchange.FAULT_POINTS`; for tests.
    """

    ssl_context: ssl.SSLContext | None = None
    proxy: str | None = None
    connections_max: int = CONNECTIONS_MAX
    idle_seconds_max: float = IDLE_SECONDS_MAX
    reply_bytes_max: int = REPLY_BYTES_MAX
    probe: Probe | None = None

    def assumption(self) -> str | None:
        """What has to be assumed for the send deadline to hold; None if all of it is enforced here."""
        through = self.proxy and "assumed: the proxy delivers or drops what it has before the settle time begins"
        return "; ".join(filter(None, (deadline_assumption(), through))) or None

    def pool(self) -> dict[str, Any]:
        """The keyword arguments of a connection pool."""
        return {
            "ssl_context": self.ssl_context or httpcore2.default_ssl_context(),
            "proxy": None if self.proxy is None else httpcore2.Proxy(self.proxy),
            "max_connections": self.connections_max,
            "keepalive_expiry": self.idle_seconds_max,
            "http1": True,
            "http2": False,
            "retries": 0,
        }


class _Errand:
    """One request of a door: what both doors do before, during and after the pool's own calls."""

    def __init__(
        self,
        options: DoorOptions,
        method: str,
        url: str,
        *,
        deadline: int,
        headers: Headers,
        params: Params,
        content: bytes,
        facts: SendFacts | None,
    ) -> None:
        self.exchange = Exchange(facts or SendFacts(), deadline, is_write=is_write(method), probe=options.probe)
        self.request = _request(method, url, headers=headers, params=params, content=content)
        seconds = max(0, self.exchange.guard.cut - boot_now()) / 1_000_000
        self.request.extensions["timeout"] = {"pool": seconds}
        self._body = bytearray()
        self._limit = options.reply_bytes_max
        self._trouble: str | None = None
        self._response: httpcore2.Response | None = None

    def begins(self, response: httpcore2.Response) -> None:
        """The head of the reply is there."""
        if self.exchange.bytes_out == 0 or not self.exchange.is_heard:
            # Either nothing was asked, or httpcore2 had these bytes before: a surplus of the reply before this one.
            raise httpcore2.RemoteProtocolError("the server's answer came before its question and is not a reply to it")
        self._response = response
        self.exchange.facts.status = response.status

    def takes(self, chunk: bytes) -> None:
        """Keep what fits; raises when the rest is not wanted."""
        room = self._limit - len(self._body)
        self._body += chunk[:room]
        if len(chunk) > room:
            raise _ReplyTooLong(f"it is longer than {self._limit} bytes")

    def breaks(self, error: Exception) -> None:
        """The body is not whole. The head stays evidence, so the caller gets a reply and no exception."""
        self._trouble = f"{type(error).__name__.lstrip('_')}: {error}"

    def ends(self) -> None:
        """The body ended as announced; the connection may be used again, or end politely."""
        self.exchange.ends()

    def reply(self) -> RawReply:
        """What the caller gets."""
        assert self._response is not None
        body = bytes(self._body)
        headers = httpx2.Headers(self._response.headers)
        return RawReply(self._response.status, headers, body, sha256(body).hexdigest(), self._trouble)


def _request(method: str, url: str, *, headers: Headers, params: Params, content: bytes) -> httpcore2.Request:
    try:
        built = httpx2.Request(method, url, headers=headers, params=params, content=content)
    except httpx2.InvalidURL as error:
        raise Misuse(f"the URL cannot be used: {error}", hint="pass an absolute http:// or https:// address") from error
    if built.url.scheme not in {"http", "https"} or not built.url.host:
        raise Misuse(f"the URL {url!r} is not absolute", hint="pass an http:// or https:// address with a host")
    if built.url.userinfo:
        raise Misuse("the URL carries credentials, which would be stored with it", hint="pass them as a header")
    # What is stored as evidence is what came: no compression that somebody would have to undo first.
    for name, value in (("accept", "*/*"), ("accept-encoding", "identity"), ("user-agent", "fencepost")):
        built.headers.setdefault(name, value)
    target = httpcore2.URL(
        scheme=built.url.raw_scheme, host=built.url.raw_host, port=built.url.port, target=built.url.raw_path
    )
    return httpcore2.Request(built.method, target, headers=built.headers.raw, content=content)


class SyncDoor:
    """Sends requests from threads; any number of threads may share it. Close it, or use it with `with`."""

    def __init__(self, options: DoorOptions | None = None) -> None:
        self.options = options or DoorOptions()
        self._pool, self._pid = self._fresh_pool(), os.getpid()

    def request(
        self,
        method: str,
        url: str,
        *,
        deadline: int,
        headers: Headers = None,
        params: Params = None,
        content: bytes = b"",
        facts: SendFacts | None = None,
    ) -> RawReply:
        """Send one request at most once and return its reply, whatever its status.

        `deadline` is an instant of `boot_now`, in microseconds: no byte of the request leaves after it, and the
        reply must be there by then. `facts` is counted up in place, so that it tells what happened whichever
        exception comes.

        Raises:
            Misuse: the URL cannot be used; nothing was sent.
            DeadlinePassed: the deadline passed before the first byte left.
            Unresolved: the deadline passed after it (for a read: Transient).
            httpcore2 exceptions, OSError: as `outcome_of_failure` reads them, together with `facts`.
        """
        errand = _Errand(
            self.options, method, url, deadline=deadline, headers=headers, params=params, content=content, facts=facts
        )
        with errand.exchange:
            response = self._own_pool().handle_request(errand.request)
            try:
                errand.begins(response)
                self._read(errand, response)
            finally:
                response.close()
            return errand.reply()

    @staticmethod
    def _read(errand: _Errand, response: httpcore2.Response) -> None:
        try:
            for chunk in response.iter_stream():
                errand.takes(chunk)
        except _BROKEN as error:
            errand.breaks(error)
        else:
            errand.ends()

    def close(self) -> None:
        """Close the connections. No request may be under way, in whatever thread or task."""
        self._own_pool().close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _own_pool(self) -> httpcore2.ConnectionPool:
        # A forked child must not speak on its parent's connections, nor wait for locks held by threads it lacks.
        if self._pid != os.getpid():
            self._pool, self._pid = self._fresh_pool(), os.getpid()
        return self._pool

    def _fresh_pool(self) -> httpcore2.ConnectionPool:
        return httpcore2.ConnectionPool(network_backend=Backend(), **self.options.pool())


class AsyncDoor:
    """Sends requests from the tasks of one event loop at a time. Close it, or use it with `async with`."""

    def __init__(self, options: DoorOptions | None = None) -> None:
        self.options = options or DoorOptions()
        self._pool, self._pid = self._fresh_pool(), os.getpid()

    async def request(
        self,
        method: str,
        url: str,
        *,
        deadline: int,
        headers: Headers = None,
        params: Params = None,
        content: bytes = b"",
        facts: SendFacts | None = None,
    ) -> RawReply:
        """As `SyncDoor.request`. Cancelling the task resets the connection before the cancellation goes on."""
        errand = _Errand(
            self.options, method, url, deadline=deadline, headers=headers, params=params, content=content, facts=facts
        )
        with errand.exchange:
            response = await self._own_pool().handle_async_request(errand.request)
            try:
                errand.begins(response)
                await self._read(errand, response)
            finally:
                await response.aclose()
            return errand.reply()

    @staticmethod
    async def _read(errand: _Errand, response: httpcore2.Response) -> None:
        try:
            async with aclosing(response.aiter_stream()) as chunks:
                async for chunk in chunks:
                    errand.takes(chunk)
        except _BROKEN as error:
            errand.breaks(error)
        else:
            errand.ends()

    async def aclose(self) -> None:
        """Close the connections. No request may be under way, in whatever thread or task."""
        await self._own_pool().aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def _own_pool(self) -> httpcore2.AsyncConnectionPool:
        if self._pid != os.getpid():
            self._pool, self._pid = self._fresh_pool(), os.getpid()
        return self._pool

    def _fresh_pool(self) -> httpcore2.AsyncConnectionPool:
        return httpcore2.AsyncConnectionPool(network_backend=AsyncBackend(), **self.options.pool())
