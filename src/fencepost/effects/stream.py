"""Two network backends for httpcore2's pools, one blocking and one on asyncio, over the same `Wire`.

Each runs the wire's generators and waits in its own way; there is no other difference between them. Timeouts that
httpcore2 passes are ignored: the deadline of the current `Exchange` bounds every wait, on the boot-time clock.

Decides nothing about requests (`transport` does) and touches no bytes (`wire` does). Not for trio, and not for event
loops without `add_reader` (Windows' proactor loop).
"""

import asyncio
import contextlib
import selectors
import socket
import ssl
from collections.abc import Iterable, Iterator, Sequence

import httpcore2

from fencepost.core.errors import DeadlinePassed
from fencepost.effects.deadline import boot_now
from fencepost.effects.exchange import Wait, current
from fencepost.effects.wire import SELECTOR, Address, Steps, T, Wire, connecting


class Stream(httpcore2.NetworkStream):
    """A connection for `httpcore2.ConnectionPool`."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ARG002 - the deadline bounds it
        """See `Wire.reading`."""
        return run_blocking(self.wire.reading(max_bytes, current()))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ARG002 - the deadline bounds it
        """See `Wire.writing`."""
        run_blocking(self.wire.writing(buffer, current()))

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ARG002 - the deadline bounds it
    ) -> "Stream":
        """See `Wire.securing`; the connection is closed when it fails."""
        with _closed_on_failure(self.wire):
            run_blocking(self.wire.securing(ssl_context, server_hostname, current()))
        return self

    def close(self) -> None:
        """See `Wire.close`."""
        self.wire.close()

    def get_extra_info(self, info: str) -> object:
        """See `Wire.info`."""
        return self.wire.info(info)


class Backend(httpcore2.NetworkBackend):
    """Connects `Stream`s."""

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ARG002 - the deadline bounds it
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> Stream:
        """See `connecting`. A blocking name look-up can outlast the deadline, but nothing is sent after it."""
        assert local_address is None, "a door does not choose one"
        assert not socket_options, "a wire sets its own"
        addresses: Sequence[Address] | None = _literal(host, port)
        if addresses is None:
            with _resolving(host):
                addresses = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return Stream(run_blocking(connecting(addresses, current())))


class AsyncStream(httpcore2.AsyncNetworkStream):
    """A connection for `httpcore2.AsyncConnectionPool`."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ARG002, ASYNC109 - as above
        """See `Wire.reading`."""
        return await run_on_loop(self.wire.reading(max_bytes, current()))

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ARG002, ASYNC109 - as above
        """See `Wire.writing`."""
        await run_on_loop(self.wire.writing(buffer, current()))

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ARG002, ASYNC109 - as above
    ) -> "AsyncStream":
        """See `Wire.securing`; the connection is closed when it fails."""
        with _closed_on_failure(self.wire):
            await run_on_loop(self.wire.securing(ssl_context, server_hostname, current()))
        return self

    async def aclose(self) -> None:
        """See `Wire.close`. Never waits, so that a cancelled task closes its connection all the same."""
        self.wire.close()

    def get_extra_info(self, info: str) -> object:
        """See `Wire.info`."""
        return self.wire.info(info)


class AsyncBackend(httpcore2.AsyncNetworkBackend):
    """Connects `AsyncStream`s."""

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ARG002, ASYNC109 - the deadline bounds it
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> AsyncStream:
        """See `connecting`. Names are looked up in the loop's executor."""
        assert local_address is None, "a door does not choose one"
        assert not socket_options, "a wire sets its own"
        exchange = current()
        addresses: Sequence[Address] | None = _literal(host, port)
        if addresses is None:
            loop = asyncio.get_running_loop()
            with _resolving(host):
                async with asyncio.timeout(_seconds_until(exchange.guard.cut)):
                    addresses = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return AsyncStream(await run_on_loop(connecting(addresses, exchange)))


def run_blocking(steps: Steps[T]) -> T:
    """Run an operation of a wire to its end, blocking this thread where it waits."""
    with contextlib.closing(steps), SELECTOR() as selector:
        try:
            while True:
                wait = next(steps)
                key = selector.register(wait.sock, _event(wait))
                selector.select(_seconds_until(wait.until))
                selector.unregister(key.fd)
        except StopIteration as end:
            result: T = end.value
            return result


async def run_on_loop(steps: Steps[T]) -> T:
    """Run an operation of a wire to its end, giving way to the event loop where it waits."""
    with contextlib.closing(steps):
        try:
            while True:
                await _ready(next(steps))
        except StopIteration as end:
            result: T = end.value
            return result


async def _ready(wait: Wait) -> None:
    loop = asyncio.get_running_loop()
    ready: asyncio.Future[None] = loop.create_future()
    reads = wait.want == "readable"
    add, remove = (loop.add_reader, loop.remove_reader) if reads else (loop.add_writer, loop.remove_writer)
    descriptor = wait.sock.fileno()
    add(descriptor, _wake, ready)
    alarm = loop.call_later(_seconds_until(wait.until), _wake, ready)
    try:
        await ready
    finally:
        alarm.cancel()
        remove(descriptor)


def _wake(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)


def _event(wait: Wait) -> int:
    return selectors.EVENT_READ if wait.want == "readable" else selectors.EVENT_WRITE


def _seconds_until(instant: int) -> float:
    return max(0, instant - boot_now()) / 1_000_000


def _literal(host: str, port: int) -> Sequence[Address] | None:
    # An address in digits needs no look-up, and on asyncio no thread.
    try:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except socket.gaierror:
        return None


@contextlib.contextmanager
def _resolving(host: str) -> Iterator[None]:
    try:
        yield
    except TimeoutError:
        raise DeadlinePassed(
            f"the deadline passed while the name {host} was looked up", hint="nothing was sent; look at the resolver"
        ) from None
    except OSError as error:
        raise httpcore2.ConnectError(f"the name {host} could not be looked up: {error}") from error


@contextlib.contextmanager
def _closed_on_failure(wire: Wire) -> Iterator[None]:
    try:
        yield
    except BaseException:
        wire.abort()
        raise
