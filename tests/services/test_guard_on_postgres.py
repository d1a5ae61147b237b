"""The guard row on PostgreSQL: what its driver has beside SQLite's, and what its locks do."""

import asyncio
from contextlib import closing
from itertools import count

import psycopg
import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import create_async_engine

from fencepost import FenceRefused, Misuse
from fencepost.targets import SqlFence

_numbers = count(1)


@pytest.fixture
def dsn(postgres_server):
    return postgres_server.url()


@pytest.fixture
def fence(dsn):
    fence = SqlFence(lambda: psycopg.connect(dsn, options="-c lock_timeout=200ms"))
    fence.create()
    return fence


@pytest.fixture
def account():
    return f"guarded:{next(_numbers)}"


def token(dsn, account):
    with closing(psycopg.connect(dsn)) as connection:
        row = connection.execute("SELECT token FROM fencepost_fence WHERE resource = %s", (account,)).fetchone()
        return row and row[0]


def test_autocommit_is_refused_before_anything_is_written(fence, dsn, account):
    with closing(psycopg.connect(dsn, autocommit=True)) as connection:
        with pytest.raises(Misuse, match="outside a transaction"):
            fence.guard(connection, account, 1)
        assert token(dsn, account) is None

        with connection.transaction():
            fence.guard(connection, account, 1)
    assert token(dsn, account) == 1


def test_autocommit_is_seen_through_sqlalchemy(fence, dsn, account):
    engine = sqlalchemy.create_engine(
        dsn.replace("postgresql:", "postgresql+psycopg:"),
        isolation_level="AUTOCOMMIT",
        poolclass=sqlalchemy.NullPool,
    )

    with engine.begin() as connection, pytest.raises(Misuse, match="outside a transaction"):
        fence.guard(connection, account, 1)
    assert token(dsn, account) is None


def test_a_raise_gives_up_on_a_writer_behind_the_guard_and_a_refused_one_keeps_nobody_waiting(fence, dsn, account):
    with closing(psycopg.connect(dsn)) as writer:
        fence.guard(writer, account, 1)
        with pytest.raises(psycopg.errors.LockNotAvailable):
            fence.raise_to(account, 2)
        writer.commit()

        fence.raise_to(account, 2)
        with pytest.raises(FenceRefused):
            fence.guard(writer, account, 1)
        writer.rollback()
    fence.raise_to(account, 3)
    assert token(dsn, account) == 3


@pytest.mark.parametrize("level", [psycopg.IsolationLevel.REPEATABLE_READ, psycopg.IsolationLevel.SERIALIZABLE])
def test_a_snapshot_from_before_the_raise_lets_nobody_in(fence, dsn, account, level):
    fence.raise_to(account, 1)
    with closing(psycopg.connect(dsn)) as writer:
        writer.isolation_level = level
        writer.execute("SELECT 1 FROM fencepost_fence").fetchall()
        fence.raise_to(account, 2)

        with pytest.raises((FenceRefused, psycopg.errors.SerializationFailure)):
            fence.guard(writer, account, 1)


def test_a_pipeline_is_guarded_like_any_other(fence, dsn, account):
    fence.raise_to(account, 2)
    with closing(psycopg.connect(dsn)) as connection, connection.pipeline():
        fence.guard(connection, account, 2)
        with pytest.raises(FenceRefused):
            fence.guard(connection, account, 1)


def test_async_connections_are_guarded(fence, dsn, account):
    async def guarded():
        async with await psycopg.AsyncConnection.connect(dsn) as connection:
            await fence.guard_async(connection, account, 3)
            with pytest.raises(Misuse, match="does not fit"):
                fence.guard(connection, account, 3)
        async with await psycopg.AsyncConnection.connect(dsn) as connection:
            with pytest.raises(FenceRefused):
                await fence.guard_async(connection, account, 2)
        async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
            with pytest.raises(Misuse, match="outside a transaction"):
                await fence.guard_async(connection, account, 9)
        engine = create_async_engine(dsn.replace("postgresql:", "postgresql+psycopg:"), poolclass=sqlalchemy.NullPool)
        async with engine.begin() as connection:
            await fence.guard_async(connection, account, 4)

    asyncio.run(guarded())
    assert token(dsn, account) == 4
