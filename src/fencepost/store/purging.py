"""The store's verbs about purging: runs that have ended and whose time is over lose what they hold, a few at a time.

A run's row stays, with a mark in place of each text, so that its id stays taken and whoever refers to it finds it. What
a run may still be needed for is asked in the statement that picks it, under its lock, and its audit row is in the same
commit. How long runs are kept is `runtime.retention`'s matter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fencepost.core.records import Audit
from fencepost.core.standin import PURGED, stand_in
from fencepost.store.governing import Purging
from fencepost.store.statements import Wanted
from fencepost.store.verbs import Verbs, whole

_EMPTIED = ("purge_proposal", "purge_bulk_run")
"""What people wanted done to it: these rows stay, since an audit row or a job speaks of them, and lose their texts."""

_REMOVED = ("purge_observation", "purge_attempt", "purge_operation", "purge_step", "purge_signal", "purge_piece")
"""After the run's own row, without which what was seen cannot be removed."""


class PurgeVerbs(Verbs):
    """What both stores do alike when they purge."""

    @whole
    def ended(self, wanted: Purging) -> int:
        """See `Store.ended`."""
        found = self._read("ended_runs", namespace=wanted.namespace, state=wanted.state, before=wanted.before)
        return int(found[0][0])

    @whole
    def purgeable(self, wanted: Purging) -> list[tuple[int, str]]:
        """See `Store.purgeable`."""
        return [(no, run_id) for no, run_id in self._read("purgeable_runs", **wanted._asdict())]

    @whole
    def purge(self, wanted: Purging, audit: Callable[[list[str]], Audit]) -> list[tuple[int, str]]:
        """See `Store.purge`."""
        now = self.now()
        with self._writing() as work:
            found = [(no, run_id) for no, run_id in work.execute("purgeable_runs", **wanted._asdict())]
            if not found:
                work.was_in_vain()
                return found
            writes: list[Wanted] = []
            for _, run_id in found:
                which: dict[str, Any] = {"namespace": wanted.namespace, "id": run_id}
                marked = {**which, "mark": stand_in(PURGED, {"at": now})}
                writes += [("purge_run", {**marked, "now": now}), *((name, marked) for name in _EMPTIED)]
                writes += [(name, which) for name in _REMOVED]
            work.execute_all(writes)
            self._append(work, audit([run_id for _, run_id in found]))
            return found
