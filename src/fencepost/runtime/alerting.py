"""Measures every alert of a ledger: its value now, whether it fires, and what it is about.

One query an alert, so that they may be asked every few seconds; only the audit's chain is read as a whole. Changes
nothing. From when on an alert fires, and what is done about it, is in `core.alerts`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from fencepost.core.alerts import ALERTS, SINCE, Alert, Unit, measured
from fencepost.core.states import LeaseState
from fencepost.effects.deadline import boot_now
from fencepost.runtime.checking import verify_audit

if TYPE_CHECKING:
    from fencepost.store.api import Store

COSTLY = frozenset({"audit"})
"""Alerts that read more than a few rows: the whole chain."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """One alert as it is now. `value` is in the alert's unit, `says` names what it is about, "" for nothing."""

    name: str
    alert: Alert
    value: int
    threshold: int
    says: str

    @property
    def fires(self) -> bool:
        """Whether somebody is called."""
        return self.value > self.threshold

    @property
    def shown(self) -> str:
        """The value as a person reads it."""
        return measured(self.alert.unit, self.value)

    @property
    def bound(self) -> str:
        """The threshold as a person reads it."""
        return measured(self.alert.unit, self.threshold)


Measure = Callable[["Store", str], tuple[int, str]]


def readings(
    store: Store, namespace: str, *, thresholds: Mapping[str, int] | None = None, names: Iterable[str] = ALERTS
) -> list[Measurement]:
    """Every alert, or those of these `names`, in the table's order; `thresholds` in place of the table's.

    Raises:
        StoreUnavailable: the ledger cannot be read.
    """
    own, wanted = thresholds or {}, set(names)
    found: list[Measurement] = []
    for name, alert in ALERTS.items():
        if name in wanted:
            value, says = MEASURES[name](store, namespace)
            found.append(Measurement(name, alert, value, own.get(name, alert.threshold), says))
    return found


def _by_query(name: str) -> Measure:
    def measure(store: Store, namespace: str) -> tuple[int, str]:
        now = store.now()
        rows = store.measure(name, namespace, now=now, since=now - SINCE)
        value, count, example = rows[0] if rows else (0, 0, "")
        if ALERTS[name].unit is Unit.COUNT:
            return int(value), str(example or "")
        return max(0, int(value)), f"{count}; {example}" if count > 1 else str(example or "")

    return measure


def _held(store: Store, namespace: str) -> tuple[int, str]:
    now = store.now()
    rows = store.measure("held runs", namespace, now=now, since=now - SINCE)
    return sum(row[1] for row in rows), "; ".join(f"{count} by {reason}" for _, count, reason in rows)


def _latency(store: Store, namespace: str) -> tuple[int, str]:
    del namespace
    before = boot_now()
    store.write_nothing()
    return boot_now() - before, ""


def _versions(store: Store, namespace: str) -> tuple[int, str]:
    """Runs that wait for code which no live worker carries; while none lives at all, that is `queue age`'s matter."""
    now = store.now()
    live = [lease for lease in store.leases() if lease.state is LeaseState.LIVE and lease.expires_at >= now]
    carried = [known for lease in live for known in json.loads(lease.carries)]
    lost = [one for one in store.pinned(namespace) if live and [namespace, *one[:2]] not in carried]
    said = "; ".join(f"{name} version {version}: {count}, such as {run}" for name, version, count, run in lost)
    return sum(one[2] for one in lost), said


def _audit(store: Store, namespace: str) -> tuple[int, str]:
    del namespace
    broken = verify_audit(store).broken
    return (0, "") if broken is None else (1, f"row {broken.at}: {broken.how}")


def _clock(store: Store, namespace: str) -> tuple[int, str]:
    del namespace
    return max(0, store.latest() - store.now()), ""


_OTHERWISE: Mapping[str, Measure] = {
    "held runs": _held,
    "journal latency": _latency,
    "versions": _versions,
    "audit": _audit,
    "clock": _clock,
}

MEASURES: Mapping[str, Measure] = {name: _OTHERWISE.get(name) or _by_query(name) for name in ALERTS}
"""How each alert is measured: by its query, or from what the store knows otherwise."""
