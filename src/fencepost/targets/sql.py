"""A fence in any SQL database: a guard row per resource, compared in the same transaction as the write.

    accounts = SqlFence(lambda: psycopg.connect(DSN))

    def book(call: SyncCall, entry: Entry) -> Booking:
        with psycopg.connect(DSN) as connection:
            accounts.guard(connection, entry.account, call.token(entry.account))
            ...  # the writes that the token guards, in this transaction

The guard takes the row's lock and keeps it until the transaction ends: whoever raises the token waits for a writer
that has passed the guard, and a writer that comes after is refused. It knows the connections of sqlite3, psycopg 3 and
SQLAlchemy. Opening and ending transactions is the caller's matter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fencepost.core.errors import FenceRefused, Misuse

TABLE = """CREATE TABLE IF NOT EXISTS fencepost_fence (
    resource VARCHAR(300) NOT NULL PRIMARY KEY,
    token BIGINT NOT NULL
)"""
"""The guard rows' table, in the database whose writes they guard."""

# One statement, so that the comparison and the raise cannot come apart; it changes no row where the token is too low.
_QUESTION_MARKS = """INSERT INTO fencepost_fence (resource, token) VALUES (?, ?)
ON CONFLICT (resource) DO UPDATE SET token = excluded.token WHERE fencepost_fence.token <= excluded.token"""
_PERCENT_SIGNS = """INSERT INTO fencepost_fence (resource, token) VALUES (%s, %s)
ON CONFLICT (resource) DO UPDATE SET token = excluded.token WHERE fencepost_fence.token <= excluded.token"""
_NAMES = """INSERT INTO fencepost_fence (resource, token) VALUES (:resource, :token)
ON CONFLICT (resource) DO UPDATE SET token = excluded.token WHERE fencepost_fence.token <= excluded.token"""

_IN_TRANSACTION = 2  # psycopg's TransactionStatus.INTRANS


class SqlFence:
    """The guard rows of one database. `connect` opens a connection to it, with which the token is raised."""

    weakness = None

    def __init__(self, connect: Callable[[], Any], *, name: str = "SQL guard row") -> None:
        self.name = name
        self._connect = connect

    def create(self) -> None:
        """Create the table of guard rows unless it exists; or run `TABLE` with your own migrations."""
        self._in_transaction(lambda connection: _execute(connection, TABLE, TABLE, TABLE))

    def raise_to(self, resource: str, token: int) -> None:
        """See `Fence.raise_to`."""
        self._in_transaction(lambda connection: self.guard(connection, resource, token))

    def guard(self, connection: Any, resource: str, token: int) -> None:
        """Compare the token and keep its row locked until the open transaction of `connection` ends.

        Raises:
            FenceRefused: the database knows a higher token; end the transaction without the write.
            Misuse: the connection is in autocommit mode, so that nothing would hold the guard and the write together.
        """
        changed = _execute(connection, _QUESTION_MARKS, _PERCENT_SIGNS, _NAMES, resource, token)
        if not _is_in_transaction(connection):
            raise Misuse(
                "the guard was checked outside a transaction, so it guards nothing",
                hint="begin a transaction first, or take the connection out of autocommit mode",
                ids={"resource": resource},
            )
        if changed != 1:
            raise FenceRefused(
                "the database knows a higher token for this resource",
                hint="somebody newer writes there; this write did nothing",
                ids={"resource": resource, "token": str(token)},
            )

    def _in_transaction(self, action: Callable[[Any], object]) -> None:
        connection = self._connect()
        try:
            action(connection)
            connection.commit()
        finally:
            connection.close()


def _execute(connection: Any, question_marks: str, percent_signs: str, names: str, *values: Any) -> int:
    """Run the statement that fits the connection's own style; how many rows it changed."""
    match type(connection).__module__.partition(".")[0]:
        case "sqlite3":
            return int(connection.execute(question_marks, values).rowcount)
        case "psycopg":
            return int(connection.execute(percent_signs, values or None).rowcount)
        case "sqlalchemy":
            from sqlalchemy import text  # type: ignore[import-not-found,unused-ignore]  # an extra

            return int(connection.execute(text(names), dict(zip(("resource", "token"), values, strict=False))).rowcount)
        case other:
            raise Misuse(
                f"SqlFence does not know connections of {other}",
                hint="pass a connection of sqlite3, psycopg or SQLAlchemy",
            )


def _is_in_transaction(connection: Any) -> bool:
    if hasattr(connection, "info") and hasattr(connection.info, "transaction_status"):
        return int(connection.info.transaction_status) == _IN_TRANSACTION
    state = connection.in_transaction
    return bool(state() if callable(state) else state)
