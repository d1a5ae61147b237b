"""Prints the compensation matrix below the tests that have played it; processes come from tests/processes."""

import pytest

from tests.processes.conftest import nursery, outside, table

__all__ = ["nursery", "outside", "table"]

TABLES = pytest.StashKey[dict[str, list[str]]]()
"""The lines of each table that was played, by its database."""


def pytest_terminal_summary(terminalreporter, config):
    """The table, as `make compensation` prints it."""
    for database, told in config.stash.get(TABLES, {}).items():
        terminalreporter.section(f"compensation matrix on {database}")
        for line in told:
            terminalreporter.write_line(line)
