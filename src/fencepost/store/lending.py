"""Hands the ledger's own connection to the body of an atomic effect, which writes its own rows through it.

The body cannot end the transaction: what it writes is committed with its result, or not at all. On SQLite it cannot
write to the ledger's tables either; on PostgreSQL they are in a schema of their own. What the transaction is, and what
is done at its end, is `verbs`'s matter.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

from fencepost.core.errors import Misuse

if TYPE_CHECKING:
    from psycopg import Connection as Psycopg

_OWN_TABLES = frozenset(
    {"run", "step", "operation", "attempt", "observation", "signal", "lease", "audit", "epoch", "token", "meta"}
)
_WRITES = frozenset({sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE, sqlite3.SQLITE_DROP_TABLE})


@contextmanager
def lent_sqlite(connection: sqlite3.Connection) -> Iterator[sqlite3.Connection]:
    """The connection, as the body may use it; what the body set on it is set back."""
    rows, texts = connection.row_factory, connection.text_factory
    connection.set_authorizer(_allows)
    try:
        yield connection
    finally:
        connection.set_authorizer(None)
        connection.row_factory, connection.text_factory = rows, texts


def _allows(action: int, first: str | None, second: str | None, database: str | None, inner: str | None) -> int:
    del second, database, inner
    if action == sqlite3.SQLITE_TRANSACTION or (action in _WRITES and first in _OWN_TABLES):
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK


def lent_psycopg(inner: Any) -> Psycopg:
    """A psycopg connection over libpq's `inner`, whose transaction is open; savepoints are its own."""
    from psycopg import Connection

    class Lent(Connection[tuple[Any, ...]]):
        def commit(self) -> NoReturn:
            _refuse()

        def rollback(self) -> NoReturn:
            _refuse()

        def close(self) -> None:
            """It is the ledger's to close."""

        def __del__(self, *_: object) -> None:
            """Nothing is lost with it: the ledger keeps the connection."""

    lent = Lent(inner)
    lent._autocommit = True  # noqa: SLF001 - the transaction is open already, and ends elsewhere
    return lent


def _refuse() -> NoReturn:
    raise Misuse(
        "an atomic effect does not end the ledger's transaction",
        hint="return from the body to commit, raise to take everything back; use a savepoint for less",
    )
