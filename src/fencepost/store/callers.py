"""A caller's own connection, on which named statements are run inside the caller's own transaction.

Known are connections of sqlite3 and psycopg, plain and async, and what SQLAlchemy puts around them. Nothing here
commits or ends a transaction: what was run is there when the caller commits, and was never there otherwise. Where a
connection would commit each statement by itself it is refused. Which statements are run is `joining`'s matter.
"""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Coroutine, Generator, Mapping
from typing import Any, NamedTuple, NoReturn, TypeVar

from fencepost.core.errors import FencepostError, Misuse
from fencepost.store import failures
from fencepost.store.connection import SqliteError
from fencepost.store.queries import Query, Row

Result = TypeVar("Result")


class Done(NamedTuple):
    """What a statement gave: its rows, and how many it changed."""

    rows: list[Row]
    changed: int


Steps = Generator[tuple[Query, Mapping[str, Any]], Done, Result]
"""Statements in their order, each with its values; sent what the one before gave."""

_KNOWN = "pass a connection of sqlite3 or psycopg, or one of SQLAlchemy (or its Session) over one of these"


class SqliteCaller:
    """A connection of the standard library."""

    dialect = "sqlite"

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._inner = connection

    def require_transaction(self) -> None:
        """Raise `Misuse` where each statement would commit by itself."""
        connection = self._inner
        # Since Python 3.12 there is `autocommit`, which outranks `isolation_level` unless it is the legacy -1.
        by_itself = getattr(connection, "autocommit", -1)
        if not connection.in_transaction and (connection.isolation_level is None if by_itself == -1 else by_itself):
            _refuse_autocommit("BEGIN IMMEDIATE")

    def run(self, query: Query, values: Mapping[str, Any]) -> Done:
        """Run one statement."""
        texts, self._inner.text_factory = self._inner.text_factory, str
        try:
            cursor = self._inner.cursor()
            cursor.row_factory = None
            cursor.execute(query.statement, query.bind(**values))
            return Done(cursor.fetchall(), cursor.rowcount)
        finally:
            self._inner.text_factory = texts

    def explain(self, error: Exception, ledger: str) -> FencepostError | None:
        """What an error of the driver means."""
        if not isinstance(error, sqlite3.Error):
            return None
        code = getattr(error, "sqlite_errorcode", 0)
        told = failures.unavailable(SqliteError(code, str(error)), ledger)
        if code & 0xFF == failures.BUSY:
            told.hint = "begin with BEGIN IMMEDIATE: a transaction that has read may not write once others have written"
        return told


class PsycopgCaller:
    """A connection of psycopg."""

    dialect = "postgres"

    def __init__(self, connection: Any) -> None:
        self._inner = connection

    def require_transaction(self) -> None:
        """Raise `Misuse` where each statement would commit by itself."""
        from psycopg import pq

        connection = self._inner
        if connection.autocommit and connection.info.transaction_status == pq.TransactionStatus.IDLE:
            _refuse_autocommit("`with connection.transaction():`")

    def run(self, query: Query, values: Mapping[str, Any]) -> Done:
        """Run one statement."""
        from psycopg import RawCursor
        from psycopg.rows import tuple_row

        with RawCursor(self._inner, row_factory=tuple_row) as cursor:
            cursor.execute(query.statement.encode(), query.bind(**values))
            return Done(cursor.fetchall() if cursor.description else [], cursor.rowcount)

    def explain(self, error: Exception, ledger: str) -> FencepostError | None:
        """What an error of the driver means."""
        from psycopg import Error

        from fencepost.store.postgres_connection import PostgresError
        from fencepost.store.postgres_failures import is_passing, unavailable

        if not isinstance(error, Error):
            return None
        refusal = PostgresError(error.sqlstate or "", str(error))
        told = unavailable(refusal, ledger)
        if is_passing(refusal):
            told.hint = "your transaction has failed; do it again from its start"
        return told


