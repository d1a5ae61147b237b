"""What `with call.sending() as guard` gives: `guard.watch(sock)` binds another client's connection to the deadline.

A watched connection is held as `call.http` holds its own: reset shortly before the deadline by the watcher, and by the
kernel if this process is stopped, which it then ends. What is not watched keeps to its client's own timeout. The lines
of defence are in `deadline`; what the client's errors prove is read by `classifiers`.
"""

from __future__ import annotations

import contextlib
import os
import socket
from typing import Protocol

from fencepost.core.errors import Unresolved
from fencepost.effects.deadline import Guard
from fencepost.effects.kernel import allow_draining, preset_reset


class HasDescriptor(Protocol):
    """A connected socket, or whatever stands for one: of `smtplib`, `ssl`, or an asyncio transport."""

    def fileno(self) -> int:
        """Its descriptor."""


class SendGuard:
    """The span of one `call.sending()` block. `deadline` is in microseconds of the boot-time clock."""

    __slots__ = ("_deadline", "_watched")

    def __init__(self, deadline: int) -> None:
        self._deadline = deadline
        self._watched: list[tuple[Guard, socket.socket]] = []

    def watch(self, sock: HasDescriptor) -> None:
        """From here to the end of the block, reset this connection rather than let it send after the deadline.

        Call it once the connection stands and before the request is written; after STARTTLS, which wraps the socket,
        there is no need to call it again. A process that is stopped beyond the deadline is ended by the kernel.

        Raises:
            DeadlinePassed: it is too late.
            OSError: it is no open socket, or the kernel gave no timer.
        """
        copy = _copied(sock.fileno())
        guard = Guard(self._deadline)
        try:
            preset_reset(copy)
            guard.open(copy)
        except BaseException:
            copy.close()
            raise
        self._watched.append((guard, copy))

    def finish(self) -> None:
        """End the block as its client meant it.

        Raises:
            Unresolved: bytes still waited in this kernel. They were discarded, since nobody would watch over them.
        """
        if not self.close():
            raise Unresolved(
                "the block ended before the target's kernel confirmed every byte, so the connection was reset",
                hint="read the target's reply inside of `with call.sending()`",
            )

    def close(self) -> bool:
        """Stop watching; False if bytes that still waited had to be discarded. Closing again does nothing."""
        whole = True
        while self._watched:
            guard, copy = self._watched.pop()
            if guard.close():
                with contextlib.suppress(OSError):
                    allow_draining(copy)
            else:
                whole = False
            copy.close()
        return whole


def _copied(descriptor: int) -> socket.socket:
    """Another descriptor of the connection: its client may close its own, whose number then means something else."""
    blocking = os.get_blocking(descriptor)
    copy = socket.socket(fileno=os.dup(descriptor))
    os.set_blocking(descriptor, blocking)  # a default timeout of this process would have changed it for both
    return copy
