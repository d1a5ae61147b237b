"""The tasks of one run: each leads one step after the other, and the first error of any of them ends them all.

Which step a lane leads, and when no new one may begin, is decided in `execution`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any


class Lanes:
    """What is in flight for one run in this process, beside the execution's own lane."""

    __slots__ = ("_tasks", "broken")

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self.broken: BaseException | None = None
        """What went wrong with this process in a lane, first."""

    def __bool__(self) -> bool:
        return bool(self._tasks)

    def open(self, work: Coroutine[Any, Any, None]) -> None:
        """Begin a lane."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self.broken = self.broken or task.exception()

    async def any_ended(self) -> None:
        """Return when one of them has ended, at once if there is none."""
        if self._tasks:
            await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)

    async def all_ended(self) -> None:
        """Return when all of them have ended."""
        if self._tasks:
            await asyncio.wait(self._tasks)
