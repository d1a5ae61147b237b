"""Wakes a run that is kept in memory when one of its waits or sleeps falls due.

A run that nothing keeps here is given up and woken by its row; one that has an effect in flight is not, and its time
limits hold all the same. What is done then is the execution's matter.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from fencepost.core.duration import SECOND


class Alarms:
    """The alarms of one run. `now` is the store's clock."""

    __slots__ = ("_now", "_set")

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self._set: list[asyncio.TimerHandle] = []

    def set(self, due_at: int | None, ring: Callable[[], None]) -> None:
        """Call `ring` at this instant of the store's clock; None: never."""
        if due_at is not None:
            seconds = max(0, due_at - self._now()) / SECOND
            self._set.append(asyncio.get_running_loop().call_later(seconds, self._look, due_at, ring))

    def _look(self, due_at: int, ring: Callable[[], None]) -> None:
        if self._now() < due_at:  # the loop's clock and the store's need not agree
            self.set(due_at, ring)
        else:
            ring()

    def silence(self) -> None:
        """Ring no more."""
        for alarm in self._set:
            alarm.cancel()
        self._set.clear()
