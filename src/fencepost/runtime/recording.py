"""What one life of a run hands in to the ledger, and what becomes of it when that is refused.

Moves collect until the next commit and go with it, so that a result costs no commit of its own. A refused group makes
this copy of the run worthless; what it saw is kept (`refusals`). What is handed in, and when, is `execution`'s matter.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from fencepost.core.errors import FencepostError, StoreUnavailable
from fencepost.core.records import Audit, History, Operation
from fencepost.effects.entry import Owner
from fencepost.runtime.leftovers import contract_of
from fencepost.runtime.positions import Positions
from fencepost.runtime.refusals import Refusals
from fencepost.runtime.replay import completions, driver_of
from fencepost.store.api import Answer, Group
from fencepost.store.moves import Move, Observe

if TYPE_CHECKING:
    from fencepost.runtime.host import Host
    from fencepost.runtime.workflow import Workflow


class Recording:
    """The part of an execution that writes: its history, its positions, and what waits for the next commit."""

    operations: dict[str, Operation]

    def __init__(self, host: Host, workflow: Workflow[..., Any], history: History) -> None:
        self.host = host
        self.workflow = workflow
        self.history = history
        self.owner = Owner(host.lease.id, history.run.generation, history.run.state.value)
        self.audits: list[Audit] = []
        self.positions = Positions(history, self.owner, self.audits)
        self.positions.read_at = host.now()
        self.moves: list[Move] = []
        self.observations: list[Observe] = []
        self.refused: Answer | None = None
        self._refusals = Refusals()
        self._has_moved = False
        self._history = completions(history)
        self.driver = driver_of(workflow, history, len(self._history))

    async def record(
        self, moves: list[Move], observations: list[Observe], *, gives_up: bool = False, wakes: int | None = None
    ) -> Answer:
        """Commit everything that waits with these moves; a refused group makes this copy of the run worthless."""
        if self.refused is not None:
            return self.keep(moves, observations)
        group = self._group(moves, observations)
        group.wakes, group.frees_slot = wakes, gives_up and self.history.run.queue is not None
        try:
            answer = await self.host.journal.submit(group)
        except StoreUnavailable:
            await self._keep_apart(group)
            raise
        if answer is Answer.MOVED:
            self._has_moved = True
        else:
            self.refused = answer
            self.host.counts.refused[answer.value] += 1
            self._refusals.refuse(group)
        return answer

    async def hand_in(self, is_busy: Callable[[], bool]) -> None:
        """Let nothing that is known wait for what is in flight beside it; the end of a life hands in the rest."""
        if is_busy():
            await asyncio.sleep(0)  # what arrives in the same moment is one group
            if is_busy() and self.refused is None and (self.moves or self.observations):
                await self.record([], [])

    def keep(self, moves: list[Move], observations: list[Observe]) -> Answer:
        """What comes after the first refusal is not sent, but not forgotten either."""
        assert self.refused is not None, "nothing was refused"
        self._refusals.withhold(self._group(moves, observations))
        return self.refused

    def _group(self, moves: list[Move], observations: list[Observe]) -> Group:
        if self.driver.progress is not None:
            self.positions.note_progress(self.driver.progress, self.host.now())
            self.driver.progress = None
            self.moves += self.positions.flush()
        group = Group(
            self.history.run.no,
            self.owner.generation,
            self.moves + moves if self.moves else moves,
            self.observations + observations if self.observations else observations,
        )
        self.moves, self.observations = [], []
        if self.audits:
            group.audits = tuple(self.audits)
            self.audits.clear()
        return group

    def why_refused(self) -> FencepostError | None:
        """What to hold the run with if it is loaded again and again; None when this life has changed anything."""
        if self.refused is None or self._has_moved:
            return None
        return self._refusals.error(self.refused, self.history.run)

    async def _keep_what_was_refused(self) -> None:
        if self.refused is not None:
            self.keep([], [])
            await asyncio.to_thread(self.host.containments.refresh)  # perhaps it was something not heard of yet
            await self._keep_results(self.refused)

    async def _keep_apart(self, group: Group) -> None:
        """Commit what is known without what was to begin: it may find room where a new row does not."""
        self._refusals.withhold(group)
        with suppress(StoreUnavailable):
            await self._keep_results(self.refused or Answer.ILLEGAL)

    async def _keep_results(self, answer: Answer) -> None:
        host = self.host
        await self._refusals.keep(answer, host.journal, host.store, lambda at: contract_of(self, self.operations[at]))
