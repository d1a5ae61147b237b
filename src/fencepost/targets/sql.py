"""A fence in any PostgreSQL or SQLite database: a guard row per resource, compared in the transaction of the write.

    accounts = SqlFence(lambda: psycopg.connect(DSN, options="-c lock_timeout=5s"))

    def book(call: SyncCall, entry: Entry) -> Booking:
        with psycopg.connect(DSN) as connection:
            accounts.guard(connection, entry.account, call.token(entry.account))
            ...  # the writes that the token guards, in this transaction

The guard takes the row's lock and keeps it until the transaction ends: whoever raises the token waits for a writer
that has passed the guard, and a writer that comes after is refused. It knows the connections of sqlite3, psycopg 3 and
SQLAlchemy (the async ones of the latter two with `guard_async`), and of no other database: MySQL has no statement that
compares and raises in one. Opening and ending transactions is the caller's matter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from fencepost.core.errors import FenceRefused, Misuse

DDL = """CREATE TABLE IF NOT EXISTS fencepost_fence (
    resource TEXT NOT NULL PRIMARY KEY,
    token BIGINT NOT NULL
)"""
"""The guard rows' table, in the database whose writes they guard; for your own migrations, or `SqlFence.create`."""

# One statement, so that the comparison and the raise cannot come apart; it returns no row where the token is too low.
# PostgreSQL locks the row in either case, SQLite the whole file.
_QUESTION_MARKS = """INSERT INTO fencepost_fence (resource, token) VALUES (?, ?)
ON CONFLICT (resource) DO UPDATE SET token = excluded.token WHERE fencepost_fence.token <= excluded.token
RETURNING token"""
_PERCENT_SIGNS = """INSERT INTO fencepost_fence (resource, token) VALUES (%s, %s)
ON CONFLICT (resource) DO UPDATE SET token = excluded.token WHERE fencepost_fence.token <= excluded.token
RETURNING token"""
_NAMES = """INSERT INTO fencepost_fence (resource, token) VALUES (:resource, :token)
ON CONFLICT (resource) DO UPDATE SET token = excluded.token WHERE fencepost_fence.token <= excluded.token
RETURNING token"""

_IDLE = 0  # psycopg's TransactionStatus.IDLE
_LEGACY = -1  # sqlite3.LEGACY_TRANSACTION_CONTROL, which Python 3.11 does not have


class SqlFence:
    """The guard rows of one database. `connect` opens a connection to it, with which the token is raised.

    Give that connection a time-out for locks: a writer that is stopped in its transaction keeps the raise waiting.
    """

    weakness = None

    def __init__(self, connect: Callable[[], Any], *, name: str = "SQL guard row") -> None:
        self.name = name
        self._connect = connect

    def create(self) -> None:
        """Create the table of guard rows unless it exists; or run `DDL` with your own migrations."""
        self._in_transaction(lambda connection: getattr(connection, "exec_driver_sql", connection.execute)(DDL))

    def raise_to(self, resource: str, token: int) -> None:
        """See `Fence.raise_to`."""
        self._in_transaction(lambda connection: self.guard(connection, resource, token))

    def guard(self, connection: Any, resource: str, token: int) -> None:
        """Compare the token and keep its row locked until the open transaction of `connection` ends.

        Call it before the writes, and outside of savepoints: undoing a savepoint undoes a guard inside it, and then
        the guard has to be passed again. Through SQLAlchemy's `AsyncConnection.run_sync` it works as it is.

        Raises:
            FenceRefused: the database knows a higher token; end the transaction without the write.
            Misuse: the connection is in autocommit mode, so that nothing would hold the guard and the write together,
                or of a kind that is not known here. Nothing was written.
        """
        _judge(_admitted(connection, resource).run(connection, resource, token), resource, token)

    async def guard_async(self, connection: Any, resource: str, token: int) -> None:
        """As `guard`, over an `AsyncConnection` of psycopg or of SQLAlchemy."""
        if hasattr(connection, "run_sync"):
            await connection.run_sync(self.guard, resource, token)
            return
        _admitted(connection, resource, is_async=True)
        cursor = await connection.execute(_PERCENT_SIGNS, (resource, token))
        _judge(await cursor.fetchall(), resource, token)

    def _in_transaction(self, action: Callable[[Any], object]) -> None:
        connection = self._connect()
        try:
            action(connection)
            connection.commit()
        finally:
            connection.close()


