"""The compensation matrix, order by failure by unknown, counted at the world; and that a wrong square is seen."""

import asyncio

import pytest

from fencepost.runtime import compensating, undoing
from tests.compensation.cells import CELLS, SHAPES, UNDO_REFUSED, WELL, Came, Cell, faults
from tests.compensation.conftest import TABLES
from tests.compensation.matrix import failures, lines
from tests.compensation.play import play


def test_every_square_of_order_failure_and_unknown_is_right_at_the_world(url, dialect, request):
    came, contradictions = asyncio.run(play(url, CELLS))
    told = request.config.stash.setdefault(TABLES, {})
    told[dialect] = [*lines(came)]
    assert failures(came) == []
    assert contradictions == []
    assert len(came) == 269


def test_control_without_holding_back_what_a_failed_one_rests_on_the_squares_are_wrong(url, monkeypatch):
    monkeypatch.setattr(compensating, "holds_back", lambda *_: False)
    played = [cell for cell in CELLS if cell.trouble == UNDO_REFUSED and cell.starter == "declared"]
    came, _ = asyncio.run(play(url, played))
    wrong = {cell.place for cell, one in came.items() if cell.shape.rests and faults(cell, one)}
    assert wrong == {"b", "c", "d"}


def test_control_without_asking_the_policy_what_it_forbids_is_undone(url, monkeypatch):
    monkeypatch.setattr(undoing, "_verdict", lambda *_: None)
    played = [cell for cell in CELLS if cell.trouble == "undo: its policy refuses"]
    came, _ = asyncio.run(play(url, played))
    assert len(failures(came)) == len(played)


@pytest.mark.parametrize(
    ("came", "says"),
    [
        (Came({"a": 1, "b": 1, "c": 1}, {"a": 1, "b": 2, "c": 1}, ["c", "b", "b", "a"], "compensated"), "undone twice"),
        (Came({"a": 2, "b": 1, "c": 1}, {"a": 1, "b": 1, "c": 1}, ["c", "b", "a"], "compensated"), "stands twice"),
        (Came({"a": 1, "b": 1, "c": 1}, {"a": 1, "b": 1, "c": 1}, ["b", "c", "a"], "compensated"), "in the order bca"),
        (Came({"a": 1, "b": 1, "c": 1}, {"c": 1, "b": 1}, ["c", "b"], "compensated"), "the run is compensated"),
        (Came({"a": 1, "b": 1, "c": 1}, {"a": 1, "b": 1, "c": 1}, ["c", "b", "a"], "succeeded"), "is succeeded"),
        (Came({"a": 1}, {"a": 1}, ["b", "a"], "compensated"), "never there"),
    ],
)
def test_a_square_that_came_out_wrong_is_called_wrong(came, says):
    assert any(says in why for why in faults(Cell(SHAPES[1], WELL, "", "person"), came))
