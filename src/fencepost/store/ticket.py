"""The wait for the journal's answer to one group or start: awaited on a loop, waited for on a thread.

Handing in and answering is the `journal`'s part.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Generator
from typing import Any, Generic, TypeVar

from fencepost.store.api import Answer, Group, NewRun, Started

_log = logging.getLogger(__name__)

A = TypeVar("A", Answer, Started)


class Ticket(Generic[A]):
    """The wait for the answer to one group or start.

    `await ticket` on the loop that submitted it, or `ticket.wait()` on a thread.
    """

    __slots__ = ("_done", "_future", "_when_done", "answer", "entry", "error", "loop")

    def __init__(
        self,
        entry: Group | NewRun,
        loop: asyncio.AbstractEventLoop | None,
        when_done: Callable[[Ticket[A]], None] | None,
    ) -> None:
        self.entry = entry
        self.answer: A | None = None
        self.error: BaseException | None = None
        self.loop = loop
        self._when_done: Callable[[Ticket[A]], None] | None = when_done
        self._future: asyncio.Future[None] | None = None
        self._done: threading.Event | None = threading.Event() if loop is None else None

    @property
    def done(self) -> bool:
        """Whether the group was committed, refused or failed."""
        return self.answer is not None or self.error is not None

    def result(self) -> A:
        """The answer; raises what kept the group from being judged. Only when `done`."""
        if self.error is not None:
            raise self.error
        assert self.answer is not None, "the ticket is not done"
        return self.answer

    def wait(self, timeout: float | None = None) -> A:
        """Block this thread until the group is done; raises `TimeoutError` after `timeout` seconds."""
        assert self._done is not None, "a ticket that was submitted on an event loop is awaited"
        if not self._done.wait(timeout):
            raise TimeoutError("the ledger has not answered yet; the group may still be committed")
        return self.result()

    def __await__(self) -> Generator[Any, None, A]:
        if not self.done:
            assert self.loop is not None, "a ticket that was submitted on a thread is waited for"
            self._future = self.loop.create_future()
            yield from self._future
        return self.result()

    def settle(self) -> None:
        """Tell whoever waits; on the submitting loop's thread, or anywhere for a thread's ticket."""
        if self._done is not None:
            self._done.set()
        if self._future is not None and not self._future.done():
            self._future.set_result(None)
        if self._when_done is None:
            return
        try:
            self._when_done(self)
        except Exception:  # noqa: BLE001 - it is the caller's, and logged
            # The other tickets of the batch are told all the same.
            _log.exception("a callback of the journal raised")


def tell(batch: list[Ticket[Any]], here: asyncio.AbstractEventLoop | None) -> None:
    """Settle tickets where they were submitted: at once on this loop or for a thread, else once per other loop."""
    elsewhere: dict[asyncio.AbstractEventLoop, list[Ticket[Any]]] = {}
    for ticket in batch:
        loop = ticket.loop
        if loop is here or loop is None:
            ticket.settle()
        else:
            elsewhere.setdefault(loop, []).append(ticket)
    for loop, tickets in elsewhere.items():
        try:
            loop.call_soon_threadsafe(tell, tickets, loop)
        except RuntimeError:
            # The loop is closed, so nobody waits any more; what was committed is found in the ledger.
            continue
