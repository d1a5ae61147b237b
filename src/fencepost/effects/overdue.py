"""Bounds how long a body may run, for many bodies at a time, at the cost of a dictionary entry each.

`asyncio.timeout` arms a timer of the event loop for every body; here one timer looks after all of a loop, while there
are any. A body that is overdue is cancelled up to `LOOK_EVERY` later and ends as `TimeoutError`; one that goes on all
the same is reported after a grace, and what then is the caller's matter. The send deadline is not enforced here but by
`deadline`, to the microsecond.
"""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from fencepost.effects.attempting import Attempting
    from fencepost.effects.site import Site

LOOK_EVERY = 0.05
"""Seconds between two looks at the bodies that run."""

GRACE = 5.0
"""Seconds that a body has to clean up after it was cancelled; one that still runs then ignores its cancel."""

WRITE_LOOK = 1.0
"""Seconds by which a hastened body is given more time, as long as a write of it is on its way."""

_TO_END = "the time that a body has to end then is over"


class Overdue:
    """The bodies that run on one event loop: the first that asks."""

    __slots__ = ("_bounded", "_loop", "_timer", "grace")

    def __init__(self) -> None:
        self.grace = GRACE
        self._bounded: dict[asyncio.Task[Any] | None, Bounded] = {}  # a task runs one body at a time
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None

    def bounded(self, seconds: float, attempting: Attempting) -> Bounded:
        """A context manager for the body that the current task runs for `attempting`."""
        loop = self._loop
        if loop is None:
            loop = self._loop = asyncio.get_running_loop()
        return Bounded(self, asyncio.current_task(loop), loop.time() + seconds, attempting)

    def enter(self, one: Bounded) -> None:
        """Look after one more body."""
        self._bounded[one.task] = one
        if self._timer is None and self._loop is not None:
            self._timer = self._loop.call_later(LOOK_EVERY, self._look)

    def time(self) -> float:
        """The loop's time."""
        assert self._loop is not None, "only a body that runs is asked about"
        return self._loop.time()

    def leave(self, one: Bounded) -> None:
        """The body has ended."""
        self._bounded.pop(one.task, None)

    def bodies(self, site: Site) -> list[Bounded]:
        """The bodies that run for one life of one run."""
        return [one for one in self._bounded.values() if one.attempting.site is site]

    def body_in(self, task: asyncio.Task[Any] | None) -> Attempting | None:
        """The attempt whose body this task runs right now, if it runs one."""
        one = self._bounded.get(task)
        return None if one is None else one.attempting

    def _look(self) -> None:
        assert self._loop is not None, "only a loop's timer looks"
        now = self._loop.time()
        for one in [one for one in self._bounded.values() if one.until <= now]:
            if one.expire(now + self.grace):
                self.leave(one)
        self._timer = self._loop.call_later(LOOK_EVERY, self._look) if self._bounded else None


class Bounded:
    """One body and the loop time at which it is overdue; one that ends by its cancel ends as `TimeoutError`.

    A body that returns in spite of its cancel has returned: what it says is not thrown away for being late.
    """

    __slots__ = ("_expired", "_overdue", "_spare", "attempting", "task", "until")

    def __init__(self, overdue: Overdue, task: asyncio.Task[Any] | None, until: float, attempting: Attempting) -> None:
        self._overdue = overdue
        self._expired = False
        self._spare = 0.0  # seconds of its own time that a hastened body may still have, for a write on its way
        self.task = task
        self.attempting = attempting
        self.until = until

    def hasten(self, seconds: float) -> None:
        """Leave the body no more than so many seconds, and those that a write of it that is on its way may take."""
        until = self._overdue.time() + seconds
        if not self._expired and until < self.until:
            self._spare, self.until = self.until - until, until

    def expire(self, until: float) -> bool:
        """Cancel the body, which then has time `until`; or report one that was cancelled before, and answer True."""
        if self._expired:
            self.attempting.is_left()
            if self.attempting.ignored is not None:
                self.attempting.ignored(self.attempting)
            return True
        if self._spare > 0 and self.attempting.is_writing:
            more = min(self._spare, WRITE_LOOK)
            self._spare, self.until = self._spare - more, self.until + more
            return False
        self._expired, self.until = True, until
        self.attempting.time_is_over()
        if self.task is not None:
            self.task.cancel()
        return False

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
        others = self.task.uncancel() if self.task is not None else 0
        if others == 0 and kind is not None and issubclass(kind, asyncio.CancelledError):
            told = self.attempting.told
            raise TimeoutError(f"{told}, and {_TO_END}" if told else "the attempt timeout is over") from error
