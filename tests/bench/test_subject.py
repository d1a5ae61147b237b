"""The subject is measured honestly: intents come first, the ceiling writes the engine's own rows, modes print lines."""

import asyncio
import sqlite3
import sys
from contextlib import closing
from pathlib import Path

import pytest

from bench import ceiling, floor
from bench.child import Contestant, Job, run
from bench.place import place
from bench.shape import STEP
from bench.witness import SAMPLE, Witness
from bench.work import one_run, working
from fencepost.store.api import Answer, Group
from fencepost.store.moves import NewOperation, Succeed


def intent(key):
    plain = NewOperation(
        1, 1, "running", "pay", "", "pay", 1, key, 1, "", "{}", "print", None, None, "dispatched", 1, 1, None, None, 1
    )
    return Group(1, 1, [plain])


# -- the witness ------------------------------------------------------------------------------------------------------


def test_a_body_after_its_commit_is_counted_and_no_violation():
    witness = Witness()
    witness.committed([intent("a")], [Answer.MOVED])
    witness.body_begins("a")
    assert witness.testimony() == (1, 1, 0, 0)


@pytest.mark.parametrize("outcome", [Answer.STALE, Answer.ILLEGAL, Answer.DUPLICATE])
def test_a_body_whose_intent_was_refused_is_a_violation(outcome):
    witness = Witness()
    witness.committed([intent("a")], [outcome])
    witness.body_begins("a")
    assert witness.testimony().violations == 1


def test_a_second_body_for_one_dispatch_is_a_violation():
    witness = Witness()
    witness.committed([intent("a")], [Answer.MOVED])
    witness.body_begins("a")
    witness.body_begins("a")
    assert witness.testimony() == (1, 2, 0, 1)


def test_an_intent_that_others_cannot_see_is_a_violation(tmp_path):
    where = place(tmp_path)
    with closing(sqlite3.connect(where.path)) as connection:
        connection.execute("CREATE TABLE operation (key TEXT, state TEXT)")
    witness = Witness()
    witness.watch(where)
    for number in range(SAMPLE):
        witness.committed([intent(str(number))], [Answer.MOVED])
        witness.body_begins(str(number))
    assert witness.testimony() == (SAMPLE, SAMPLE, 0, 1)
    witness.close()


def test_the_witness_hears_of_the_engines_commits_before_the_bodies_begin(tmp_path):
    told = []

    async def ten_steps():
        async with working(
            place(tmp_path), lambda groups, outcomes: told.extend(zip(groups, outcomes, strict=True))
        ) as app:
            await one_run(app)

    asyncio.run(ten_steps())
    groups = [(entry, outcome) for entry, outcome in told if isinstance(entry, Group)]
    assert all(outcome is Answer.MOVED for _, outcome in groups)
    intents = [move for group, _ in groups for move in group.moves if isinstance(move, NewOperation)]
    assert [move.item for move in intents] == [str(number) for number in range(10)]


# -- the ceiling ------------------------------------------------------------------------------------------------------


def test_the_ceiling_replays_the_engines_own_groups(tmp_path):
    recorded = asyncio.run(ceiling.moves_of_a_run(place(tmp_path)))
    kinds = [[type(move) for move in moves] for moves in recorded]
    begin, end = [NewOperation], [Succeed]
    assert kinds == [begin, *[end + begin] * 9, end]


def test_the_ceiling_leaves_the_rows_that_the_engine_leaves(tmp_path):
    recorded = asyncio.run(ceiling.moves_of_a_run(place(tmp_path)))
    bare = ceiling.BareJournal(place(tmp_path).beside("bare"))
    try:
        asyncio.run(ceiling.steps_per_second(bare, recorded, 3, 0.0))
    finally:
        bare.close()
    # The tenth step's end waits for the first commit of the runs that would follow.
    assert states(tmp_path / "bare.sqlite") == [("dispatched", 3), ("succeeded", 27)]
    assert states(place(tmp_path).path) == [("succeeded", 10)]


def states(path):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT state, count(*) FROM operation GROUP BY state ORDER BY state").fetchall()


# -- the shape --------------------------------------------------------------------------------------------------------

_NOT_IN_THE_SIZE = {"key", "run", "step", "item", "number"}
_BYTES_OF_AN_INSTANT = 8


def test_the_shape_is_that_of_the_rows_that_a_step_leaves(tmp_path):
    async def ten_steps():
        async with working(place(tmp_path)) as app:
            await one_run(app)

    asyncio.run(ten_steps())
    with closing(sqlite3.connect(place(tmp_path).path)) as connection:
        connection.row_factory = sqlite3.Row
        left = {
            "operation": connection.execute("SELECT * FROM operation").fetchall(),
            "attempt": connection.execute("SELECT * FROM attempt").fetchall(),
            "observation": connection.execute("SELECT * FROM observation").fetchall(),
            "step": connection.execute("SELECT * FROM step").fetchall(),
        }
        # What is made from other columns is not written, and not in this list.
        columns = "SELECT name FROM pragma_table_info(?)"
        written = {name: connection.execute(columns, (name,)).fetchall() for name in left}
    assert {name for name, rows in left.items() if rows} == {table.name for table in STEP}
    for table in STEP:
        rows = left[table.name]
        assert len(rows) == 10 * table.rows
        assert len(written[table.name]) == table.columns
        assert sum(map(stored, rows)) / len(rows) == pytest.approx(table.size, rel=0.15)


def stored(row):
    """Bytes of a row beside its key: text as it is, an instant as eight, small numbers as nothing."""
    values = [row[name] for name in row.keys() if name not in _NOT_IN_THE_SIZE]  # noqa: SIM118 - a Row iterates values
    texts = sum(len(value) for value in values if isinstance(value, str))
    return texts + sum(_BYTES_OF_AN_INSTANT for value in values if isinstance(value, int) and value > 2**32)


def test_the_floors_digests_are_long_and_differ():
    table = STEP[0]
    tokens = {row[3] for row in floor.writer(table).inserted([(run, step) for run in range(50) for step in range(10)])}
    assert len(tokens) == 500
    assert {len(token) for token in tokens} == {64}


# -- the modes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["ten", "ceiling", "history", "idle", "recovery", "wake"])
def test_a_mode_prints_its_lines(tmp_path, mode):
    subject = Contestant("fencepost", "subject", Path(sys.executable))
    answer = run(Job(subject, mode, 1), tmp_path, seconds=0.0, patience=100.0)
    assert answer.refusal is None
    figures = [line for line in answer.lines if line["mode"] == mode]
    assert len(figures) == (1 if mode in {"idle", "recovery", "wake"} else 3)
    if mode == "recovery":
        assert figures[0]["runs"] == 100
    if mode == "ten":
        about = answer.lines[-1]
        assert about["settings"] == "journal_mode=wal, synchronous=FULL"
        assert "durable" in about["note"]
