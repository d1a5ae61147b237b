"""How the workers on a ledger fare, as it is seen there: the document of `fencepost health`, and of `GET /health`.

What a worker says of itself is `telemetry.health`; whom an alert calls, `core.alerts`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from fencepost.console.printable import instant
from fencepost.runtime.alerting import readings
from fencepost.telemetry.health import workers_seen

if TYPE_CHECKING:
    from fencepost.console.documents import Document
    from fencepost.runtime.alerting import Measurement
    from fencepost.store.api import Store
    from fencepost.telemetry.health import Seen


@dataclass(frozen=True, slots=True)
class Workers:
    """Who holds a lease, and since when a run could have gone on (`waiting`)."""

    seen: list[Seen]
    waiting: Measurement

    @property
    def are_missed(self) -> bool:
        """Whether a run could go on and no worker moves."""
        return self.waiting.value > 0 and not any(one.overdue == 0 for one in self.seen)

    @property
    def are_well(self) -> bool:
        """Whether each of them moves, and none is missed."""
        return not self.are_missed and not any(one.overdue for one in self.seen)

    def as_document(self) -> Document:
        """`well`, `workers`, and `waiting` in microseconds."""
        workers = [
            {
                "lease": one.lease.id,
                "host": one.lease.host,
                "pid": one.lease.pid,
                "renewed_at": instant(one.lease.renewed_at),
                "expires_at": instant(one.lease.expires_at),
                "overdue": one.overdue,
            }
            for one in self.seen
        ]
        return {"well": self.are_well, "workers": workers, "waiting": self.waiting.value}


def workers_of(store: Store, namespace: str) -> Workers:
    """How they fare now. Raises `StoreUnavailable`."""
    seen = workers_seen(store)
    [waiting] = readings(store, namespace, names=("queue age",))
    return Workers(seen, waiting)