class AsyncPsycopgCaller(PsycopgCaller):
    """A connection of psycopg that belongs to an event loop."""

    async def run_async(self, query: Query, values: Mapping[str, Any]) -> Done:
        """Run one statement."""
        from psycopg import AsyncRawCursor
        from psycopg.rows import tuple_row

        async with AsyncRawCursor(self._inner, row_factory=tuple_row) as cursor:
            await cursor.execute(query.statement.encode(), query.bind(**values))
            return Done(await cursor.fetchall() if cursor.description else [], cursor.rowcount)


Caller = SqliteCaller | PsycopgCaller


def caller_of(connection: Any) -> Caller:
    """What runs statements on this connection.

    Raises:
        Misuse: it is nothing that is known, or commits each statement by itself.
    """
    inner = _inside_sqlalchemy(connection)
    psycopg = sys.modules.get("psycopg")
    caller: Caller | None = None
    if isinstance(inner, sqlite3.Connection):
        caller = SqliteCaller(inner)
    elif psycopg is not None and isinstance(inner, psycopg.Connection):
        caller = PsycopgCaller(inner)
    elif psycopg is not None and isinstance(inner, psycopg.AsyncConnection):
        caller = AsyncPsycopgCaller(inner)
    if caller is not None:
        caller.require_transaction()
        return caller
    raise Misuse(f"{type(inner).__module__}.{type(inner).__qualname__} is no connection known here", hint=_KNOWN)


async def run(steps: Steps[Result], connection: Any, *, dialect: str, ledger: str) -> Result:
    """Run statements to their end; it waits only on a connection that belongs to an event loop.

    Raises:
        Misuse: nothing of this dialect can be run on this connection.
        StoreUnavailable: the database refused a statement; what that means for the caller's transaction the hint says.
    """
    caller = caller_of(await _inside_async_sqlalchemy(connection))
    if caller.dialect != dialect:
        raise Misuse(
            f"the connection is of {caller.dialect}, and the ledger is at {ledger}",
            hint="only a connection to the ledger's own database can carry its rows",
        )
    try:
        wanted = next(steps)
        while True:
            done = await caller.run_async(*wanted) if isinstance(caller, AsyncPsycopgCaller) else caller.run(*wanted)
            wanted = steps.send(done)
    except StopIteration as ended:
        return ended.value  # type: ignore[no-any-return]  # what the generator returns
    except Exception as error:
        told = caller.explain(error, ledger)
        if told is None:
            raise
        raise told from error


def at_once(work: Coroutine[Any, Any, Result]) -> Result:
    """What never waits, run here and now on this very thread: a caller's connection may belong to it.

    Raises:
        Misuse: it does wait, for an event loop.
    """
    try:
        work.send(None)
    except StopIteration as ended:
        return ended.value  # type: ignore[no-any-return]  # what the coroutine returns
    work.close()
    raise Misuse("this waits for an event loop", hint="await it there: an async connection belongs to its loop")


def _refuse_autocommit(begin: str) -> NoReturn:
    raise Misuse(
        "the connection is in autocommit mode and in no transaction: the row would stand by itself",
        hint=f"begin one first: {begin}",
    )


def _inside_sqlalchemy(connection: Any) -> Any:
    """The driver's connection, in the transaction of SQLAlchemy's."""
    sqlalchemy, orm = sys.modules.get("sqlalchemy"), sys.modules.get("sqlalchemy.orm")
    if orm is not None and isinstance(connection, orm.Session | orm.scoped_session):
        connection = connection.connection()
    if sqlalchemy is None or not isinstance(connection, sqlalchemy.Connection):
        return connection
    connection.exec_driver_sql("SELECT 1")  # so that it knows of a transaction, and its commit is one
    return connection.connection.driver_connection


async def _inside_async_sqlalchemy(connection: Any) -> Any:
    asyncio = sys.modules.get("sqlalchemy.ext.asyncio")
    if asyncio is None:
        return connection
    if isinstance(connection, asyncio.AsyncSession | asyncio.async_scoped_session):
        connection = await connection.connection()
    if not isinstance(connection, asyncio.AsyncConnection):
        return connection
    await connection.exec_driver_sql("SELECT 1")
    return (await connection.get_raw_connection()).driver_connection
