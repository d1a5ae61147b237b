"""`trace`, `metrics` and `health`: what others read of a ledger, harmless on a terminal, with the right exit code."""

import json

from prometheus_client.openmetrics.parser import text_string_to_metric_families

from fencepost.core.trace import Ids
from fencepost.telemetry.metrics import NAMES


def test_a_trace_is_a_tree_and_a_document_of_the_same_spans(fencepost, db, started, lived):
    run = started("order_ticket", {"id": "8", "ends": "unknown"})
    lived(run)
    text = fencepost("trace", run, "--db", db)
    assert text.code == 0
    lines = text.out.splitlines()
    assert lines[0] == f"trace {Ids('default', run).trace} of run {run}"
    assert "decision: ask a person" in text.out
    said = fencepost("trace", run, "--db", db, "--json").json
    assert (said["trace"], said["run"]) == (Ids("default", run).trace, run)
    assert len(said["spans"]) == len(lines) - 1
    assert {"id", "parent", "name", "kind", "began_at", "ended_at", "status", "says", "attributes"} == set(
        said["spans"][0]
    )
    assert fencepost("trace", "none", "--db", db).code == 1


def test_a_hostile_name_moves_no_cursor_and_makes_no_line(fencepost, db, started):
    run = started("greet", "Ada")
    actor = "ann\u202e\x1b[2J\nroot"
    assert fencepost("cancel", run, "--by", actor, "--reason", "x", "--db", db).code == 0
    ended = fencepost("trace", run, "--db", db)
    assert not set("\u202e\x1b") & set(ended.out)
    assert len(ended.out.splitlines()) == 3
    assert "\\nroot" in ended.out


def test_metrics_are_what_prometheus_reads(fencepost, db, started, lived):
    lived(started("order_ticket", {"id": "8", "ends": "unknown"}))
    ended = fencepost("metrics", "--db", db)
    found = {one.name: one for one in text_string_to_metric_families(ended.out)}
    assert (ended.code, set(found)) == (0, set(NAMES))
    assert [one.value for one in found["fencepost_unknown_effects"].samples] == [1]


def test_health_without_a_worker_is_well_until_something_waits_for_one(fencepost, db, started, lived):
    lived(started("greet", "Ada"))
    idle = fencepost("health", "--db", db)
    assert (idle.code, "no worker holds a lease" in idle.out) == (0, True)
    started("greet", "Bob", run="waiting")
    left = fencepost("health", "--db", db, "--json")
    assert (left.code, left.json["well"], left.json["workers"]) == (3, False, [])
    assert left.json["waiting"] > 0
    assert "waiting" in fencepost("health", "--db", db).out


def test_a_ledger_that_is_not_there_is_not_made(fencepost, tmp_path):
    for command in (("metrics",), ("health",), ("trace", "r")):
        ended = fencepost(*command, "--db", str(tmp_path / "none.db"))
        assert ended.code not in (0, 3), json.dumps(command)
    assert not (tmp_path / "none.db").exists()
