"""The closed loop keeps its clients busy, loses no run and hides no failure; the floor writes the rows of its shape."""

import asyncio
import json
import sqlite3
import threading
from contextlib import closing

import pytest

from bench import floor, modes
from bench.load import by_tasks, by_threads, emit_history, percentile
from bench.shape import STEP, Table, read


def test_as_many_threads_run_side_by_side_as_asked_for():
    together = threading.Barrier(5)  # it breaks, and raises, unless five come
    load = by_threads(lambda: together.wait(timeout=60), 5, 0.0)
    assert len(load.latencies) == 5


def test_as_many_tasks_run_side_by_side_as_asked_for():
    async def five_runs():
        arrived, all_there = [], asyncio.Event()

        async def run():
            arrived.append(1)
            if len(arrived) == 5:
                all_there.set()
            await all_there.wait()

        return await by_tasks(run, 5, 0.0)

    assert len(asyncio.run(five_runs()).latencies) == 5


def test_a_run_that_fails_fails_the_measurement():
    with pytest.raises(ZeroDivisionError):
        by_threads(lambda: 1 / 0, 3, 0.0)


@pytest.mark.parametrize(("share", "expected"), [(0.5, 50), (0.99, 99), (1.0, 100), (0.0, 1)])
def test_a_percentile_is_the_nearest_rank(share, expected):
    assert percentile([float(value) for value in range(100, 0, -1)], share) == expected


def test_a_history_is_measured_at_each_length(capsys):
    lengths = []
    emit_history("anyone", lengths.append)
    lines = [json.loads(row) for row in capsys.readouterr().out.splitlines()]
    assert [line["history"] for line in lines] == [10, 100, 1000]
    assert set(lengths) == {10, 100, 1000}


def test_a_line_is_read_as_it_was_printed_and_chatter_is_not_a_line(capsys):
    modes.emit("anyone", "idle", cpu_percent=0.5, seconds=3.0)
    row = capsys.readouterr().out
    assert modes.read(row) == {"peer": "anyone", "mode": "idle", "cpu_percent": 0.5, "seconds": 3.0}
    for chatter in ("", "Starting up", "[1]", '{"level": "info"}', '{"peer": "anyone", "mode": "idle"}'):
        assert modes.read(chatter) is None


@pytest.mark.parametrize("updates", [False, True])
def test_the_floor_leaves_the_rows_of_the_shape_and_reports_them(tmp_path, capsys, updates):
    shape = (Table("one", columns=8, size=80, rows=2, updates=1, unique=True), Table("other", columns=6, size=9))
    path = tmp_path / "floor.sqlite"
    floor.write(path, shape, 10, 0.0, updates=updates)
    line = json.loads(capsys.readouterr().out)
    assert line["rows_per_s"] == pytest.approx(line["steps_per_s"] * (4 if updates else 3))
    with closing(sqlite3.connect(path)) as connection:
        counts = [len(connection.execute(query).fetchall()) for query in ("SELECT * FROM one", "SELECT * FROM other")]
    assert counts == [20, 10]


def test_runs_move_on_after_their_ten_steps():
    batches = floor.steps_of_runs(2)
    first = [next(batches) for _ in range(modes.STEPS)]
    assert first[0] == [(0, 0), (1, 0)]
    assert first[-1] == [(0, 9), (1, 9)]
    assert next(batches) == [(2, 0), (3, 0)]


def test_a_shape_is_read_from_json():
    text = json.dumps([table._asdict() for table in STEP])
    assert read(text) == STEP


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "[1]",
        '[{"name": "a b", "columns": 8, "size": 1}]',
        '[{"name": "a", "columns": 5, "size": 1}]',
        '[{"name": "a", "columns": 8, "size": 1, "updates": 2}]',
        '[{"name": "a", "width": 8}]',
    ],
)
def test_a_shape_that_makes_no_table_is_refused(text):
    with pytest.raises(ValueError, match=r"JSON list|plain name|fields"):
        read(text)
