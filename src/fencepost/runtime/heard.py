"""What a process has heard of what is contained: a hint, so that it does not try what the ledger would refuse.

The ledger's own guard is in the dispatch: a process that has heard of nothing is refused, and hears then. One that has
heard of something asks before it lets a run wait for it, since it may be released by now. Containing and releasing is
`containing`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from math import inf
from typing import TYPE_CHECKING

from fencepost.core.duration import MINUTE, SECOND
from fencepost.effects.deadline import boot_now

if TYPE_CHECKING:
    from fencepost.core.containment import Containment
    from fencepost.store.api import Store

LOOK_EVERY = 5 * SECOND
"""Microseconds between two looks for runs that wait behind what is contained no more."""

PROBE_FOR = 2 * MINUTE
"""Microseconds after which a run that was let through a breaker and brought no answer makes room for another one."""


class Containments:
    """What is contained in a namespace, as far as this process knows. From any thread."""

    __slots__ = ("_look_at", "_marks", "_namespace", "_store", "has_queues")

    def __init__(self, store: Store, namespace: str) -> None:
        self._store = store
        self._namespace = namespace
        self._marks: tuple[str, ...] = ()
        self._look_at = 0
        self.has_queues = False
        """Whether the namespace has queues, as far as this process knows."""

    def may_stop(self, toward: str) -> bool:
        """Whether one of these marks is contained, for all that is known here."""
        return bool(self._marks) and any(mark in toward for mark in self._marks)

    def refresh(self) -> list[Containment]:
        """Hear what is contained now. Blocking; raises `StoreUnavailable`."""
        found = self._store.contained(self._namespace)
        self._marks = tuple(one.mark for one in found)
        probes = [one.probe_at for one in found if one.probe_at is not None and one.probe_run is None]
        if probes:
            self._look_at = min(self._look_at, boot_now() + max(0, min(probes) - self._store.now()))
        return found

    def keeping_back(self, toward: str, run: int) -> list[Containment]:
        """What stops a run's dispatch toward these marks now. Blocking; raises `StoreUnavailable`."""
        return [one for one in self.refresh() if one.mark in toward and not one.lets_through(run)]

    async def look_after(self, ask: Callable[[Callable[[], None]], Awaitable[None]]) -> None:
        """Every few seconds: hear what is contained, and wake the runs that wait for nothing.

        `ask` calls what may block. Raises `StoreUnavailable`.
        """
        if boot_now() >= self._look_at:
            self._look_at = boot_now() + LOOK_EVERY
            await ask(self._look_after)

    @property
    def pause(self) -> float:
        """Seconds until the next look, for a worker that would sleep longer; without end while nothing is contained."""
        return max(0.0, (self._look_at - boot_now()) / SECOND) if self._marks else inf

    def _look_after(self) -> None:
        """Let one run through each breaker that has cooled down, then find those that were forgotten."""
        now = self._store.now()
        for one in self.refresh():
            if one.probe_at is not None and one.probe_at <= now:
                self._store.let_through(one, now + PROBE_FOR, now)
        self._look_at = max(self._look_at, boot_now() + SECOND)  # where nobody waits, nobody was let through
        self._store.wake_forgotten(self._namespace)
        self.has_queues = bool(self._store.queues(self._namespace))
