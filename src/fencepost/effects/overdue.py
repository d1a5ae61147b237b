"""Bounds how long a body may run, for many bodies at a time, at the cost of a dictionary entry each.

`asyncio.timeout` arms a timer of the event loop for every body; here one timer looks after all of a loop, while there
are any. A body that is overdue is cancelled up to `LOOK_EVERY` later and ends as `TimeoutError`. The send deadline is
not enforced here but by `deadline`, to the microsecond.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any, Self

LOOK_EVERY = 0.05
"""Seconds between two looks at the bodies that run."""


class Overdue:
    """The bodies that run on one event loop: the first that asks."""

    __slots__ = ("_bounded", "_loop", "_timer")

    def __init__(self) -> None:
        self._bounded: set[Bounded] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None

    def bounded(self, seconds: float) -> Bounded:
        """A context manager for the body that the current task runs."""
        loop = self._loop
        if loop is None:
            loop = self._loop = asyncio.get_running_loop()
        return Bounded(self, asyncio.current_task(loop), loop.time() + seconds)

    def enter(self, one: Bounded) -> None:
        """Look after one more body."""
        self._bounded.add(one)
        if self._timer is None and self._loop is not None:
            self._timer = self._loop.call_later(LOOK_EVERY, self._look)

    def leave(self, one: Bounded) -> None:
        """The body has ended."""
        self._bounded.discard(one)

    def _look(self) -> None:
        assert self._loop is not None, "only a loop's timer looks"
        now = self._loop.time()
        for one in [one for one in self._bounded if one.until <= now]:
            one.expire()
            self._bounded.discard(one)
        self._timer = self._loop.call_later(LOOK_EVERY, self._look) if self._bounded else None


class Bounded:
    """One body and the loop time at which it is overdue; leaving it overdue raises `TimeoutError`."""

    __slots__ = ("_expired", "_overdue", "_task", "until")

    def __init__(self, overdue: Overdue, task: asyncio.Task[Any] | None, until: float) -> None:
        self._overdue = overdue
        self._expired = False
        self._task = task
        self.until = until

    def expire(self) -> None:
        """Cancel the body."""
        self._expired = True
        if self._task is not None:
            self._task.cancel()

    def __enter__(self) -> Self:
        self._overdue.enter(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._overdue.leave(self)
        if not self._expired:
            return
        # Our own cancel is taken back; one by somebody else at the same time is left standing.
        others = self._task.uncancel() if self._task is not None else 0
        if others == 0 and (kind is None or issubclass(kind, asyncio.CancelledError)):
            raise TimeoutError("the attempt timeout is over") from error
