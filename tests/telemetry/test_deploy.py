"""The files for Prometheus and Grafana name metrics that exist, and each alert leads to a page that exists."""

import json
import re
from pathlib import Path

import pytest
import yaml

from fencepost.core.alerts import ALERTS, thresholds
from fencepost.runtime.alerting import COSTLY
from fencepost.telemetry.metrics import NAMES, OF_ALERTS

ROOT = Path(__file__).parents[2]
RULES = yaml.safe_load((ROOT / "deploy" / "prometheus" / "fencepost.rules.yml").read_text("utf-8"))["groups"][0][
    "rules"
]
DASHBOARD = json.loads((ROOT / "deploy" / "grafana" / "fencepost.json").read_text("utf-8"))
SUFFIXES = ("_total", "_bucket", "_count", "_sum")
LABELS = {"namespace", "reason", "target", "class", "answer", "le"}


def named(expression):
    """The metrics that an expression names."""
    return set(re.findall(r"\bfencepost_\w+", expression))


def family(metric):
    suffix = next((one for one in SUFFIXES if metric.endswith(one) and metric.removesuffix(one) in NAMES), "")
    return metric.removesuffix(suffix)


EXPRESSIONS = [one["expr"] for one in RULES] + [
    target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]
]


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_every_expression_names_metrics_and_labels_that_exist(expression):
    assert named(expression)
    assert {family(one) for one in named(expression)} <= set(NAMES)
    grouped = {label.strip() for group in re.findall(r"by \(([^)]*)\)", expression) for label in group.split(",")}
    matched = set(re.findall(r"[{,](\w+)[=~!]", expression))
    assert grouped | matched <= LABELS
    assert expression.count("(") == expression.count(")")


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["alert"])
def test_every_rule_says_who_is_called_and_leads_to_a_page_of_the_runbook(rule):
    assert rule["labels"]["severity"] in {"page", "ticket"}
    page = ROOT / rule["annotations"]["runbook"]
    assert page.is_file()
    assert page.parent == ROOT / "docs" / "reference" / "runbook"
    assert rule["annotations"]["summary"]


def test_every_alert_of_the_table_has_its_rule_with_the_tables_threshold_and_page():
    found = {rule["expr"]: rule for rule in RULES}
    for name, metric in OF_ALERTS.items():
        [rule] = [
            one for expression, one in found.items() if named(expression) == {metric} and "absent" not in expression
        ]
        bound = float(rule["expr"].rpartition(">")[2])
        assert thresholds({name: f"{bound:g}s" if ALERTS[name].unit == "time" else f"{bound:g}"}) == {
            name: ALERTS[name].threshold
        }
        assert rule["annotations"]["runbook"].endswith(f"/alert-{name.replace(' ', '-')}.md")
    assert ALERTS.keys() - OF_ALERTS.keys() == COSTLY


def test_that_nobody_measures_is_an_alert_too():
    assert any("absent(" in rule["expr"] for rule in RULES)


def test_the_dashboard_shows_what_is_unknown_first_then_what_is_held():
    first, _, third = DASHBOARD["panels"][:3]
    assert "unknown_effect_oldest_age" in first["targets"][0]["expr"]
    assert "held_runs" in third["targets"][0]["expr"]
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    shown = {family(one) for expression in EXPRESSIONS for one in named(expression)}
    assert set(NAMES) - shown <= {
        "fencepost_groups_refused",
        "fencepost_leases_lost",
        "fencepost_attempts_not_countable",
    }
