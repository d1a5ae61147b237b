"""The store's verbs about ends that others bring: seen once they are committed, and found by whoever lives the runs.

That an end wakes whoever waits for it is a trigger of the schema; what the waiting run is told is `runtime.ends`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from fencepost.core.records import Run
from fencepost.store import rows
from fencepost.store.verbs import Verbs, whole


class EndVerbs(Verbs):
    """What both stores do alike with the ends of runs."""

    @whole
    def ended_by_hand(self, runs: Iterable[int]) -> list[int]:
        """See `Store.ended_by_hand`."""
        return [run for (run,) in self._read("ended_by_hand", runs=json.dumps(list(runs)))]

    @whole
    def find_settled(self, namespace: str, run_id: str) -> Run | None:
        """See `Store.find_settled`."""
        with self._writing() as work:
            found = work.execute("find_run", namespace=namespace, id=run_id)
            if not found:
                return None
            work.lock("lock_run", run=rows.run(found[0]).no)
            return rows.run(work.execute("find_run", namespace=namespace, id=run_id)[0])
