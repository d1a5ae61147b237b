"""What Prometheus asks for: what the ledger holds, the most urgent first, and what this process has counted.

The ledger's part is measured by `runtime.alerting` and the alerts' own queries, so that a metric and its alert never
disagree; each scrape asks anew. The text is written by `exposition`; from when on somebody is called is `core.alerts`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from fencepost.core.alerts import ALERTS, SINCE, Unit
from fencepost.core.duration import SECOND
from fencepost.runtime.alerting import COSTLY, readings
from fencepost.telemetry.exposition import Family, Kind, Sample, text_of
from fencepost.telemetry.health import progress

if TYPE_CHECKING:
    from fencepost.runtime.app import App
    from fencepost.runtime.host import Host

OF_ALERTS: Mapping[str, str] = {
    "unknown effects": "fencepost_unknown_effect_oldest_age_seconds",
    "held runs": "fencepost_held_runs",
    "conflicts": "fencepost_conflicts",
    "compensation failed": "fencepost_compensations_incomplete",
    "workers lost": "fencepost_worker_lost_age_seconds",
    "lease losses": "fencepost_lease_losses_last_hour",
    "stale writes": "fencepost_stale_writes_refused_last_hour",
    "queue age": "fencepost_queue_age_seconds",
    "journal latency": "fencepost_ledger_write_seconds",
    "open breakers": "fencepost_breaker_oldest_age_seconds",
    "containments": "fencepost_containment_oldest_age_seconds",
    "versions": "fencepost_runs_without_code",
    "schedules": "fencepost_schedule_late_seconds",
    "proposals": "fencepost_proposal_oldest_age_seconds",
    "lost time": "fencepost_lost_time_open_seconds",
    "clock": "fencepost_ledger_clock_behind_seconds",
}
"""The metric of each alert that is cheap enough to be measured at every scrape; the chain of the audit is not."""

_COUNTED: Mapping[str, tuple[Kind, str]] = {
    "fencepost_attempts": ("counter", "Attempts of effects by target, and by what they came to."),
    "fencepost_sends_per_attempt": ("histogram", "Physical sends of an attempt; above 1, a second layer retries."),
    "fencepost_attempts_not_countable": ("counter", "Attempts of which the physical sends cannot be counted."),
    "fencepost_journal_batch_groups": ("histogram", "Groups of moves that shared a commit."),
    "fencepost_journal_commit_seconds": ("histogram", "How long a commit took."),
    "fencepost_groups_refused": ("counter", "Groups of moves that the ledger refused; stale: from a former owner."),
    "fencepost_leases_lost": ("counter", "Leases that this process has lost."),
    "fencepost_worker_progress_age_seconds": ("gauge", "Since when the working loop has not moved."),
    "fencepost_worker_stuck_seconds": ("gauge", "For how long the working loop is past the time it had announced."),
}

NAMES = (*OF_ALERTS.values(), "fencepost_unknown_effects", *_COUNTED)
"""Every family there is."""


def metrics(app: App) -> str:
    """Everything as OpenMetrics text (`exposition.CONTENT_TYPE`): the ledger's numbers in the app's namespace first.

    Asks the ledger some seventeen queries and commits an empty write, each time.

    Raises:
        StoreUnavailable: the ledger cannot be read.
    """
    host = app.host
    return text_of([*_of_ledger(host), *_of_process(host)])


def _of_ledger(host: Host) -> Iterator[Family]:
    store, namespace = host.store, host.namespace
    labels = {"namespace": namespace}
    now = store.now()
    measured = {one.name: one for one in readings(store, namespace, names=OF_ALERTS)}
    for name, metric in OF_ALERTS.items():
        alert = ALERTS[name]
        explained = f"{alert.measures[0].upper()}{alert.measures[1:]}."
        if name == "held runs":
            rows = store.measure(name, namespace, now=now, since=now - SINCE)
            held: list[Sample] = [({**labels, "reason": str(row[2])}, int(row[1])) for row in rows]
            yield Family(metric, "gauge", explained, held)
            continue
        value = measured[name].value
        yield Family(metric, "gauge", explained, [(labels, value / SECOND if alert.unit is Unit.TIME else value)])
        if name == "unknown effects":
            rows = store.measure(name, namespace, now=now, since=now - SINCE)
            count = int(rows[0][1]) if rows else 0
            yield Family(
                "fencepost_unknown_effects", "gauge", "Effects of which nobody knows whether they happened.",
                [(labels, count)],
            )  # fmt: skip


def _of_process(host: Host) -> Iterator[Family]:
    counts, pace = host.counts, host.journal.pace
    moves = progress(host)
    samples: dict[str, list[Sample]] = {
        "fencepost_attempts": [
            ({"target": target, "class": one}, count) for (target, one), count in sorted(counts.attempts.items())
        ],
        "fencepost_sends_per_attempt": [({"target": one}, sends) for one, sends in sorted(counts.sends.items())],
        "fencepost_attempts_not_countable": [({"target": one}, n) for one, n in sorted(counts.not_countable.items())],
        "fencepost_journal_batch_groups": [({}, pace.groups)],
        "fencepost_journal_commit_seconds": [({}, pace.seconds)],
        "fencepost_groups_refused": [({"answer": one}, count) for one, count in sorted(counts.refused.items())],
        "fencepost_leases_lost": [({}, counts.leases_lost)],
        "fencepost_worker_progress_age_seconds": [] if moves is None else [({}, moves.age / SECOND)],
        "fencepost_worker_stuck_seconds": [] if moves is None else [({}, moves.overdue / SECOND)],
    }
    for name, (kind, explained) in _COUNTED.items():
        yield Family(name, kind, explained, samples[name])


assert not (ALERTS.keys() - OF_ALERTS.keys() - COSTLY), "every alert that can be measured at a scrape has a metric"
