"""The store's part in alerts: one query for each, and how long an empty write transaction takes just now.

Reads only, but for the transaction that writes nothing. From when on a value is too much is decided in `core.alerts`,
asking for them is `runtime.alerting`.
"""

from __future__ import annotations

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
    def write_nothing(self) -> None:
        """See `Store.write_nothing`."""
        with self._writing() as work:
            work.change("write_nothing")
