"""The store's verbs about queues: what a claim takes from them, when the next one falls due, and a person's pause.

Whoever claims holds the queues meanwhile, so that what it counts stays true until its claims are committed; on a server
one that somebody else holds is left to them. Which of the runs that are due may be claimed is `core.queue`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from fencepost.core.queue import Candidate, Queue, QueueStanding, chosen
from fencepost.core.records import Audit
from fencepost.store.queries import Row
from fencepost.store.statements import Statements, Work
from fencepost.store.verbs import Verbs, whole


class QueueVerbs(Verbs):
    """What both stores do alike with queues."""

    @whole
    def declare_queues(self, namespace: str, declared: Sequence[Queue]) -> None:
        """See `Store.declare_queues`."""
        with self._writing() as work:
            for queue in declared:
                rate = (None, None) if queue.rate is None else (queue.rate.times, queue.rate.within)
                work.change(
                    "declare_queue", namespace=namespace, name=queue.name, concurrency=queue.concurrency,
                    per_key=queue.per_key, rate=rate[0], rate_within=rate[1],
                )  # fmt: skip
            work.announce()

    @whole
    def queues(self, namespace: str) -> list[QueueStanding]:
        """See `Store.queues`."""
        return [QueueStanding(*row) for row in self._read("all_queues", namespace=namespace, now=self.now())]

    @whole
    def queue_lengths(self, namespace: str) -> dict[str, tuple[int, int]]:
        """See `Store.queue_lengths`."""
        found = self._read("queue_lengths", namespace=namespace, now=self.now())
        return {name: (due, waiting) for name, due, waiting in found}

    @whole
    def pause_queue(self, namespace: str, name: str, *, actor: str | None, audit: Audit) -> bool:
        """See `Store.pause_queue`."""
        verb = "resume_queue" if actor is None else "pause_queue"
        values = {} if actor is None else {"actor": actor, "reason": audit.reason, "now": self.now()}
        with self._writing() as work:
            if not work.change(verb, namespace=namespace, name=name, **values):
                work.was_in_vain()
                return False
            self._append(work, audit)
            work.announce()
            return True

    def _due_in_queues(self, work: Work, wanted: dict[str, str], now: int, limit: int) -> list[Row]:
        found: list[Row] = []
        held = {name for (name,) in work.execute("hold_queues", namespace=wanted["namespace"])}
        # Read after they are held: whoever claimed before has committed.
        for row in work.execute("all_queues", namespace=wanted["namespace"], now=now) if held else ():
            standing = QueueStanding(*row)
            if standing.name not in held:
                continue
            some = _asked(wanted, standing) | {"limit": limit, "now": now}
            rows = work.execute("due_in_queue", **some)
            if standing.goes_back and standing.begins:  # or it would wait behind everything that is due
                rows = [*work.execute("due_in_queue", **some | {"begins": 0}), *rows]
            due = {row[0]: Candidate(*row) for row in rows}
            found += [(one[0], one[1], one[2], one[3], one[4]) for one in chosen(standing, due.values())]
        return found

    def _next_in_queues(self, reading: Statements, namespace: str, workflows: Sequence[tuple[str, int]]) -> list[int]:
        now = self.now()
        wanted = {"namespace": namespace, "workflows": json.dumps(workflows)}
        found = []
        for row in reading.execute("all_queues", namespace=namespace, now=now):
            standing = QueueStanding(*row)
            asked = _asked(wanted, standing)
            found.append(reading.execute("next_in_queue", **asked)[0][0])
            if standing.begins and standing.opens_at is not None:
                first = reading.execute("next_in_queue", **asked | {"fresh": 1})[0][0]
                found.append(None if first is None else max(first, standing.opens_at))
        return [due for due in found if due is not None]


def _asked(wanted: dict[str, str], standing: QueueStanding) -> dict[str, str | int | None]:
    return {
        **wanted,
        "queue": standing.name,
        "begins": int(standing.begins),
        "fresh": int(standing.fresh != 0),
        "slots": int(standing.slots != 0),
        "per_key": standing.per_key,
    }
