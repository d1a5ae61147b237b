"""A step that is alone in its commit is written by statements of its own: they say the same as those for a batch."""

from __future__ import annotations

import re

from fencepost.store import queries

NAMED = queries.load("postgres")
ALONE = sorted(name for name in NAMED if name.endswith("_alone"))


def test_each_is_told_the_same_as_its_namesake() -> None:
    for name in ALONE:
        alone, batch = NAMED[name], NAMED[name.removesuffix("_alone")]
        assert set(alone.parameters) == set(batch.parameters), name


def test_each_writes_the_same_columns_and_asks_the_same_of_them() -> None:
    assert ALONE == ["new_operation_alone", "succeed_alone"]
    for name in ALONE:
        alone, batch = NAMED[name].statement, NAMED[name.removesuffix("_alone")].statement
        assert _written(alone) == _written(batch), name
        assert _literals(alone) == _literals(batch), name


def _written(statement: str) -> list[str]:
    """The columns of an INSERT, or those that an UPDATE sets."""
    inserted = re.search(r"INSERT INTO [\w.]+ \(([^)]*)\)", statement)
    if inserted:
        return [column.strip() for column in inserted[1].split(",")]
    body = statement[statement.index(" SET ") : statement.index(" WHERE ")]
    return re.findall(r"(\w+) = (?!\s*\d)", body)


def _literals(statement: str) -> list[str]:
    """Every state and outcome that it names: its guards, and what it sets."""
    return sorted(re.findall(r"'[a-z ]+'", statement))
