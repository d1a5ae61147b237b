"""Measures the bare journal: the moves of a step, built beforehand, are committed and nothing else happens.

The moves are not written down here: one run is made by the engine, its groups are recorded, and copies of them with
other runs and keys are submitted, as many at once as the concurrency says. So the rows are the same, and in the same
order; an engine that wrote more would lower its own ceiling. The rows of the runs themselves are left out: a step
has a tenth of one. Building the copies is not timed.
"""

import os
import time
from collections.abc import Sequence
from typing import Any

from bench.modes import CONCURRENCIES, STEPS, emit
from bench.place import Place
from bench.work import new_id, one_run, working
from fencepost.core.identity import operation_key
from fencepost.core.records import Lease, Run
from fencepost.core.states import LeaseState
from fencepost.store.api import Answer, Group, NewRun, Started
from fencepost.store.groups import Outcome
from fencepost.store.journal import Journal
from fencepost.store.moves import Move, MoveRun, NewOperation
from fencepost.store.open import open_store

_NAMESPACE = "default"
_LEASE_MICROSECONDS = 3_600_000_000


async def moves_of_a_run(where: Place) -> list[list[Move]]:
    """What the engine hands to the journal in the course of one run of ten steps, group by group.

    The first group begins the first step, each later one ends a step and begins the next, the last one ends the last
    step; the run's own end is taken out of it.
    """
    recorded: list[list[Move]] = []

    def record(entries: Sequence[Group | NewRun], outcomes: Sequence[Outcome]) -> None:
        groups = [entry for entry in entries if isinstance(entry, Group)]
        assert outcomes.count(Answer.MOVED) == len(groups), outcomes
        recorded.extend([move for move in group.moves if not isinstance(move, MoveRun)] for group in groups)

    async with working(where, record) as app:
        await one_run(app)
    assert len(recorded) == STEPS + 1, "a run of n steps takes n + 1 groups"
    return recorded


class BareJournal:
    """A journal on a new ledger, with runs that belong to nobody who would work on them."""

    def __init__(self, where: Place) -> None:
        self.store: Any = open_store(where.url)
        self.journal = Journal(self.store)
        now = self.store.now()
        self._lease = Lease(
            "bench", "host", "boot", os.getpid(), 0, LeaseState.LIVE, now, now, now + _LEASE_MICROSECONDS
        )
        self.store.take_lease(self._lease)

    def runs(self, number: int) -> list[Run]:
        """New runs, owned and running."""
        now = self.store.now()
        news = [
            NewRun(_NAMESPACE, new_id(), "tickets", 1, None, "{}", "", None, self._lease.id, now, now)
            for _ in range(number)
        ]
        return [started.run for started in self.store.commit(news, patience=1) if isinstance(started, Started)]

    def groups(self, recorded: list[list[Move]], run: Run) -> list[Group]:
        """The recorded groups as groups of another run."""
        return [Group(run.no, run.generation, [self._moved_to(move, run) for move in moves]) for moves in recorded]

    def _moved_to(self, move: Move, run: Run) -> Move:
        changes: dict[str, Any] = {"run": run.no, "generation": run.generation}
        if isinstance(move, NewOperation):
            changes["key"] = operation_key(_NAMESPACE, run.id, move.step, move.item, move.contract_version)
            changes["lease"] = self._lease.id
        return move._replace(**changes)

    async def commit(self, groups: Sequence[Group]) -> None:
        """Submits all groups in one turn of the loop and waits for each."""
        waiting = [self.journal.submit(group) for group in groups]
        for ticket in waiting:
            assert await ticket is Answer.MOVED

    def close(self) -> None:
        """Gives the ledger back."""
        self.journal.close()
        self.store.close()


async def steps_per_second(bare: BareJournal, recorded: list[list[Move]], concurrency: int, seconds: float) -> float:
    """Commits one step of as many runs at a time; after ten steps other runs follow, as in `floor`."""
    passed, steps = 0.0, 0
    ends: list[Group] = []
    while passed < seconds or not steps:
        lanes = [bare.groups(recorded, run) for run in bare.runs(concurrency)]
        batches = [[groups[step] for groups in lanes] for step in range(STEPS)]
        # The ends of the runs before share the first commit, so that there is one commit for each step.
        batches[0] = ends + batches[0]
        ends = [groups[STEPS] for groups in lanes]
        begun = time.perf_counter()
        for batch in batches:
            await bare.commit(batch)
        passed += time.perf_counter() - begun
        steps += STEPS * concurrency
    return steps / passed


async def measure(peer: str, where: Place, seconds: float) -> None:
    """Prints the lines of mode `ceiling`."""
    recorded = await moves_of_a_run(where)
    for concurrency in CONCURRENCIES:
        bare = BareJournal(where.beside(f"ceiling_{concurrency}"))
        try:
            emit(
                peer,
                "ceiling",
                concurrency=concurrency,
                steps_per_s=await steps_per_second(bare, recorded, concurrency, seconds),
            )
        finally:
            bare.close()
