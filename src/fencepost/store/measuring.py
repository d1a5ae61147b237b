"""The store's part in alerts and charts: a query for each, and how long an empty write transaction takes just now.

Reads only, but for the transaction that writes nothing. From when on a value is too much is decided in `core.alerts`,
asking for them is `runtime.alerting`; what charts are made of is counted in `core.charting`.
"""

from __future__ import annotations

from fencepost.core.charting import Lately, Lived, Sent
from fencepost.core.states import OperationState, Outcome
from fencepost.store.queries import Row
from fencepost.store.verbs import Verbs, whole


class MeasuringVerbs(Verbs):
    """What both stores do alike to be measured."""

    @whole
    def measure(self, alert: str, namespace: str, *, now: int, since: int) -> list[Row]:
        """See `Store.measure`."""
        name = f"alert_{alert.replace(' ', '_')}"
        given = {"namespace": namespace, "now": now, "since": since}
        return self._read(name, **{one: given[one] for one in set(self.queries[name].parameters)})

    @whole
    def lately(self, namespace: str, *, runs: int, limit: int) -> Lately:
        """See `Store.lately`."""
        as_of = self.now()
        lived = self._read("runs_lately", namespace=namespace, runs=runs, limit=runs)
        first = self._read("first_attempts_lately", namespace=namespace, runs=runs, limit=limit)
        further = self._read("further_attempts_lately", namespace=namespace, runs=runs, limit=limit)
        sent = [
            Sent(effect, number, dispatched, settled, Outcome(outcome), OperationState(state), changed)
            for effect, number, dispatched, settled, outcome, state, changed in (*first, *further)
        ]
        is_cut = len(first) == limit or len(further) == limit
        return Lately(as_of, runs, [Lived(*row) for row in lived], sent, is_cut)

    @whole
    def write_nothing(self) -> None:
        """See `Store.write_nothing`."""
        with self._writing() as work:
            work.change("write_nothing")
