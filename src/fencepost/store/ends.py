"""The store's verb about another run's end: seen as it is once whoever is ending it has committed.

That an end wakes whoever waits for it is a trigger of the schema; what the waiting run is told is `runtime.ends`.
"""

from __future__ import annotations

from fencepost.core.records import Run
from fencepost.store import rows
from fencepost.store.verbs import Verbs, whole


class EndVerbs(Verbs):
    """What both stores do alike with the ends of runs."""

    @whole
    def find_settled(self, namespace: str, run_id: str) -> Run | None:
        """See `Store.find_settled`."""
        with self._writing() as work:
            found = work.execute("find_run", namespace=namespace, id=run_id)
            if not found:
                return None
            work.lock("lock_run", run=rows.run(found[0]).no)
            return rows.run(work.execute("find_run", namespace=namespace, id=run_id)[0])
