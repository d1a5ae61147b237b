"""The table on PostgreSQL names the fastest peer at each concurrency and sets each aim beside its figure."""

import pytest

from bench.peers_table import ONCE, fastest, render
from bench.table import Figures, Heading

HEADING = Heading("quick", 3, 3, 1.0, "3.11.7", "PostgreSQL 15.18 (fsync=on)", "Linux", 2, "ext4")


def ten(peer, round_, rate, concurrency=100):
    line = {"peer": peer, "mode": "ten", "round": round_, "concurrency": concurrency, "steps_per_s": rate}
    return {**line, "runs": 7, "seconds": 1.0}


def once(peer, mode, **fields):
    return {"peer": peer, "mode": mode, "round": 0, **fields}


def test_the_fastest_peer_is_found_at_each_concurrency():
    lines = [ten("absurd", 1, 800.0), ten("restate", 1, 600.0), ten("restate", 1, 900.0, 10), ten("absurd", 1, 1.0, 10)]
    figures = Figures(lines)
    assert [fastest(figures, at).label for at in (10, 100)] == ["restate", "absurd"]
    assert fastest(figures, 1) is None


def test_the_ratio_to_the_fastest_is_taken_inside_the_rounds():
    lines = [ten("fencepost", 1, 9000.0), ten("absurd", 1, 900.0), ten("fencepost", 2, 900.0), ten("absurd", 2, 90.0)]
    row = next(row for row in render(HEADING, lines) if row.startswith("  fencepost / the fastest"))
    assert row.endswith("absurd 10.0x (aim 10x)")


def test_a_latency_that_a_peer_cannot_tell_is_a_dash():
    rows = list(render(HEADING, [ten("absurd", 1, 800.0)]))
    latencies = rows[next(n for n, row in enumerate(rows) if row.startswith("a run's latency")) :]
    assert next(row for row in latencies if row.startswith("  absurd")).split() == ["absurd", "-", "-", "-"]


def test_what_nobody_counts_is_a_dash():
    cost = {"concurrency": 1, "steps": 10, "commits": 1.2, "wal_syncs": 1.1, "wal_bytes": 9.0, "table_bytes": 9.0}
    rows = list(render(HEADING, [once("fencepost", "cost", statements=-0.1, **cost)]))
    assert next(row for row in rows if "statements a step" in row).split()[4] == "-"
    assert next(row for row in rows if "commits a step" in row).split()[4] == "1.20"


@pytest.mark.parametrize("label", [row.label for row in ONCE if row.aim])
def test_an_aim_stands_beside_its_figure(label):
    row = next(row for row in render(HEADING, []) if row.startswith(f"  {label}"))
    assert row.endswith(next(wanted.aim for wanted in ONCE if wanted.label == label))


def test_what_only_fencepost_is_asked_for_is_said_in_a_sentence():
    rows = list(render(HEADING, [once("fencepost", "recovery", runs=1000, seconds=4.2, lease_seconds=1.8)]))
    assert "fencepost, recovery of in-flight runs after SIGKILL: 1,000 runs, 4.20 s, of which lease 1.80 s" in rows
    assert "fencepost, beside waiting runs: -" in rows
