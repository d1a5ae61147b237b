"""The table says what the lines hold: medians of the rounds, ratios inside a round, and "-" for what is missing."""

import pytest

from bench.table import CEILING, INSERT, SUBJECT, Figures, Heading, Source, render

DBOS = Source("dbos", "dbos", "ten")
HEADING = Heading("quick", 3, 3, 1.0, "3.11.7", "3.40.1", "Linux", 2, "ext4")


def ten(peer, round_, rate, concurrency=1, mode="ten"):
    timing = {"runs": 7, "p50_ms": 1.5, "p99_ms": 2.5, "seconds": 1.0}
    return {"peer": peer, "mode": mode, "round": round_, "concurrency": concurrency, "steps_per_s": rate, **timing}


def test_a_rate_is_the_median_of_the_rounds():
    figures = Figures([ten("dbos", 1, 10.0), ten("dbos", 2, 90.0), ten("dbos", 3, 20.0)])
    assert figures.middle(DBOS, "steps_per_s", concurrency=1) == 20.0


def test_a_ratio_compares_only_figures_of_the_same_round():
    # The machine is ten times faster in round 2. Ratios of medians over all rounds would say 5.5 and more.
    lines = [ten("fencepost", 1, 50.0), ten("dbos", 1, 10.0), ten("fencepost", 2, 500.0), ten("dbos", 2, 100.0)]
    assert Figures(lines).ratio(SUBJECT, DBOS, 1) == 5.0
    assert Figures([*lines, ten("fencepost", 3, 9000.0)]).ratio(SUBJECT, DBOS, 1) == 5.0


@pytest.mark.parametrize("lines", [[], [ten("fencepost", 1, 5.0)], [ten("fencepost", 1, 5.0), ten("dbos", 2, 5.0)]])
def test_a_ratio_without_two_figures_of_one_round_is_missing(lines):
    assert Figures(lines).ratio(SUBJECT, DBOS, 1) is None


def test_a_figure_at_another_concurrency_is_not_taken():
    assert Figures([ten("dbos", 1, 5.0, concurrency=10)]).middle(DBOS, "steps_per_s", concurrency=1) is None


def test_the_table_prints_a_dash_for_everything_that_is_missing():
    rows = "\n".join(render(HEADING, []))
    assert "fencepost / dbos" in rows
    assert "None" not in rows
    assert "langgraph" in rows.split("ratios")[0]


def test_the_table_sets_each_ratio_beside_its_aim():
    lines = [
        ten("fencepost", 1, 20500.0, 100),
        ten("dbos", 1, 500.0, 100),
        ten("fencepost", 1, 41000.0, 100, "ceiling"),
    ]
    rows = list(render(HEADING, lines))
    assert any(row.startswith("  fencepost / dbos") and row.endswith("41.0x (aim 40x)") for row in rows)
    assert any(row.startswith("  fencepost / ceiling") and row.endswith("50% (aim 30%)") for row in rows)
    assert Figures(lines).ratio(CEILING, INSERT, 100) is None


def test_the_table_warns_of_a_file_system_in_memory():
    assert any("in memory" in row for row in render(HEADING._replace(file_system="tmpfs"), []))


def test_the_table_says_when_the_time_was_up_before_all_rounds():
    assert "2 interleaved rounds of 3" in next(render(HEADING._replace(rounds=2), []))
