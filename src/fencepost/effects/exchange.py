"""One request on its way: the facts that are counted, the guard that bounds it, the connection it uses.

An `Exchange` follows one request through httpcore2's connection pool, which knows nothing of attempts: the door enters
it, the streams below find it with `current`. Pooled connections are shared by many attempts one after the other, so
nothing about an attempt is kept on a connection.

What the bytes are and how they move is in `wire`; what the facts prove is said by `transport`.
"""

import contextvars
import socket
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType
from typing import Literal, NamedTuple, Protocol, Self

from fencepost.core.errors import DeadlinePassed, Transient, Unresolved
from fencepost.effects.deadline import Guard

Probe = Callable[[str], None]
"""Called with the name of a fault point; a test kills the process there. Production has none."""

FAULT_POINTS = ("http:connect", "http:last byte out", "http:first byte in")
"""What a probe is called with: the connection stands, the kernel has the whole request, the reply begins."""


@dataclass(slots=True)
class SendFacts:
    """What is known of the requests of one attempt, whatever exception ends them. Counted as it happens.

    Attributes:
        bytes_out: Bytes of requests (above TLS) that the kernel may have taken: never too low, and exact without
            TLS. 0 proves that nothing left this process.
        sends: Requests of which at least one byte left. More than one for a write: a second layer retries.
        all_out: The kernel took the whole of the latest request.
        first_byte_in: The reply to the latest request began.
        guarded: A kernel timer stood behind every write; False where the platform has none.
        status: The status of the latest reply, known as soon as its head was read.
    """

    bytes_out: int = 0
    sends: int = 0
    all_out: bool = False
    first_byte_in: bool = False
    guarded: bool = False
    status: int | None = None


class Wait(NamedTuple):
    """Wait until `sock` is readable or writable, at the latest until `until` (boot-time clock, microseconds)."""

    sock: socket.socket
    want: Literal["readable", "writable"]
    until: int


class Connection(Protocol):
    """What an exchange needs of the connection that it was given."""

    def release(self) -> None:
        """The exchange is over and the connection stays."""

    def abort(self) -> None:
        """End the connection with a reset, whatever state it is in."""


class Exchange:
    """One request, from asking the pool for a connection to the end of the reply.

    Used as a context manager around the pool's calls. Leaving it before `ends` was called, be it by a cancel, resets
    the connection: nothing of this request leaves afterwards.
    """

    def __init__(self, facts: SendFacts, deadline: int, *, is_write: bool, probe: Probe | None = None) -> None:
        self.facts = facts
        self.guard = Guard(deadline)
        self.is_write = is_write
        self.connection: Connection | None = None
        self.bytes_out = 0
        self._probe = probe
        self._write_failed = False
        self.is_heard = False
        self._token: contextvars.Token[Exchange | None] | None = None

    def __enter__(self) -> Self:
        self.facts.all_out = self.facts.first_byte_in = False
        self.facts.status = None
        self._token = _current.set(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._token is not None
        _current.reset(self._token)
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.abort()  # httpcore2 2.16 has closed it by now; that nothing leaves must not hang on that

    def bind(self, connection: Connection, sock: socket.socket) -> None:
        """Use this connection. A write is guarded from here until the connection is released or closed."""
        if self.bytes_out:
            # httpcore2 2.16 never does this. If a later one did, it would be the hidden retry that nobody may see.
            raise Unresolved(
                "the HTTP client tried to send a request again whose first bytes had left already",
                hint="this attempt is unresolved; report the version of httpcore2 as a bug",
            )
        if self.is_write:
            self.guard.open(sock)
            self.facts.guarded = self.guard.armed
        self.connection = connection

    def check(self) -> None:
        """Raise if no time is left: DeadlinePassed while no byte left, else Unresolved, or Transient for a read."""
        try:
            self.guard.check()
        except DeadlinePassed:
            if self.bytes_out:
                raise self.cut_off() from None
            raise

    def cut_off(self) -> Exception:
        """The error for a request that its deadline ended in the middle."""
        if not self.bytes_out:
            return DeadlinePassed(
                "the send deadline passed before the first byte", hint="nothing was sent; the next attempt may go"
            )
        message = f"the deadline passed after {self.bytes_out} bytes of the request had left"
        if not self.is_write:
            return Transient(message, hint="ask again later")
        return Unresolved(message, hint="what happened is settled before anything is sent again")

    def wait(self, sock: socket.socket, want: Literal["readable", "writable"]) -> Wait:
        """What to wait for, after a check."""
        self.check()
        return Wait(sock, want, self.guard.cut)

    def claim(self, count: int) -> None:
        """Count bytes as gone before they are handed over; a negative count gives back those that the kernel refused.

        In this order, since an interrupt between the two lines must not make a byte that left look as if none had.
        """
        self.bytes_out += count
        self.facts.bytes_out += count

    def goes_on(self) -> None:
        """More is to be written after all; httpcore2 does that only after it asked a proxy for a tunnel."""
        if self.facts.all_out:
            self.facts.all_out = self.is_heard = False
            if self.is_write:
                self.guard.goes_on()

    def write_failed(self) -> None:
        """The peer takes no more; httpcore2 goes on to read, since a reply may have come early."""
        self._write_failed = True

    def all_out(self) -> None:
        """httpcore2 turns to reading, which it does when it wrote everything or a write failed."""
        if self.facts.all_out or self._write_failed:
            return
        self.facts.all_out = True
        self.guard.sent()
        self.reached("http:last byte out")

    def heard(self) -> None:
        """Bytes of the reply arrived; they usually carry the confirmation of the last bytes out."""
        if self.is_heard:
            return
        self.is_heard = self.facts.first_byte_in = True
        if self.facts.all_out:
            self.guard.sent()
        self.reached("http:first byte in")

    def ends(self) -> None:
        """The reply is whole. Called before the pool learns of it, which may give the connection away at once."""
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.release()

    def reached(self, point: str) -> None:
        """Tell the probe, if there is one."""
        if self._probe is not None:
            self._probe(point)


_current: contextvars.ContextVar[Exchange | None] = contextvars.ContextVar("fencepost_exchange", default=None)


def current() -> Exchange:
    """The exchange in which this thread or task is; the pool's streams ask here whose bytes they carry."""
    exchange = _current.get()
    assert exchange is not None, "a stream of the door was used outside of a door's request"
    return exchange
