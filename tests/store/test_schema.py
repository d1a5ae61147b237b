"""The schema states what core states: the same lists, append-only tables, a reason beside every index and query."""

import re
import sqlite3
from enum import StrEnum
from pathlib import Path

import pytest

from fencepost.core import bulk, containment, proposals, schedule, states
from fencepost.core.epoch import GENERATIONS_PER_SECOND
from fencepost.store import queries
from fencepost.store.connection import StandardConnection
from fencepost.store.groups import KINDS
from fencepost.store.open import open_store
from tests.store import build

SCRIPTS = {
    dialect: "".join(script for _, _, script in queries.migrations(dialect)) for dialect in ("sqlite", "postgres")
}
TABLES = re.findall(r"^CREATE TABLE (\w+)", SCRIPTS["sqlite"], re.MULTILINE)

both = pytest.mark.parametrize("written", SCRIPTS)

LISTS: dict[tuple[str, str], type[StrEnum]] = {
    ("lease", "state"): states.LeaseState,
    ("run", "state"): states.RunState,
    ("step", "state"): states.StepState,
    ("operation", "state"): states.OperationState,
    ("attempt", "outcome"): states.Outcome,
    ("operation", "first_outcome"): states.Outcome,
    ("signal", "state"): states.SignalState,
    ("proposal", "state"): proposals.ProposalState,
    ("bulk", "state"): bulk.BulkState,
    ("bulk_run", "outcome"): bulk.BulkOutcome,
    ("containment", "kind"): containment.Kind,
    ("schedule", "overlap"): schedule.Overlap,
    ("schedule", "catch_up"): schedule.CatchUp,
}


def table(written: str, name: str) -> str:
    found = re.search(
        rf"CREATE TABLE (?:fencepost\.)?{name} \((.*?)^\)[^\n]*;", SCRIPTS[written], re.DOTALL | re.MULTILINE
    )
    assert found is not None
    return found[1]


def checks(text: str) -> list[str]:
    """What the CHECKs of a table say, comments and line breaks aside."""
    text, found, start = " ".join(re.sub(r"--[^\n]*", "", text).split()), [], 0
    while (start := text.find("CHECK (", start)) >= 0:
        end = depth = start + len("CHECK (")
        depth = 1
        while depth:
            depth += {"(": 1, ")": -1}.get(text[end], 0)
            end += 1
        found.append(re.sub(r"\s*([()=])\s*", r"\1", text[start:end]))
        start = end
    return found


def columns(text: str) -> list[str]:
    return re.findall(r"^    (?!CHECK|PRIMARY|UNIQUE|--)([a-z_]+) ", text, re.MULTILINE)


@both
@pytest.mark.parametrize(("name", "column"), LISTS)
def test_the_states_of_a_column_are_those_of_core(written: str, name: str, column: str) -> None:
    (found,) = [check for check in checks(table(written, name)) if check.startswith(f"CHECK({column} IN(")]
    assert set(re.findall(r"'([^']*)'", found)) == set(LISTS[name, column])


@both
def test_the_final_states_of_a_run_are_those_of_core(written: str) -> None:
    (found,) = [
        check for check in checks(table(written, "run")) if "=(ended_at IS NOT NULL)" in check.replace(" =", "=")
    ]
    assert set(re.findall(r"'([^']*)'", found)) == states.FINAL_RUN_STATES


@pytest.mark.parametrize("name", TABLES)
def test_both_databases_hold_the_same_columns_and_state_the_same_invariants(name: str) -> None:
    ours, theirs = table("sqlite", name), table("postgres", name)

    # Where SQLite has a row's own number, PostgreSQL has one that tells in which order rows came.
    assert [column for column in columns(theirs) if column != "no"] == [c for c in columns(ours) if c != "no"]
    assert sorted(checks(theirs)) == sorted(checks(ours))
    assert theirs.count("PRIMARY KEY") == ours.count("PRIMARY KEY")
    assert theirs.count("REFERENCES") == ours.count("REFERENCES")
    assert theirs.count("UNIQUE") == ours.count("UNIQUE") + (name == "audit")


def test_both_databases_know_the_same_queries() -> None:
    """But for copying from one to the other, and for what only several writers at a time need."""

    def names(dialect: str) -> set[str]:
        folder = Path(queries.__file__).parent / "sql" / dialect
        files = [file for file in folder.glob("*.sql") if file.name not in ("alone.sql", "copy.sql", "server.sql")]
        return {name for file in files for name in queries.read(file.read_text("utf-8"))}

    assert names("postgres") == names("sqlite")


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


@both
def test_every_index_has_a_sentence_beside_it(written: str) -> None:
    lines = SCRIPTS[written].splitlines()
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


@both
def test_every_query_is_used(written: str) -> None:
    folder = Path(queries.__file__).parent
    source = "".join(file.read_text("utf-8") for file in folder.glob("*.py"))

    def is_used(name: str) -> bool:
        """By its whole name, or by what stands before or behind another's: `f"copy_{table}"`, `f"{name}_alone"`."""
        begins, ends = f'f"{name.partition("_")[0]}_{{', f'}}_{name.rpartition("_")[2]}"'
        return f'"{name}"' in source or begins in source or ends in source

    assert [name for name in queries.load(written) if not is_used(name)] == []


@both
def test_every_update_of_a_move_names_state_and_generation(written: str) -> None:
    loaded = queries.load(written)
    for _, name in KINDS:
        statement = loaded[name].statement
        if "UPDATE" in statement:
            guard = re.split(r"WHERE (?:\w+\.)?(?:run|no) = ", statement)[-2:]
            assert "generation" in " ".join(guard), name
            assert "state" in statement.rpartition(" SET ")[2] or "outcome" in statement, name


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


def test_what_charts_read_is_bounded_by_the_numbers_of_runs(tmp_path: Path) -> None:
    open_store(str(tmp_path / "ledger.db")).close()
    connection = StandardConnection(str(tmp_path / "ledger.db"))
    loaded = queries.load("sqlite")
    for name in ("runs_lately", "first_attempts_lately", "further_attempts_lately"):
        query = loaded[name]
        plan = [
            row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {query.statement}", [0] * len(query.parameters))
        ]
        begins = [step for step in plan if re.match(r"(SCAN|SEARCH) (run|operation|attempt)\b.*", step)]
        assert re.search(r"\((rowid|run)>\?\)", begins[0]), (name, plan)
        assert not [step for step in plan if "TEMP B-TREE" in step or step == "SCAN run"], (name, plan)
    connection.close()


@both
def test_the_base_of_an_epoch_is_cores(written: str) -> None:
    written = [
        text
        for query in queries.load(written).values()
        for text in re.findall(r"max\(number\) \* (\d+)", query.statement)
    ]
    assert {int(text) for text in written} == {GENERATIONS_PER_SECOND}
    assert len(written) == 5


@both
def test_every_query_of_a_run_yields_the_same_columns(written: str) -> None:
    """They are read by place (`rows.run`)."""
    names = {"find_run", "load_run", "list_runs", "list_runs_in_state", "started_runs"}
    found = [query.statement for name, query in queries.load(written).items() if name in names]
    columns = {statement.removeprefix("SELECT ").partition(" FROM ")[0].replace("run.", "") for statement in found}

    assert len(found) == (5 if written == "postgres" else 4)
    assert len(columns) == 1, columns
