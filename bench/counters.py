"""Reads what a piece of work cost PostgreSQL from the server's own statistics: statements, commits, syncs, bytes.

A session publishes its counters when it ends, so that whoever is measured closes its connections before the second
look. The looks go through another database, and are not counted themselves. Nothing else runs on the server meanwhile
but its own autovacuum.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg.conninfo import conninfo_to_dict

from bench.modes import emit

_COMMITS = "SELECT xact_commit FROM pg_stat_database WHERE datname = %(name)s"
_WAL = "SELECT wal_sync, wal_bytes::bigint FROM pg_stat_wal"
_BYTES = "SELECT pg_database_size(%(name)s)"
_IS_COUNTED = "SELECT count(*) FROM pg_extension WHERE extname = 'pg_stat_statements'"
_STATEMENTS = """
    SELECT coalesce(sum(calls), 0)::bigint FROM pg_stat_statements
    WHERE dbid = (SELECT oid FROM pg_database WHERE datname = %(name)s) AND toplevel
"""

Spent = dict[str, int]
"""`statements` (-1 where nobody counts them), `commits`, `wal_syncs`, `wal_bytes`, `table_bytes`."""


def _look(url: str) -> Spent:
    name = {"name": conninfo_to_dict(url)["dbname"]}
    with psycopg.connect(url, dbname="postgres", autocommit=True) as connection:

        def one(question: str) -> tuple[int, ...]:
            row = connection.execute(question.encode(), name).fetchone()
            assert row is not None, "a statistic without a row"
            return tuple(int(value) for value in row)

        statements = one(_STATEMENTS)[0] if one(_IS_COUNTED)[0] else -1
        wal_syncs, wal_bytes = one(_WAL)
        return {
            "statements": statements, "commits": one(_COMMITS)[0], "wal_syncs": wal_syncs, "wal_bytes": wal_bytes,
            "table_bytes": one(_BYTES)[0],
        }  # fmt: skip


@contextmanager
def counting(url: str) -> Iterator[Spent]:
    """What the block spends; filled in when it ends. Connections that it made must be closed by then."""
    spent: Spent = {}
    before = _look(url)
    yield spent
    after = _look(url)
    spent.update({name: after[name] - number for name, number in before.items()})
    if before["statements"] < 0:
        spent["statements"] = -1


def emit_cost(peer: str, concurrency: int, spent: Spent, steps: int, **more: float) -> None:
    """Prints the line of mode `cost`."""
    each = {name: number / steps for name, number in spent.items()}
    emit(peer, "cost", concurrency=concurrency, steps=steps, **each, **more)


def statements(url: str) -> int | None:
    """How many statements the database has been given so far; None where nobody counts."""
    counted = _look(url)["statements"]
    return None if counted < 0 else counted


def durability(url: str) -> str:
    """What a new connection says of the settings that a durable commit rests on."""
    with psycopg.connect(url, autocommit=True) as connection:
        said = {name: connection.execute(b"SHOW " + name).fetchone() for name in (b"fsync", b"synchronous_commit")}
    return ", ".join(f"{name.decode()}={row[0]}" for name, row in said.items() if row is not None)
