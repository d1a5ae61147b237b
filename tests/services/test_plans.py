"""Every hot query reads the rows that it is about and no others, however many runs wait beside them."""

import asyncio
import json
from collections.abc import Iterator

import pytest

from bench.million import fill, one_waiting
from bench.place import Place
from fencepost.store import queries
from fencepost.store.api import NewRun
from fencepost.store.open import open_store
from fencepost.store.postgres_connection import PostgresConnection
from fencepost.store.postgres_open import connection_to
from fencepost.store.postgres_url import place_of

RUNS = 20_000
ROWS_MAX = 60
"""Rows that one hot query may read, whatever it is asked; a few of each table that it looks into."""

FAR = 2**62
NOBODY = "no-such-lease"
OF_WORKFLOW = {"namespace": "default", "workflows": json.dumps([["approval", 1]])}
ANY = {
    "namespace": "default", "workflow": None, "prefix": None, "since": None, "until": None, "held_for": None,
    "error": None, "step": None, "retrying": 0, "most": 50, "limit": 10,
}  # fmt: skip
HOT = {
    "due_runs": {"now": 0, "limit": 10, **OF_WORKFLOW},
    "next_due_run": OF_WORKFLOW,
    "next_due_lease": {"margin": 0, **OF_WORKFLOW},
    "orphaned_runs": {"limit": 10, **OF_WORKFLOW},
    "signalled_runs": {"lease": NOBODY},
    "expire_leases": {"now": 0, "margin": 0},
    "lease_is_live": {"lease": NOBODY},
    "renew_lease": {"lease": NOBODY, "now": 1, "expires_at": 2, "seen": 0, "carries": None},
    "claim_run": {
        "lease": NOBODY, "now": 1, "run": 2, "generation": -1, "expected": "waiting", "takeovers": 0, "answers": 0,
    },
    "take_over_operations": {"generation": -1, "now": 1, "run": 2},
    "load_run": {"run": 2},
    "children_of": {"run": 2},
    "unknown_below": {"run": 2},
    "find_run": {"namespace": "default", "id": "waiting-7"},
    "lock_run": {"run": 2},
    "lock_family": {"run": 2},
    "lock_runs": {"runs": "{2,3,4}"},
    "waits_open_for": {"namespace": "default", "run_id": "waiting-7", "name": "approved"},
    "signals_beside": {"namespace": "default", "run_id": "waiting-7", "name": "approved", "id": "s"},
    "wake_run": {"now": 1, "namespace": "default", "run_id": "waiting-7", "id": "s"},
    "find_signal": {"namespace": "default", "run_id": "waiting-7", "id": "s"},
    "steps_of": {"run": 2},
    "operations_of": {"run": 2},
    "attempts_of": {"run": 2},
    "observations_of": {"run": 2},
    "signals_of": {"run": 2},
    "latest_time": {},
    "runs_lately": {"namespace": "default", "runs": 20, "limit": 20},
    "first_attempts_lately": {"namespace": "default", "runs": 20, "limit": 20},
    "further_attempts_lately": {"namespace": "default", "runs": 20, "limit": 20},
    "list_runs": {"namespace": "default", "after": FAR, "workflow": None, "prefix": None, "limit": 50},
    "list_runs_in_state": {
        "namespace": "default", "state": "waiting", "after": FAR, "workflow": None, "prefix": None, "limit": 50,
    },
    "session_with": {"digest": NOBODY},
    "account_of": {"namespace": "default", "person": "ann"},
    "runs_with_key": {"namespace": "default", "key": "no-such-key", "limit": 50, "most": 50},
    "runs_with_reference": {"namespace": "default", "reference": "no-such-reference", "limit": 50},
    "unknown_effects": {"namespace": "default", "limit": 20},
    "held_by_reason": {"namespace": "default", "most": 50},
    "failed_by_error": {"namespace": "default", "most": 50},
    "count_in_states": {"namespace": "default", "states": json.dumps(["waiting", "failed"]), "most": 50},
    "queue_lengths": {"namespace": "default", "now": 0},
    "alert_unknown_effects": {"namespace": "default", "now": 0},
    "alert_queue_age": {"namespace": "default", "now": 0},
    "search_runs": {**ANY, "after": FAR},
    "search_runs_in_state": {**ANY, "after": FAR, "state": "held"},
    "searched_down_to": {"namespace": "default", "after": FAR, "most": 50},
    "searched_down_to_in_state": {"namespace": "default", "state": "held", "after": FAR, "most": 50},
}  # fmt: skip


