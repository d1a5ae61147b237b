"""What a ledger can be asked about jobs on many runs: a part of `api.Store`, which both databases implement.

What a job may do next is decided in `core.bulk`; carrying one out is `runtime.bulking`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from fencepost.core.bulk import Bulk, BulkRun, BulkState, Tick
from fencepost.core.records import Audit, Run


class KeepsBulks(Protocol):
    """The part of a store that keeps jobs on many runs."""

    def start_bulk(self, new: Bulk, runs: Sequence[Run]) -> tuple[Bulk, bool]:
        """Insert a job with its runs as they are handed in, or find the same one that is open; whether it is new."""

    def bulk(self, namespace: str, no: int) -> Bulk | None:
        """The job with this number."""

    def bulks(self, namespace: str, *, every: bool, limit: int) -> list[Bulk]:
        """Jobs, newest first: those that are open, or `every` one."""

    def bulk_runs(self, no: int, *, every: bool, after: int, limit: int) -> list[BulkRun]:
        """Runs of a job behind the place `after`, in their order: those that are left, or `every` one."""

    def refuse_in_bulk(self, ticks: Tick, says: str) -> bool:
        """Note why the verb was refused for a run of a job; False: the job is paused, or somebody else has done it."""

    def move_bulk(self, no: int, *, expected: BulkState, to: BulkState, audit: Audit) -> bool:
        """Lead a job from one state to the next, with its audit row; False: somebody else has moved it."""

    def finish_bulk(self, no: int) -> bool:
        """End a job of which nothing is left; False: something is, or it is not running."""
