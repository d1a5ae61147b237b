"""The schema on a real server: append-only tables, statements that it takes, and plans that read no table whole."""

import json
import re

import psycopg
import pytest

from fencepost.store import queries
from fencepost.store.open import open_store
from fencepost.store.postgres_url import place_of
from tests.services.fixtures import Place
from tests.store import build

PLANNED = [
    "due_runs", "orphaned_runs", "next_due_run", "next_due_lease", "signalled_runs", "expire_leases", "load_run",
    "find_run", "operations_of", "steps_of", "attempts_of", "observations_of", "signals_of", "list_runs",
    "list_runs_in_state", "lock_runs", "new_operation", "succeed", "move_operation", "move_run", "open_step",
    "move_step", "settle_first", "dispatch_operation", "deliver_operation", "new_attempt", "settle_attempt",
    "move_signal", "waits_open_for", "signals_beside", "claim_run", "take_over_operations", "started_runs", "start_run",
]  # fmt: skip


@pytest.fixture
def inside(postgres: Place):
    """A connection of one's own to a ledger that has just been made, planning as the store's connections do."""
    open_store(postgres.url()).close()
    with psycopg.connect(place_of(postgres.url()).conninfo.decode(), autocommit=True) as connection:
        yield connection


@pytest.mark.parametrize("statement", ["UPDATE {} SET no = DEFAULT", "DELETE FROM {}", "TRUNCATE {}"])
@pytest.mark.parametrize("name", ["observation", "audit"])
def test_what_was_seen_and_who_did_what_cannot_be_changed(postgres: Place, inside, name: str, statement: str) -> None:
    store = open_store(postgres.url())
    run, _ = store.start_run(build.new_run())
    store.commit([build.group(run, seen=[build.seen(run)])], patience=1)
    store.audit(build.audit())
    store.close()
    with pytest.raises(psycopg.errors.IntegrityConstraintViolation, match="append-only"):
        inside.execute(statement.format(f"{postgres.schema}.{name}").encode())


def test_the_chain_of_the_audit_does_not_fork(postgres: Place, inside) -> None:
    store = open_store(postgres.url())
    first = store.audit(build.audit())
    store.audit(build.audit())
    columns = "at, actor, verb, namespace, run_id, reason, outcome, before, after"
    copied = f"INSERT INTO {postgres.schema}.audit ({columns}, previous, hash) SELECT {columns}, %s, 'x' FROM "  # noqa: S608 - our own names

    with pytest.raises(psycopg.errors.UniqueViolation):
        inside.execute(f"{copied}{postgres.schema}.audit LIMIT 1".encode(), [first.hash])
    store.close()


def prepared(inside, postgres: Place, name: str) -> tuple[str, list[str]]:
    """Prepare a query as the store does; what it is called then, and its parameters' types."""
    query = queries.load("postgres", postgres.schema)[name]
    inside.execute(f"PREPARE {name} AS {query.statement}".encode())
    types = inside.execute("SELECT parameter_types::text[] FROM pg_prepared_statements WHERE name = %s", [name])
    return name, types.fetchone()[0]


def test_the_server_takes_every_query(postgres: Place, inside) -> None:
    for name, query in queries.load("postgres", postgres.schema).items():
        assert query.purpose.endswith("."), name
        if not re.match(r"(LISTEN|LOCK|CREATE)\b", query.statement):
            _, types = prepared(inside, postgres, name)
            assert len(types) == len(query.parameters), name


@pytest.mark.parametrize("name", PLANNED)
def test_no_plan_reads_a_table_from_end_to_end(postgres: Place, inside, name: str) -> None:
    """Also not one that is made while the tables are empty, and kept while they grow."""
    _, types = prepared(inside, postgres, name)
    nothing = {"bigint": "0", "text": "'[]'", "json": "'[]'"}
    values = ", ".join(nothing.get(type_, "'{}'") for type_ in types)
    arguments = f"({values})" if types else ""
    (plan,) = inside.execute(f"EXPLAIN (FORMAT json) EXECUTE {name}{arguments}".encode()).fetchone()
    nodes = json.dumps(plan)
    assert "Index" in nodes
    found = re.findall(r'"Node Type": "Seq Scan"[^}]*?"Relation Name": "(\w+)"', nodes)
    # One row, one row a connection, and nearly always none.
    assert [relation for relation in found if relation not in ("epoch", "mark", "containment")] == []


def test_no_index_hangs_on_what_a_plain_success_changes(postgres: Place, inside) -> None:
    """Else every success would write a new entry into each index of its table, and not the one row alone."""
    of_indexes = """
        SELECT attname FROM pg_depend JOIN pg_index ON indexrelid = objid
        JOIN pg_attribute ON attrelid = refobjid AND attnum = refobjsubid
        WHERE indrelid = %s::regclass AND refobjid = indrelid
    """
    of_constraints = """
        SELECT attname FROM pg_constraint JOIN pg_attribute ON attrelid = conrelid AND attnum = ANY (conkey)
        WHERE conrelid = %s::regclass AND contype IN ('p', 'u')
    """
    operation = f"{postgres.schema}.operation"
    found = {name for each in (of_indexes, of_constraints) for (name,) in inside.execute(each, (operation,))}
    # A reference comes with a success, for those effects that declare one.
    assert found == {"run", "step", "item", "key", "approval", "conflict", "reference", "unknown_since"}