@pytest.fixture(scope="module")
def crowded(postgres_server, tmp_path_factory) -> Iterator[str]:
    """The url of a ledger with many waiting runs, half of them with a time far ahead."""
    where = Place("crowded", tmp_path_factory.mktemp("crowded"), postgres_server.url())
    like = asyncio.run(one_waiting(where))
    with where.seen() as eye:
        fill(eye, like, RUNS)
    return where.url


@pytest.fixture
def connection(crowded) -> Iterator[PostgresConnection]:
    """A connection as the store makes them, with what it has set for its plans."""
    made = connection_to(place_of(crowded), 10.0, prepares=False)
    yield made
    made.close()


@pytest.mark.parametrize("name", HOT)
def test_a_hot_query_reads_what_it_is_about(connection, name):
    query = queries.load("postgres", "crowded")[name]
    values = ", ".join(literal(HOT[name][parameter]) for parameter in query.parameters)
    connection.execute(f"PREPARE hot AS {query.statement.rstrip(';')}")
    call = f"EXECUTE hot ({values})" if query.parameters else "EXECUTE hot"
    answer = connection.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {call}")[0][0]
    plan = json.loads(answer)[0]["Plan"]
    read = list(scanned(plan))
    assert sum(rows for _, rows in read) <= ROWS_MAX, f"{name} reads {read}"


def test_the_crowd_is_there(connection):
    assert connection.execute("SELECT count(*) > 20000 FROM crowded.run WHERE state = 'waiting'") == [(True,)]
    assert connection.execute("SELECT count(*) FROM crowded.run WHERE wake_at IS NOT NULL") == [(RUNS // 2,)]


def test_statements_planned_for_an_empty_ledger_are_planned_again_as_it_grows(postgres):
    store = open_store(postgres.url(connections=1))
    try:
        for batch in range(80):
            started = [new_run(f"run-{batch}-{number}", store.now()) for number in range(50)]
            store.commit(started, patience=10.0)
        query = queries.load("postgres", postgres.schema)["start_run"]
        (mine,) = store._pool._free
        name = mine._prepared[query.statement].decode()
        values = ", ".join("'{}'" for _ in query.parameters)
        (answer,) = mine.execute(f"EXPLAIN (FORMAT JSON) EXECUTE {name} ({values})")[0]
    finally:
        store.close()
    assert "run_namespace_id_turn_key" in indexes(json.loads(answer)[0]["Plan"])


def new_run(id_, at) -> NewRun:
    """A run that nobody owns yet."""
    return NewRun("default", id_, "approval", 1, None, "{}", "print", None, None, at, at)


def indexes(node) -> list[str]:
    """The indexes that a plan uses."""
    own = [node["Index Name"]] if "Index Name" in node else []
    return own + [name for inner in node.get("Plans", []) for name in indexes(inner)]


def scanned(node) -> Iterator[tuple[str, int]]:
    """The tables that a plan reads, and how many rows of each it takes into its hand."""
    if "Relation Name" in node:
        rows = (
            node["Actual Rows"] + node.get("Rows Removed by Filter", 0) + node.get("Rows Removed by Index Recheck", 0)
        )
        yield f"{node['Relation Name']} by {node.get('Index Name', node['Node Type'])}", rows * node["Actual Loops"]
    for inner in node.get("Plans", []):
        yield from scanned(inner)


def literal(value) -> str:
    """A parameter as it is written in a statement."""
    if value is None:
        return "NULL"
    return str(value) if isinstance(value, int) else "'" + value.replace("'", "''") + "'"
