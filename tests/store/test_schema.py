"""The schema states what core states: the same lists, append-only tables, a reason beside every index and query."""

import re
import sqlite3
from enum import StrEnum
from pathlib import Path

import pytest

from fencepost.core import states
from fencepost.core.epoch import GENERATIONS_PER_SECOND
from fencepost.store import queries
from fencepost.store.connection import StandardConnection
from fencepost.store.groups import KINDS
from fencepost.store.open import open_store
from tests.store import build

SCRIPT = "".join(script for _, _, script in queries.migrations("sqlite"))

LISTS: dict[tuple[str, str], type[StrEnum]] = {
    ("lease", "state"): states.LeaseState,
    ("run", "state"): states.RunState,
    ("step", "state"): states.StepState,
    ("operation", "state"): states.OperationState,
    ("attempt", "outcome"): states.Outcome,
    ("operation", "first_outcome"): states.Outcome,
    ("signal", "state"): states.SignalState,
}


def table(name: str) -> str:
    found = re.search(rf"CREATE TABLE {name} \((.*?)^\) STRICT", SCRIPT, re.DOTALL | re.MULTILINE)
    assert found is not None
    return found[1]


@pytest.mark.parametrize(("name", "column"), LISTS)
def test_the_states_of_a_column_are_those_of_core(name: str, column: str) -> None:
    found = re.search(
        rf"^    {column} TEXT(?: NOT NULL)?.*?CHECK \({column} IN \((.*?)\)\)", table(name), re.DOTALL | re.MULTILINE
    )
    assert found is not None
    assert set(re.findall(r"'([^']*)'", found[1])) == set(LISTS[name, column])


def test_the_final_states_of_a_run_are_those_of_core() -> None:
    found = re.search(r"CHECK \(\(state IN \((.*?)\)\) = \(ended_at IS NOT NULL\)\)", table("run"), re.DOTALL)
    assert found is not None
    assert set(re.findall(r"'([^']*)'", found[1])) == states.FINAL_RUN_STATES


@pytest.mark.parametrize("name", ["observation", "audit"])
@pytest.mark.parametrize("statement", ["UPDATE {} SET no = no", "DELETE FROM {}"])
def test_what_was_seen_and_who_did_what_cannot_be_changed(tmp_path: Path, name: str, statement: str) -> None:
    store = open_store(str(tmp_path / "ledger.db"))
    run, _ = store.start_run(build.new_run())
    store.commit([build.group(run, seen=[build.seen(run)])], patience=1)
    store.audit(build.audit())
    store.close()
    inside = sqlite3.connect(tmp_path / "ledger.db")

    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        inside.execute(statement.format(name))
    inside.close()


def test_every_index_has_a_sentence_beside_it() -> None:
    lines = SCRIPT.splitlines()
    for number, line in enumerate(lines):
        if line.startswith(("CREATE INDEX", "CREATE TABLE")):
            assert lines[number - 1].startswith("-- "), line


def test_every_query_has_a_purpose_and_is_valid_sql(tmp_path: Path) -> None:
    open_store(str(tmp_path / "ledger.db")).close()
    connection = StandardConnection(str(tmp_path / "ledger.db"))
    for query in queries.load("sqlite").values():
        assert query.purpose.endswith("."), query.name
        assert query.statement.count("?") == len(query.parameters)
        connection.execute(f"EXPLAIN {query.statement}", [None] * len(query.parameters))
    connection.close()


def test_every_query_is_used() -> None:
    folder = Path(queries.__file__).parent
    source = "".join(file.read_text("utf-8") for file in folder.glob("*.py"))
    assert [name for name in queries.load("sqlite") if f'"{name}"' not in source] == []


def test_every_update_of_a_move_names_state_and_generation() -> None:
    loaded = queries.load("sqlite")
    for _, name in KINDS:
        statement = loaded[name].statement
        if statement.startswith("UPDATE"):
            guard = statement.rpartition(" WHERE run")[2] or statement.rpartition(" WHERE no")[2]
            assert "generation" in guard, name
            assert "state" in guard or "outcome" in guard, name


def test_claims_read_no_table_from_end_to_end(tmp_path: Path) -> None:
    open_store(str(tmp_path / "ledger.db")).close()
    connection = StandardConnection(str(tmp_path / "ledger.db"))
    loaded = queries.load("sqlite")
    for name in ("due_runs", "orphaned_runs", "next_due_run", "next_due_lease", "signalled_runs", "expire_leases"):
        query = loaded[name]
        plan = connection.execute(f"EXPLAIN QUERY PLAN {query.statement}", [0] * len(query.parameters))
        scans = [row[3] for row in plan if re.match(r"SCAN (run|lease|operation|step|signal)\b", row[3])]
        assert all("INDEX" in scan for scan in scans), (name, scans)
    connection.close()


def test_the_base_of_an_epoch_is_cores() -> None:
    written = [
        text
        for query in queries.load("sqlite").values()
        for text in re.findall(r"max\(number\) \* (\d+)", query.statement)
    ]
    assert {int(text) for text in written} == {GENERATIONS_PER_SECOND}
    assert len(written) == 4