def _judge(returned: list[Any], resource: str, token: int) -> None:
    if not returned:
        raise FenceRefused(
            "the database knows a higher token for this resource",
            hint="somebody newer writes there; this write did nothing",
            ids={"resource": resource, "token": str(token)},
        )


# -- the kinds of connections -------------------------------------------------------------------------------------


class _Kind(NamedTuple):
    """What the connections of one library take, and what they say of their transactions.

    `holds`: whether the next statement is inside a transaction that lasts beyond it.
    """

    run: Callable[[Any, str, int], list[Any]]
    holds: Callable[[Any], bool]


def _run_sqlite(connection: Any, resource: str, token: int) -> list[Any]:
    return list(connection.execute(_QUESTION_MARKS, (resource, token)).fetchall())


def _sqlite_holds(connection: Any) -> bool:
    if connection.in_transaction:
        return True
    mode = getattr(connection, "autocommit", _LEGACY)
    return connection.isolation_level is not None if mode == _LEGACY else not mode


def _run_psycopg(connection: Any, resource: str, token: int) -> list[Any]:
    return list(connection.execute(_PERCENT_SIGNS, (resource, token)).fetchall())


def _psycopg_holds(connection: Any) -> bool:
    return not connection.autocommit or connection.info.transaction_status != _IDLE


def _run_sqlalchemy(connection: Any, resource: str, token: int) -> list[Any]:
    from sqlalchemy import text  # the caller's own, since the connection is

    return list(connection.execute(text(_NAMES), {"resource": resource, "token": token}).fetchall())


def _sqlalchemy_holds(connection: Any) -> bool:
    """What the driver below says, since SQLAlchemy speaks of a transaction in autocommit mode too."""
    driver = connection.connection.driver_connection
    match connection.dialect.name, _library(driver):
        case _, "psycopg":
            return _psycopg_holds(driver)
        case "sqlite", _:
            return _sqlite_holds(driver)
        case "postgresql", _:
            return not getattr(connection.connection.dbapi_connection, "autocommit", False)
        case other, _:
            raise _unknown(f"the dialect {other}")


_KINDS = {
    "sqlite3": _Kind(_run_sqlite, _sqlite_holds),
    "psycopg": _Kind(_run_psycopg, _psycopg_holds),
    "sqlalchemy": _Kind(_run_sqlalchemy, _sqlalchemy_holds),
}


def _library(connection: Any) -> str:
    """The library of a connection, also of one whose class somebody derived from the library's."""
    modules = [parent.__module__.partition(".")[0] for parent in type(connection).__mro__]
    return next((name for name in modules if name in _KINDS), modules[0])


def _admitted(connection: Any, resource: str, *, is_async: bool = False) -> _Kind:
    """The kind of a connection on which the guard would hold; refuses any other before it writes anything."""
    kind = _KINDS.get(_library(connection))
    if kind is None:
        raise _unknown(f"connections of {_library(connection)}")
    if type(connection).__name__.startswith("Async") is not is_async:
        raise Misuse(
            f"this guard does not fit a connection of the class {type(connection).__name__}",
            hint="write `await fence.guard_async(...)` for an AsyncConnection, `fence.guard(...)` for any other",
        )
    if not kind.holds(connection):
        raise Misuse(
            "the guard would be checked outside a transaction, so it would guard nothing",
            hint="begin a transaction first, or take the connection out of autocommit mode",
            ids={"resource": resource},
        )
    return kind


def _unknown(what: str) -> Misuse:
    return Misuse(
        f"SqlFence does not know {what}",
        hint="pass a connection of sqlite3, psycopg 3 or SQLAlchemy, to PostgreSQL or SQLite",
    )
