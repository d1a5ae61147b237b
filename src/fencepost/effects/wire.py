"""One TCP connection, with or without TLS, written once for threads and for asyncio.

A `Wire` owns a non-blocking socket. Its operations are generators that yield a `Wait` whenever the kernel has nothing
to give or take; who runs them waits in its own way (`stream` does, blocking or on the event loop). TLS runs in memory
above the socket, so that it is our own `send` that hands every byte to the kernel: checked against the deadline right
before, counted with it, and exact about what was taken.

Speaks no HTTP, that is httpcore2's part, and reuses nothing by itself, that is the pool's.
"""

import contextlib
import errno
import functools
import os
import selectors
import socket
import ssl
import weakref
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, Final, TypeVar

import httpcore2

from fencepost.effects.deadline import boot_now
from fencepost.effects.exchange import Exchange, Wait
from fencepost.effects.kernel import allow_draining, preset_reset, reset, unsent

T = TypeVar("T")
Steps = Generator[Wait, None, T]
"""An operation that yields what it waits for and returns a T."""

Address = tuple[int, int, int, str, Any]
"""One entry of `socket.getaddrinfo`."""

RECORD: Final = 16_384
"""Bytes in one TLS record at most (RFC 8446): one record is encrypted, handed over and counted at a time."""

SELECTOR: Final = getattr(selectors, "PollSelector", selectors.SelectSelector)
_PENDING: Final = frozenset({errno.EINPROGRESS, errno.EALREADY, errno.EWOULDBLOCK})
_NO_SIGNAL: Final = getattr(socket, "MSG_NOSIGNAL", 0)


def is_readable(sock: socket.socket) -> bool:
    """Whether a read would return at once: with data, with the end, or with an error. A closed socket is."""
    if sock.fileno() < 0:
        return True
    with SELECTOR() as selector:
        selector.register(sock, selectors.EVENT_READ)
        return bool(selector.select(0))


