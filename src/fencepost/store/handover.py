"""What lets an event loop go on while its commit is under way: a writer thread, or the loop's own ear for the answer.

A slow disk's sync is handed over to the thread. A server's answer is listened for, as long as the loop runs. What is
committed, and who has the turn, is the `journal`'s matter.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from fencepost.store.api import Prepared
from fencepost.store.ticket import Ticket

LOOK_AGAIN = 0.05
"""Seconds between two looks at whether a loop that has the turn has ended."""


class WriterThread:
    """One daemon thread; `flush` commits what waits, and says whether it must look again soon."""

    def __init__(self, flush: Callable[[], bool]) -> None:
        self._flush = flush
        self._work: deque[Callable[[], None]] = deque()
        self._due = threading.Semaphore(0)
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="fencepost-journal", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Commit what waits."""
        self._due.release()

    def finish(self, work: Callable[[], None]) -> None:
        """Run `work` next."""
        self._work.append(work)
        self._due.release()

    def stop(self) -> None:
        """End after what was handed over is done."""
        self._stopping = True
        self._due.release()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        pause: float | None = None
        while True:
            self._due.acquire(timeout=pause)
            if self._work:
                self._work.popleft()()
            pause = LOOK_AGAIN if self._flush() else None
            if self._stopping and not self._work:
                return


@dataclass(eq=False, slots=True)
class Sent:
    """A batch whose answer a loop listens for; until it has come the loop has the turn."""

    loop: asyncio.AbstractEventLoop
    batch: list[Ticket[Any]]
    prepared: Prepared
    descriptor: int
    silence: asyncio.TimerHandle | None = None

    @property
    def will_be_heard(self) -> bool:
        """Whether the loop goes on: it has not ended, and it is not the one that asks, and waits for the turn."""
        return self.loop.is_running() and self.loop is not running_loop()

    def stop_listening(self) -> None:
        """On the loop's thread, or on any when it does not run: the descriptor may be another connection's soon."""
        with suppress(RuntimeError):  # of a loop that is closed, and listens to nothing
            self.loop.remove_reader(self.descriptor)
        if self.silence is not None:
            self.silence.cancel()


def running_loop() -> asyncio.AbstractEventLoop | None:
    """The loop that runs on this thread."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
