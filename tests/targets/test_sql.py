"""A guard row guards only inside a transaction, and says so before it writes anything."""

import asyncio
import sqlite3
import sys
from contextlib import closing

import pytest
import sqlalchemy
from sqlalchemy.ext.asyncio import create_async_engine

from fencepost import FenceRefused, Misuse
from fencepost.targets import SqlFence
from fencepost.targets.sql import DDL


@pytest.fixture
def file(tmp_path):
    return tmp_path / "books.db"


@pytest.fixture
def fence(file):
    fence = SqlFence(lambda: sqlite3.connect(file, timeout=0.2))
    fence.create()
    return fence


def tokens(file):
    with closing(sqlite3.connect(file)) as connection:
        return dict(connection.execute("SELECT resource, token FROM fencepost_fence"))


def test_the_table_may_be_created_twice_or_by_a_migration_of_ones_own(file, fence):
    fence.create()
    with closing(sqlite3.connect(file)) as connection:
        connection.execute(DDL)

    assert tokens(file) == {}


# -- autocommit -------------------------------------------------------------------------------------------------------


# Python 3.12 has a second way to say it.
AUTOCOMMIT = [{"isolation_level": None}, *([{"autocommit": True}] if sys.version_info >= (3, 12) else [])]


@pytest.mark.parametrize("options", AUTOCOMMIT)
def test_autocommit_is_refused_before_anything_is_written(file, fence, options):
    with closing(sqlite3.connect(file, **options)) as connection:
        with pytest.raises(Misuse, match="outside a transaction"):
            fence.guard(connection, "account:7", 1)
        assert tokens(file) == {}

        connection.execute("BEGIN")
        fence.guard(connection, "account:7", 1)
        connection.execute("COMMIT")
    assert tokens(file) == {"account:7": 1}


def test_autocommit_is_seen_through_sqlalchemy(file, fence):
    engine = sqlalchemy.create_engine(f"sqlite:///{file}", isolation_level="AUTOCOMMIT", poolclass=sqlalchemy.NullPool)

    with engine.begin() as connection, pytest.raises(Misuse, match="outside a transaction"):
        fence.guard(connection, "account:7", 1)

    assert tokens(file) == {}


# -- the transaction --------------------------------------------------------------------------------------------------


def test_a_raise_waits_for_a_writer_who_has_passed_the_guard(file, fence):
    with closing(sqlite3.connect(file)) as writer:
        fence.guard(writer, "account:7", 1)

        with pytest.raises(sqlite3.OperationalError, match="locked"):
            fence.raise_to("account:7", 2)
        writer.commit()

    fence.raise_to("account:7", 2)
    assert tokens(file) == {"account:7": 2}


def test_a_guard_whose_transaction_is_undone_has_raised_nothing(file, fence):
    with closing(sqlite3.connect(file)) as writer:
        fence.guard(writer, "account:7", 5)
        writer.rollback()

    fence.raise_to("account:7", 2)
    assert tokens(file) == {"account:7": 2}


def test_a_guard_in_a_savepoint_that_is_undone_has_to_be_passed_again(file, fence):
    with closing(sqlite3.connect(file, isolation_level=None)) as writer:
        writer.execute("BEGIN")
        writer.execute("SAVEPOINT inner")
        fence.guard(writer, "account:7", 5)
        writer.execute("ROLLBACK TO inner")
        assert writer.execute("SELECT count(*) FROM fencepost_fence").fetchone() == (0,)

        fence.guard(writer, "account:7", 5)
        writer.execute("COMMIT")
    assert tokens(file) == {"account:7": 5}


def test_a_derived_connection_class_is_known(file, fence):
    class Own(sqlite3.Connection):
        pass

    with closing(sqlite3.connect(file, factory=Own)) as connection:
        fence.guard(connection, "account:7", 1)
        connection.commit()

    assert tokens(file) == {"account:7": 1}


# -- async, and what is not known -------------------------------------------------------------------------------------


def test_an_async_connection_of_sqlalchemy_is_guarded(file, fence):
    async def guarded():
        engine = create_async_engine(f"sqlite+aiosqlite:///{file}", poolclass=sqlalchemy.NullPool)
        async with engine.begin() as connection:
            await fence.guard_async(connection, "account:7", 3)
        async with engine.begin() as connection:
            with pytest.raises(FenceRefused):
                await fence.guard_async(connection, "account:7", 2)
        async with engine.begin() as connection:
            with pytest.raises(Misuse, match="AsyncConnection"):
                fence.guard(connection, "account:7", 3)
        alone = engine.execution_options(isolation_level="AUTOCOMMIT")
        async with alone.begin() as connection:
            with pytest.raises(Misuse, match="outside a transaction"):
                await fence.guard_async(connection, "account:7", 9)

    asyncio.run(guarded())
    assert tokens(file) == {"account:7": 3}


def test_a_plain_connection_is_no_async_one(file, fence):
    with closing(sqlite3.connect(file)) as connection, pytest.raises(Misuse, match="does not fit"):
        asyncio.run(fence.guard_async(connection, "account:7", 1))


def test_mysql_is_refused_in_words(fence):
    connection = sqlalchemy.create_mock_engine("mysql://", lambda *_: None)
    connection.connection = type("Fairy", (), {"driver_connection": object()})()

    with pytest.raises(Misuse, match="the dialect mysql"):
        fence.guard(connection, "account:7", 1)


def test_any_other_connection_is_refused_in_words(fence):
    with pytest.raises(Misuse, match="connections of builtins"):
        fence.guard(object(), "account:7", 1)
