"""A plot has a bar for each figure and for nothing else, and the pages on speed hold one committed result."""

import json
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from bench.plots import PLOTS, Bar, draw

DOCS = Path(__file__).resolve().parents[2] / "docs"
HEADING = {
    "mode": "quick", "rounds": 3, "rounds_planned": 3, "seconds": 1.0, "python": "3.11.7",
    "database": "PostgreSQL 15.18", "system": "Linux", "cores": 2, "file_system": "ext4",
}  # fmt: skip


def ten(peer, rate, concurrency):
    line = {"peer": peer, "mode": "ten", "round": 1, "concurrency": concurrency, "steps_per_s": rate}
    return {**line, "runs": 7, "seconds": 1.0, "p50_ms": 2.0, "p99_ms": 3.0}


def bars(svg):
    """Widths of the bars; the first rectangle is the background."""
    return [float(rect.attrib["width"]) for rect in ET.fromstring(svg).iter("{http://www.w3.org/2000/svg}rect")][1:]  # noqa: S314 - ours


def test_bars_stand_on_a_logarithmic_scale():
    ten_times, hundred_times = bars(draw("t", {"g": [Bar("a", 10.0, "#000"), Bar("b", 100.0, "#000")]}, "{:g}"))
    one, two, three = bars(draw("t", {"g": [Bar(str(n), 10.0**n, "#000") for n in (1, 2, 3)]}, "{:g}"))
    assert ten_times < hundred_times
    assert three - two == pytest.approx(two - one, abs=1.5)


def test_who_has_no_figure_has_no_bar():
    svg = PLOTS["throughput"]([ten("fencepost", 5000.0, 100), ten("dbos", 200.0, 100)])
    assert len(bars(svg)) == 2
    assert "absurd" not in svg


@pytest.mark.parametrize("name", PLOTS)
def test_a_plot_without_figures_says_so(name):
    assert "nothing was measured" in PLOTS[name]([])


def test_names_are_written_as_text():
    assert "a &lt; b" in draw("a < b", {"g": [Bar("x", 1.0, "#000")]}, "{:g}")


def test_the_pages_on_speed_hold_a_committed_result_and_nothing_without_one(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(DOCS))
    monkeypatch.delitem(sys.modules, "speed", raising=False)
    import speed

    assert speed.pages(tmp_path / "missing.json") == {}
    result = tmp_path / "postgres.json"
    lines = [ten("fencepost", 5000.0, 100), ten("dbos", 200.0, 100)]
    result.write_text(json.dumps({"heading": HEADING, "lines": lines, "skipped": {"temporal ten": "no"}}), "utf-8")
    made = {name: make() for name, make in speed.pages(result).items()}
    assert made.keys() == {"speed/README.md", "speed/throughput.svg", "speed/latency.svg", "speed/wake.svg"}
    assert "dbos 25.0x" in made["speed/README.md"]
    assert "- temporal ten: no" in made["speed/README.md"]
