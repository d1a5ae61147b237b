"""Copies a whole ledger from a file into an empty one on PostgreSQL, in one transaction, with the counts compared.

The file's write lock is kept meanwhile, and workers that hold leases are a reason to refuse: what they did afterwards
would be missing. Once the copy is committed the file says where it has gone, and is not opened any more: two ledgers
that both sent would send everything twice.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import NamedTuple

from fencepost.core.errors import Misuse, StoreUnavailable
from fencepost.store.postgres import PostgresStore
from fencepost.store.queries import Query, load
from fencepost.store.statements import Work

TABLES = (
    "epoch", "lease", "run", "schedule", "schedule_carrier", "step", "operation", "attempt", "token", "observation",
    "signal", "audit", "permission", "proposal", "containment", "queue", "piece", "bulk", "bulk_run", "api_token",
    "account", "invitation", "session",
)  # fmt: skip
"""In this order: each refers to those before it."""

# The names of the blocks that insert into each table, and of those that number what comes after.
_PASTE = {table: f"paste_{table}" for table in TABLES}
_NUMBERED = ("run", "schedule", "step", "operation", "observation", "signal", "audit", "proposal", "bulk", "api_token")
_CONTINUE = tuple(f"continue_{table}" for table in _NUMBERED)
_ROWS_AT_ONCE = 500
_BUSY_SECONDS = 10.0


class Count(NamedTuple):
    """How many rows of a table there are in the file, and in the copy: None where nothing was copied."""

    table: str
    here: int
    there: int | None


def copy(path: str, target: PostgresStore, *, now: int, margin: int, dry_run: bool) -> list[Count]:
    """Copy the ledger in the file at `path`; with `dry_run` only count, and check what would be refused.

    `margin` (microseconds) is how long after its end a lease is still respected.

    Raises:
        Misuse: workers hold leases, the target holds something already, or a value does not go into PostgreSQL.
        StoreUnavailable: either of the two cannot be read or written, or the counts do not agree; nothing was copied.
    """
    queries = load("sqlite")
    with _locked(path) as file:
        _refuse_leases(file, queries, now=now, margin=margin)
        here = [_count(file, queries, table) for table in TABLES]
        _refuse_unless_empty(target)
        if dry_run:
            return [Count(table, number, None) for table, number in zip(TABLES, here, strict=True)]
        there = target.paste(lambda work: _paste(file, queries, work, here))
        file.execute(queries["note_copied"].statement, (target.ledger,))
    return [Count(*row) for row in zip(TABLES, here, there, strict=True)]


@contextmanager
def _locked(path: str) -> Iterator[sqlite3.Connection]:
    """The file, kept from everybody else; what was changed is committed on the way out, if nothing was raised."""
    try:
        with closing(sqlite3.connect(path, isolation_level=None, timeout=_BUSY_SECONDS)) as file:
            file.row_factory = sqlite3.Row
            file.execute("BEGIN IMMEDIATE")
            yield file
            file.execute("COMMIT")
    except sqlite3.Error as error:
        raise StoreUnavailable(
            f"the ledger's file cannot be read: {error}",
            hint="stop whoever writes to it, and check that it is a ledger of this version",
            ids={"ledger": path},
        ) from error


def _refuse_leases(file: sqlite3.Connection, queries: Mapping[str, Query], *, now: int, margin: int) -> None:
    query = queries["leases_in_force"]
    found = file.execute(query.statement, query.bind(now=now, margin=margin)).fetchall()
    if found:
        holders = ", ".join(f"pid {lease['pid']} on {lease['host']}" for lease in found)
        raise Misuse(
            f"workers hold leases of this ledger: {holders}", hint="stop them, or wait until their leases have run out"
        )


def _refuse_unless_empty(target: PostgresStore) -> None:
    if not target.is_empty():
        raise Misuse(
            "the target holds a ledger already",
            hint="copy into a new schema: append ?schema=NAME to the url",
            ids={"ledger": target.ledger, "schema": target.schema},
        )


def _rows(file: sqlite3.Connection, queries: Mapping[str, Query], table: str) -> sqlite3.Cursor:
    return file.execute(queries[f"copy_{table}"].statement)


def _count(file: sqlite3.Connection, queries: Mapping[str, Query], table: str) -> int:
    return sum(1 for _ in _rows(file, queries, table))


def _paste(file: sqlite3.Connection, queries: Mapping[str, Query], work: Work, here: list[int]) -> list[int]:
    for table in TABLES:
        rows = _rows(file, queries, table)
        while some := rows.fetchmany(_ROWS_AT_ONCE):
            work.execute(_PASTE[table], rows=json.dumps([dict(row) for row in some], ensure_ascii=False))
    for block in _CONTINUE:
        work.execute(block)
    for (mark,) in file.execute(queries["codec_mark"].statement):  # by which a wrong key is told from the right one
        work.change("mark_codec", mark=mark)
    there = list(work.execute("count_rows")[0])
    if there != here:
        raise StoreUnavailable(
            f"the copy has {there} rows where the file has {here}: nothing was copied", hint="please report this"
        )
    return there
