"""The store's verbs for what comes from outside: whose a token is, that a job is alive, who waits under a name.

A report itself is a signal (`signals`). Which token is refused, and what a job's silence means, is decided elsewhere.
"""

from __future__ import annotations

import json

from fencepost.core.callback import HandedOut
from fencepost.store import rows
from fencepost.store.verbs import Verbs, whole

_STRANGERS = "callback tokens that nobody gave out: "


class JobVerbs(Verbs):
    """What both stores do alike with jobs."""

    @whole
    def handed_out(self, digest: str) -> HandedOut | None:
        """See `Store.handed_out`."""
        found = self._read("callback_of", digest=digest)
        if not found:
            return None
        number, step, item, evidence = found[0]
        said = json.loads(evidence)
        run = rows.run(self._read("load_run", run=number)[0])
        return HandedOut(run, step, item or None, said["name"], said["digest"])

    @whole
    def beat(self, namespace: str, run_id: str, name: str, progress: str | None) -> bool:
        """See `Store.beat`."""
        now = self.now()
        with self._writing() as work:
            found = work.execute("find_run", namespace=namespace, id=run_id)
            if not found:
                return False
            run = rows.run(found[0]).no
            # Its owner may be closing the wait at this moment: then one of the two comes too late.
            work.lock("lock_run", run=run)
            return work.change("beat", run=run, name=name, now=now, progress=progress) > 0

    @whole
    def waits_named(self, namespace: str, name: str, limit: int) -> list[tuple[str, bool]]:
        """See `Store.waits_named`."""
        found = self._read("waits_named", namespace=namespace, name=name, limit=limit)
        return [(run, bool(is_open)) for run, is_open in found]

    @whole
    def taken_event(self, namespace: str, name: str, event: str) -> str | None:
        """See `Store.taken_event`."""
        found = self._read("taken_event", namespace=namespace, name=name, id=event)
        return str(found[0][0]) if found else None

    @whole
    def count_stranger(self, namespace: str) -> None:
        """See `Store.count_stranger`."""
        with self._writing() as work:
            work.change("count_stranger", name=_STRANGERS + namespace)

    @whole
    def strangers(self, namespace: str) -> int:
        """See `Store.strangers`."""
        found = self._read("strangers", name=_STRANGERS + namespace)
        return int(found[0][0]) if found else 0
