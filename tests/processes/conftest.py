"""One world for all process tests, and a summary that names the eight fault tests and the fault points reached.

The harness itself is in `harness`.
"""

import re

import pytest

from fencepost.testing.world import World
from tests.processes.harness import Table, arrange
from tests.processes.nursery import Nursery

REACHED = pytest.StashKey[tuple[int, int]]()
"""How many fault points a process was killed at, of how many."""

_FAULT = re.compile(r"test_eight_faults\.py::test_(\d)_(\w+)")


@pytest.fixture(scope="session")
def outside(tmp_path_factory):
    with World.start(tmp_path_factory.mktemp("world")) as world:
        yield world


@pytest.fixture(scope="session")
def nursery():
    nursery = Nursery()
    yield nursery
    nursery.close()


@pytest.fixture
def table(outside, nursery, tmp_path_factory):
    arrange(outside)
    return Table(outside, nursery, tmp_path_factory.mktemp("ledgers"))


def pytest_terminal_summary(terminalreporter, config):
    """Name the eight fault tests with their results, and the share of fault points reached."""
    told = {}
    for outcome in ("passed", "failed", "error"):
        for report in terminalreporter.getreports(outcome):
            if (found := _FAULT.search(report.nodeid)) and report.when == "call":
                told.setdefault(found[1], []).append((outcome, found[2].replace("_", " ")))
    reached = config.stash.get(REACHED, None)
    if not told and reached is None:
        return
    terminalreporter.section("fault tests")
    for number in sorted(told):
        title = next((name for _, name in told[number] if not name.startswith("control")), told[number][0][1])
        passed = sum(outcome == "passed" for outcome, _ in told[number])
        verdict = "passed" if passed == len(told[number]) else "FAILED"
        terminalreporter.write_line(f"{number}. {title}: {verdict} ({passed} of {len(told[number])} tables)")
    if reached is not None:
        share = 100 * reached[0] / reached[1]
        terminalreporter.write_line(f"fault points reached: {reached[0]} of {reached[1]} ({share:.0f} %)")
