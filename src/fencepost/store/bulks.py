"""The store's verbs about jobs on many runs: begun with their runs, listed, paused, ended.

A run of a job is ticked off with the verb that is done to it (`ticks`, in `verbs.decide`). What a job may do next is
`core.bulk`; doing it, `runtime.bulking`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from fencepost.core.bulk import Bulk, BulkOutcome, BulkRun, BulkState, NotToBeDone, Tick
from fencepost.core.records import Audit, Run
from fencepost.store import rows
from fencepost.store.queries import Row
from fencepost.store.ticks import tick
from fencepost.store.verbs import Verbs, whole

_RUN_BEGINS = 5
"""Where the columns of the run begin in a row of `runs_of_bulk`."""


class BulkVerbs(Verbs):
    """What both stores do alike with jobs on many runs."""

    @whole
    def start_bulk(self, new: Bulk, runs: Sequence[Run]) -> tuple[Bulk, bool]:
        """See `KeepsBulks.start_bulk`."""
        values = {name: getattr(new, name) for name in self.queries["add_bulk"].parameters}
        with self._writing() as work:
            found: list[Row] = []
            is_new = False
            while not found:  # the same one that was open may be done before it is read
                is_new = work.change("add_bulk", **values) == 1
                found = work.execute("open_bulk", namespace=new.namespace, digest=new.digest)
            if is_new:
                listed = [[run.no, run.version, run.state.value] for run in runs]
                work.change("add_bulk_runs", bulk=found[0][0], runs=json.dumps(listed))
                found = work.execute("open_bulk", namespace=new.namespace, digest=new.digest)
            return _bulk(found[0]), is_new

    @whole
    def bulk(self, namespace: str, no: int) -> Bulk | None:
        """See `KeepsBulks.bulk`."""
        found = self._read("find_bulk", namespace=namespace, no=no)
        return _bulk(found[0]) if found else None

    @whole
    def bulks(self, namespace: str, *, every: bool, limit: int) -> list[Bulk]:
        """See `KeepsBulks.bulks`."""
        return [_bulk(row) for row in self._read("list_bulks", namespace=namespace, every=int(every), limit=limit)]

    @whole
    def bulk_runs(self, no: int, *, every: bool, after: int, limit: int) -> list[BulkRun]:
        """See `KeepsBulks.bulk_runs`."""
        found = self._read("runs_of_bulk", bulk=no, every=int(every), after=after, limit=limit)
        return [_bulk_run(row) for row in found]

    @whole
    def refuse_in_bulk(self, ticks: Tick, says: str) -> bool:
        """See `KeepsBulks.refuse_in_bulk`."""
        try:
            with self._writing() as work:
                tick(work, ticks, self.now(), refused=says)
        except NotToBeDone:
            return False
        return True

    @whole
    def move_bulk(self, no: int, *, expected: BulkState, to: BulkState, audit: Audit) -> bool:
        """See `KeepsBulks.move_bulk`."""
        with self._writing() as work:
            if not work.change("move_bulk", bulk=no, expected=expected.value, to=to.value):
                work.was_in_vain()
                return False
            self._append(work, audit)
            return True

    @whole
    def finish_bulk(self, no: int) -> bool:
        """See `KeepsBulks.finish_bulk`."""
        with self._writing() as work:
            return work.change("finish_bulk", bulk=no, now=self.now()) == 1


def _bulk(row: Row) -> Bulk:
    values = list(row)
    values[8] = BulkState(values[8])
    return Bulk(*values)


def _bulk_run(row: Row) -> BulkRun:
    place, seen, was, outcome, says = row[:_RUN_BEGINS]
    return BulkRun(
        place, seen, was, None if outcome is None else BulkOutcome(outcome), says, rows.run(row[_RUN_BEGINS:])
    )
