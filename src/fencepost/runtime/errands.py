"""What a worker does beside its runs, and nobody waits for but the worker's own end: asking targets to cancel.

Each is bounded by itself; one that no cancel ends is left, so that neither a run nor the worker's end waits for it.
What is asked is `stopping`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

_PULSE = 0.05
"""Seconds between two looks whether one was left."""


class Errands:
    """The tasks of one process that belong to no run's life."""

    __slots__ = ("left", "under_way")

    def __init__(self) -> None:
        self.under_way: set[asyncio.Task[None]] = set()
        self.left: set[asyncio.Task[None]] = set()
        """Those that go on although they were cancelled; whoever ends the process ends them."""

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        """Begin one, on the running loop."""
        task = asyncio.create_task(work)
        self.under_way.add(task)
        task.add_done_callback(self.under_way.discard)

    async def all_ended(self) -> None:
        """Return when none is under way any more, but those that were left."""
        while self.under_way:
            await asyncio.wait(self.under_way, timeout=_PULSE)

    def leave(self, task: asyncio.Task[None]) -> None:
        """Wait for one no longer."""
        self.under_way.discard(task)
        self.left.add(task)
        task.add_done_callback(self.left.discard)
