"""A caller's own transaction on the ledger's database, by each kind of connection that can be joined.

Each writes a row of its own in the same transaction, so that a test can compare what became of it with what became of
the run. What the ledger makes of them is in `test_outbox`.
"""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from typing import Any

import psycopg
import sqlalchemy
from sqlalchemy import orm, text
from sqlalchemy.ext import asyncio as async_sqlalchemy

from fencepost.store.open import path_of
from fencepost.store.postgres_url import is_postgres, place_of

KINDS = {
    "sqlite": ["sqlite3", "sqlite3 without implicit BEGIN", "sqlalchemy", "sqlalchemy session"],
    "postgres": ["psycopg", "async psycopg", "sqlalchemy", "sqlalchemy session", "async sqlalchemy", "async session"],
}
MADE = "INSERT INTO business (name) VALUES ('{}')"


def conninfo(url: str) -> str:
    return place_of(url).conninfo.decode()


def make_table(url: str) -> None:
    """The caller's own table, beside the ledger's."""
    with driver(url) as connection:
        connection.execute("DROP TABLE IF EXISTS business")
        connection.execute("CREATE TABLE business (name TEXT)")
        connection.commit()


def names(url: str) -> list[str]:
    """What the caller's table holds."""
    with driver(url) as connection:
        return [name for (name,) in connection.execute("SELECT name FROM business ORDER BY name").fetchall()]


def driver(url: str) -> Any:
    """A plain connection of the driver's, closed on the way out."""
    return closing(psycopg.connect(conninfo(url)) if is_postgres(url) else sqlite3.connect(path_of(url), timeout=20))


class Caller:
    """One transaction: `connection` is what is handed to the ledger."""

    def __init__(self, connection: Any, inner: Any = None) -> None:
        self.connection = connection
        self._inner = inner or connection

    async def write(self, name: str) -> None:
        if isinstance(self.connection, sqlite3.Connection) and self.connection.isolation_level is None:
            self.connection.execute("BEGIN IMMEDIATE")
        await self._do("execute", self._statement(MADE.format(name)))

    async def commit(self) -> None:
        await self._do("commit")

    async def rollback(self) -> None:
        await self._do("rollback")

    def _statement(self, statement: str) -> Any:
        return text(statement) if type(self._inner).__module__.startswith("sqlalchemy") else statement

    async def _do(self, method: str, *values: Any) -> None:
        done = getattr(self._inner, method)(*values)
        if hasattr(done, "__await__"):
            await done


@asynccontextmanager
async def calling(kind: str, url: str) -> AsyncIterator[Caller]:
    """A caller in a transaction, or about to be in one where the driver begins by itself."""
    if kind == "sqlite3":
        with driver(url) as connection:
            connection.row_factory = sqlite3.Row
            connection.text_factory = bytes  # whatever the caller likes to read
            yield Caller(connection)
    elif kind == "sqlite3 without implicit BEGIN":
        with closing(sqlite3.connect(path_of(url), isolation_level=None, timeout=20)) as connection:
            yield Caller(connection)
    elif kind == "psycopg":
        with driver(url) as connection:
            yield Caller(connection)
    elif kind == "async psycopg":
        async with await psycopg.AsyncConnection.connect(conninfo(url)) as connection:
            yield Caller(connection)
    elif kind.startswith("async"):
        engine = async_sqlalchemy.create_async_engine(
            "postgresql+psycopg://", async_creator=lambda: psycopg.AsyncConnection.connect(conninfo(url))
        )
        made = engine.connect() if kind == "async sqlalchemy" else async_sqlalchemy.AsyncSession(engine)
        async with made as connection:
            yield Caller(connection)
        await engine.dispose()
    else:
        engine = _engine(url)
        with engine.connect() if kind == "sqlalchemy" else orm.Session(engine) as connection:
            yield Caller(connection)
        engine.dispose()


def _engine(url: str) -> sqlalchemy.Engine:
    if is_postgres(url):
        return sqlalchemy.create_engine("postgresql+psycopg://", creator=lambda: psycopg.connect(conninfo(url)))
    return sqlalchemy.create_engine(f"sqlite:///{path_of(url)}")
