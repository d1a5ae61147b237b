"""What a worker looks after in the ends that others bring to its runs: bodies are told, and refused signals audited.

A person may end a run while it is lived somewhere: no write of that life counts any more, and its bodies are told to
stop as those of a cancelled run are. Nothing waits for them. The other ends of a run are `closing`'s matter.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from fencepost.core.duration import SECOND
from fencepost.effects.deadline import boot_now
from fencepost.runtime.signalling import audit_what_ends_have_refused

if TYPE_CHECKING:
    from fencepost.runtime.execution import Execution
    from fencepost.store.api import Store

AUDITS_EVERY = 5 * SECOND
"""Microseconds between two looks for signals that were refused without an audit row as their runs ended."""

LOOK_EVERY = SECOND // 4
"""Microseconds between two looks for runs that a person has ended."""

Ask = Callable[..., Awaitable[Any]]
"""Calls a verb of the store that may block."""


class Endings:
    """The ends that one worker has to see to; `lives` are the runs that it lives, by their numbers.

    `notice` hands what the ledger holds of a run to its life.
    """

    def __init__(self, store: Store, lives: Mapping[int, Execution], notice: Callable[[int], Awaitable[None]]) -> None:
        self._store = store
        self._lives = lives
        self._notice = notice
        self._noticed: set[tuple[int, int]] = set()
        """Number and generation of the lives that have heard of their end, and have not left yet."""
        self._look_at = 0
        self._audits_at = 0
        self.some_are_there = True
        """Whether signals may have been refused that the audit has no row of; at first, those of a worker that died."""

    async def look_after(self, ask: Ask) -> float:
        """See to them if it is time; in how many seconds it is again. Raises `StoreUnavailable`."""
        now = boot_now()
        if self.some_are_there and now >= self._audits_at:
            self._audits_at = now + AUDITS_EVERY
            self.some_are_there = False
            await ask(audit_what_ends_have_refused, self._store)
        if not self._lives:
            return float("inf")
        if now >= self._look_at:
            self._look_at = now + LOOK_EVERY
            await self._tell_the_ended(ask)
            return float("inf")  # the ledger tells of the next change
        return (self._look_at - now) / SECOND

    async def _tell_the_ended(self, ask: Ask) -> None:
        generations = {run: execution.owner.generation for run, execution in self._lives.items()}
        self._noticed &= set(generations.items())
        asked = [one for one in generations.items() if one not in self._noticed]
        ended = set(await ask(self._store.ended_by_hand, [run for run, _ in asked])) if asked else set()
        for run, generation in asked:
            if run in ended:
                self._noticed.add((run, generation))
                await self._notice(run)
