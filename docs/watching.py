"""The files for Prometheus and Grafana, made from the table of alerts and the names of the metrics.

`generate` writes them, so that neither a threshold nor a name in them differs from what the code says. What a person
does about an alert is on its page of the runbook.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from fencepost.cli.alerting import page_of
from fencepost.core.alerts import ALERTS, Alert, Severity, Unit
from fencepost.core.duration import SECOND
from fencepost.telemetry.metrics import OF_ALERTS

DEPLOY = Path(__file__).parents[1] / "deploy"
RUNBOOK = "docs/reference/runbook"

FOR = {Severity.PAGE: "1m", Severity.TICKET: "5m"}
"""How long a value stays above its threshold before somebody is called: one odd scrape wakes nobody."""

BY = {"held runs": "namespace, reason"}
"""Every worker measures the same ledger, so that the largest of what they say is what there is."""

UNWATCHED = "fencepost_unknown_effect_oldest_age_seconds"

OVER_ONCE = (
    "sum by (target) (increase(fencepost_sends_per_attempt_count[1h]))"
    ' - sum by (target) (increase(fencepost_sends_per_attempt_bucket{le="1.0"}[1h]))'
)


class Rule(NamedTuple):
    """One alert rule: `page` is that of the runbook."""

    name: str
    expression: str
    severity: Severity
    page: str
    means: str
    look_at: str = "The worker's log, and `fencepost health`."


OF_PROCESSES = (
    Rule(
        "FencepostWorkerStuck", "fencepost_worker_stuck_seconds > 0", Severity.PAGE, page_of("lease losses"),
        "A worker's loop has not moved for longer than it had announced; its lease runs out, and others take over.",
    ),
    Rule(
        "FencepostSecondLayerRetries", f"{OVER_ONCE} > 0", Severity.TICKET, page_of("conflicts"),
        "Attempts were sent more than once: a client under the step retries by itself.",
        "`fencepost contract` names layers that retry; attempts with more than one send say so in `show`.",
    ),
    Rule(
        "FencepostUnwatched", f"absent({UNWATCHED})", Severity.PAGE, page_of("workers lost"),
        "Nobody measures the ledger: no worker is scraped, so that no other alert here can fire.",
    ),
)  # fmt: skip
"""Alerts on what processes count, and on the measuring itself."""


def rules() -> str:
    """The alert rules of Prometheus, as YAML."""
    lines = [
        "# Made by docs/generate.py from the table of alerts: thresholds and pages are those of `fencepost alerts`.",
        "groups:",
        "  - name: fencepost",
        "    rules:",
    ]
    lines += [line for rule in (*_of_table(), *OF_PROCESSES) for line in _rule(rule)]
    return "\n".join([*lines, ""])


def _of_table() -> Iterator[Rule]:
    for name, metric in OF_ALERTS.items():
        alert = ALERTS[name]
        called = "Fencepost" + "".join(word.capitalize() for word in name.split())
        expression = f"max by ({BY.get(name, 'namespace')}) ({metric}) > {_threshold(alert)}"
        yield Rule(called, expression, alert.severity, page_of(name), alert.means, alert.look_at)


def _rule(rule: Rule) -> Iterator[str]:
    yield f"      - alert: {rule.name}"
    yield f"        expr: {json.dumps(rule.expression)}"
    yield f"        for: {FOR[rule.severity]}"
    yield "        labels:"
    yield f"          severity: {rule.severity}"
    yield "        annotations:"
    yield f"          summary: {json.dumps(rule.means)}"
    yield f"          description: {json.dumps(rule.look_at)}"
    yield f"          runbook: {RUNBOOK}/{rule.page}"


def _threshold(alert: Alert) -> str:
    return f"{alert.threshold / SECOND:g}" if alert.unit is Unit.TIME else str(alert.threshold)


# -- the dashboard ----------------------------------------------------------------------------------------------------

WIDTH, HEIGHT = 24, 7
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
NAMESPACE = '{namespace=~"$namespace"}'

Panel = tuple[str, str, str, str]
"""Title, unit, expression, legend."""

NOW: tuple[Panel, ...] = (
    ("Oldest unknown effect", "s", f"max(fencepost_unknown_effect_oldest_age_seconds{NAMESPACE})", ""),
    ("Unknown effects", "none", f"max(fencepost_unknown_effects{NAMESPACE})", ""),
    ("Held runs", "none", f"sum(max by (namespace, reason) (fencepost_held_runs{NAMESPACE}))", ""),
    ("Conflicts", "none", f"max(fencepost_conflicts{NAMESPACE})", ""),
    ("Compensations incomplete", "none", f"max(fencepost_compensations_incomplete{NAMESPACE})", ""),
    ("Queue age", "s", f"max(fencepost_queue_age_seconds{NAMESPACE})", ""),
)


def _most(metric: str) -> str:
    return f"max by (namespace) ({metric}{NAMESPACE})"


def _mean(histogram: str, by: str = "") -> str:
    over = f"sum by ({by})" if by else "sum"
    return f"{over} (rate({histogram}_sum[5m])) / {over} (rate({histogram}_count[5m]))"


OVER_TIME: tuple[Panel, ...] = (
    ("Age of the oldest unknown effect", "s", _most("fencepost_unknown_effect_oldest_age_seconds"), "{{namespace}}"),
    (
        "Held runs by reason", "none", f"max by (namespace, reason) (fencepost_held_runs{NAMESPACE})",
        "{{namespace}}: {{reason}}",
    ),
    (
        "Attempts a second, by target and what they came to", "ops",
        "sum by (target, class) (rate(fencepost_attempts_total[5m]))", "{{target}} {{class}}",
    ),
    ("Physical sends per attempt", "none", _mean("fencepost_sends_per_attempt", "target"), "{{target}}"),
    ("Queue age", "s", _most("fencepost_queue_age_seconds"), "{{namespace}}"),
    ("Leases lost in the last hour", "none", _most("fencepost_lease_losses_last_hour"), "{{namespace}}"),
    ("Stale writes refused in the last hour", "none", _most("fencepost_stale_writes_refused_last_hour"), ""),
    (
        "Commit latency, 99 of 100", "s",
        "histogram_quantile(0.99, sum by (le) (rate(fencepost_journal_commit_seconds_bucket[5m])))", "p99",
    ),
    ("Groups a commit", "none", _mean("fencepost_journal_batch_groups"), "groups"),
    ("Since when working loops have not moved", "s", "fencepost_worker_progress_age_seconds", "{{instance}}"),
)  # fmt: skip


def dashboard() -> str:
    """The dashboard of Grafana, as JSON: what is unknown and held first, as on every other screen."""
    panels: list[dict[str, Any]] = []
    wide = WIDTH // len(NOW)
    for place, panel in enumerate(NOW):
        panels.append(_panel(len(panels) + 1, "stat", panel, {"h": 4, "w": wide, "x": place * wide, "y": 0}))
    half = WIDTH // 2
    for place, panel in enumerate(OVER_TIME):
        where = {"h": HEIGHT, "w": half, "x": place % 2 * half, "y": 4 + place // 2 * HEIGHT}
        panels.append(_panel(len(panels) + 1, "timeseries", panel, where))
    said = {
        "title": "Fencepost",
        "uid": "fencepost",
        "tags": ["fencepost"],
        "schemaVersion": 39,
        "refresh": "30s",
        "time": {"from": "now-6h", "to": "now"},
        "templating": {
            "list": [
                {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Prometheus"},
                {
                    "name": "namespace", "type": "query", "datasource": DATASOURCE, "includeAll": True, "multi": True,
                    "query": f"label_values({UNWATCHED}, namespace)", "refresh": 2,
                },
            ]
        },
        "panels": panels,
    }  # fmt: skip
    return json.dumps(said, indent=2) + "\n"


def _panel(number: int, kind: str, panel: Panel, where: dict[str, int]) -> dict[str, Any]:
    title, unit, expression, legend = panel
    return {
        "id": number,
        "type": kind,
        "title": title,
        "datasource": DATASOURCE,
        "gridPos": where,
        "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
        "targets": [{"refId": "A", "datasource": DATASOURCE, "expr": expression, "legendFormat": legend}],
    }


def files() -> dict[Path, str]:
    """The text of every file by its path."""
    return {
        DEPLOY / "prometheus" / "fencepost.rules.yml": rules(),
        DEPLOY / "grafana" / "fencepost.json": dashboard(),
    }