class Wire:
    """A connected, non-blocking socket whose every end is a reset as long as a request is on it."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.tls: ssl.SSLObject | None = None
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._exchange: Exchange | None = None
        self._exchanges = 0
        _close_in_forked_children()
        _wires.add(self)

    # -- writing -----------------------------------------------------------------------------------------------------

    def writing(self, data: bytes, exchange: Exchange) -> Steps[None]:
        """Hand `data`, a part of this exchange's request, to the kernel.

        Raises:
            httpcore2.ConnectionNotAvailable: a reused connection was dead before the first byte; the pool takes
                another one, which repeats nothing.
            httpcore2.WriteError: the peer takes no more.
            DeadlinePassed, Unresolved: see `Exchange.check`.
        """
        if not data:
            return
        self._take(exchange)
        try:
            with self._renamed(exchange, httpcore2.WriteError):
                if self.tls is None:
                    yield from self._send(data, exchange, None)
                    return
                for start in range(0, len(data), RECORD):
                    record = data[start : start + RECORD]
                    yield from self._converse(functools.partial(self.tls.write, record), exchange, len(record))
        except httpcore2.WriteError:
            if exchange.bytes_out == 0 and self._exchanges > 1:
                raise httpcore2.ConnectionNotAvailable from None
            exchange.write_failed()
            raise

    def _take(self, exchange: Exchange) -> None:
        if self._exchange is exchange:
            exchange.goes_on()
            return
        assert self._exchange is None, "a connection carries one exchange at a time"
        # An idle connection has nothing to say. If it is readable, its server closed it or sent something that would
        # be taken for the answer to a request that it never saw (such as a 408 before it closes).
        if self._exchanges and is_readable(self.sock):
            raise httpcore2.ConnectionNotAvailable
        exchange.bind(self, self.sock)
        self._exchange = exchange
        self._exchanges += 1

    def _send(self, data: bytes, exchange: Exchange, carries: int | None) -> Steps[None]:
        # `carries`: how many bytes of the request are inside `data`, all counted from its first byte on, since a
        # record cannot be counted in parts; None: `data` itself is the request and is counted byte by byte.
        view = memoryview(data)
        while view:
            claim = len(view) if carries is None else carries
            exchange.check()
            is_first = claim > 0 and exchange.bytes_out == 0
            exchange.claim(claim)
            try:
                taken = self.sock.send(view, _NO_SIGNAL)
            except BlockingIOError:
                exchange.claim(-claim)
                yield exchange.wait(self.sock, "writable")
                continue
            except OSError:
                exchange.claim(-claim)  # send(2) reports an error only if it took nothing
                raise
            exchange.facts.sends += is_first
            if carries is None:
                exchange.claim(taken - claim)
            else:
                carries = 0
            view = view[taken:]

    # -- reading -----------------------------------------------------------------------------------------------------

    def reading(self, count_max: int, exchange: Exchange) -> Steps[bytes]:
        """Up to `count_max` bytes of the reply; b"" at its end.

        Raises:
            httpcore2.ReadError: the connection broke, or TLS ended without saying so.
            DeadlinePassed, Unresolved, Transient: see `Exchange.check`.
        """
        exchange.all_out()
        with self._renamed(exchange, httpcore2.ReadError):
            if self.tls is None:
                data = yield from self._receive(count_max, exchange)
            else:
                try:
                    data = yield from self._converse(functools.partial(self.tls.read, count_max), exchange, 0)
                except ssl.SSLZeroReturnError:
                    data = b""
        if data:
            exchange.heard()
        elif exchange.guard.fired:
            raise exchange.cut_off()  # our own reset is no end of the reply
        return data

    def _receive(self, count_max: int, exchange: Exchange) -> Steps[bytes]:
        while True:
            try:
                # Before the clock is asked: what has arrived is evidence, however late we come to read it.
                return self.sock.recv(count_max)
            except BlockingIOError:
                yield exchange.wait(self.sock, "readable")

    # -- TLS ---------------------------------------------------------------------------------------------------------

    def securing(self, context: ssl.SSLContext, host: str | None, exchange: Exchange) -> Steps[None]:
        """Do the TLS handshake. Its bytes are no bytes of a request.

        Raises:
            httpcore2.ConnectError: refused, broken, or the certificate does not fit.
            DeadlinePassed: see `Exchange.check`.
        """
        tls = context.wrap_bio(self._incoming, self._outgoing, server_hostname=host)
        with self._renamed(exchange, httpcore2.ConnectError):
            yield from self._converse(tls.do_handshake, exchange, 0)
        self.tls = tls

    def _converse(self, operation: Callable[[], T], exchange: Exchange, carries: int) -> Steps[T]:
        # Run a TLS operation until it has all it needs, moving what it wants sent and feeding what it wants to read.
        while True:
            done = False
            result: T | None = None
            try:
                result = operation()
                done = True
            except ssl.SSLWantReadError:
                pass
            if self._outgoing.pending:
                yield from self._send(self._outgoing.read(), exchange, carries)
            if done:
                return result  # type: ignore[return-value]  # set on every path that is done
            raw = yield from self._receive(RECORD * 4, exchange)
            if raw:
                self._incoming.write(raw)
            else:
                self._incoming.write_eof()

    # -- the end -----------------------------------------------------------------------------------------------------

    def release(self) -> None:
        """The exchange is over, the connection may serve another; it is reset if it still holds unconfirmed bytes."""
        exchange, self._exchange = self._exchange, None
        if exchange is not None and not exchange.guard.close():
            self._end()

    def close(self) -> None:
        """End the connection: politely if no request is on it and nothing waits, else with a reset."""
        exchange, self._exchange = self._exchange, None
        if self.sock.fileno() < 0:
            return
        if exchange is not None:
            exchange.connection = None
            exchange.guard.close()
        elif unsent(self.sock) == 0:
            with contextlib.suppress(OSError):
                allow_draining(self.sock)
        self._end()

    def abort(self) -> None:
        """End the connection with a reset, whatever state it is in."""
        exchange, self._exchange = self._exchange, None
        if exchange is not None:
            exchange.guard.close()
        if self.sock.fileno() >= 0:
            reset(self.sock)
            self._end()

    def _end(self) -> None:
        _wires.discard(self)
        self.sock.close()

    def info(self, name: str) -> Any:
        """What httpcore2 asks of a stream, by its names; None for what it does not know."""
        answers: dict[str, Callable[[], Any]] = {
            "ssl_object": lambda: self.tls,
            "client_addr": self.sock.getsockname,
            "server_addr": self.sock.getpeername,
            "socket": lambda: self.sock,
            "is_readable": lambda: is_readable(self.sock),
        }
        answer = answers.get(name)
        return None if answer is None else answer()

    @contextlib.contextmanager
    def _renamed(self, exchange: Exchange, name: type[Exception]) -> Iterator[None]:
        # Name errors as httpcore2 expects them; if it was the watcher that reset the socket, say so instead.
        try:
            yield
        except OSError as error:
            if exchange.guard.fired:
                raise exchange.cut_off() from error
            raise name(str(error)) from error


def connecting(addresses: Sequence[Address], exchange: Exchange) -> Steps[Wire]:
    """Connect to the first address that answers; each gets an equal share of the time that is left.

    Raises:
        httpcore2.ConnectError: none answered.
        DeadlinePassed: the time is over. Nothing was sent in either case.
    """
    failure: OSError | None = None
    for tried, address in enumerate(addresses):
        exchange.check()
        now = boot_now()
        until = now + (exchange.guard.cut - now) // (len(addresses) - tried)
        try:
            wire = yield from _connecting_to(address, until, exchange)
        except OSError as error:
            failure = error
        else:
            exchange.reached("http:connect")
            return wire
    raise httpcore2.ConnectError(str(failure or "the name has no address")) from failure


def _connecting_to(address: Address, until: int, exchange: Exchange) -> Steps[Wire]:
    family, kind, protocol, _, target = address
    with contextlib.ExitStack() as until_connected:
        sock = until_connected.enter_context(socket.socket(family, kind, protocol))
        sock.settimeout(0)
        preset_reset(sock)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while (code := sock.connect_ex(target)) in _PENDING:
            exchange.check()
            if boot_now() >= until:
                raise TimeoutError(errno.ETIMEDOUT, f"no answer from {target[0]} port {target[1]}")
            yield Wait(sock, "writable", until)
        if code not in {0, errno.EISCONN}:
            raise OSError(code, f"{os.strerror(code)}: {target[0]} port {target[1]}")
        until_connected.pop_all()  # connected: the wire closes it from now on
        return Wire(sock)


# A process that was killed leaves its sockets to a forked child that still has copies of them, and the kernel would go
# on delivering. So a child closes its copies at once; the parent's connections live on.
_wires: Final[weakref.WeakSet[Wire]] = weakref.WeakSet()


@functools.cache
def _close_in_forked_children() -> None:
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=_close_copies)


def _close_copies() -> None:
    for wire in list(_wires):
        wire.sock.close()
    _wires.clear()
