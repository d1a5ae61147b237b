"""What only a server has of starts in a caller's transaction: other databases, rights, snapshots, overlapping commits.

What holds on both databases is in tests/runtime.
"""

import asyncio

import psycopg
import pytest

from fencepost.core.errors import Misuse, StoreBusy, StoreUnavailable
from fencepost.runtime.app import App
from fencepost.runtime.ledger import Ledger
from fencepost.store.postgres_url import place_of
from tests.runtime.callers import calling, conninfo, make_table
from tests.runtime.stage import Gate, keyed, played, target, working
from tests.runtime.test_outbox import one


@pytest.fixture
def place(postgres):
    """A ledger beside a table of the caller's."""
    with App(postgres.url(), workflows=[]).sync as app:
        assert app.store
    make_table(postgres.url())
    target.reset()
    return postgres.url()


@played
async def test_another_database_of_the_same_server_is_refused(place, postgres_server):
    postgres_server.ask("DROP DATABASE IF EXISTS elsewhere")
    postgres_server.ask("CREATE DATABASE elsewhere")
    async with App(place, workflows=[one]) as app:
        with (
            psycopg.connect(conninfo(postgres_server.url("elsewhere"))) as connection,
            pytest.raises(Misuse, match="elsewhere"),
        ):
            await app.start(one, "a", id="r", connection=connection)


@played
async def test_a_user_needs_the_rights_that_the_page_names_and_no_others(place, postgres_server):
    schema = place_of(place).schema
    for statement in (
        "DROP ROLE IF EXISTS shop",
        "CREATE ROLE shop LOGIN",
        f"GRANT USAGE ON SCHEMA {schema} TO shop",
        f"GRANT SELECT, INSERT ON {schema}.run TO shop",
        f"GRANT SELECT ON {schema}.epoch TO shop",
    ):
        postgres_server.ask(statement)
    async with working(place, one) as app:
        with psycopg.connect(conninfo(place), user="shop") as connection:
            handle = await app.start(one, "a", id="r", connection=connection)
        assert await handle.result(within="20s") == "made a"
        postgres_server.ask(f"REVOKE INSERT ON {schema}.run FROM shop")
        with (
            psycopg.connect(conninfo(place), user="shop") as connection,
            pytest.raises(StoreUnavailable, match="grant"),
        ):
            await app.start(one, "b", id="s", connection=connection)
    postgres_server.ask("DROP OWNED BY shop")
    postgres_server.ask("DROP ROLE shop")


@played
async def test_a_transaction_that_cannot_be_serialised_hears_what_to_do(place):
    async with App(place, workflows=[one]) as app:
        with psycopg.connect(conninfo(place)) as connection:
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            connection.execute("SELECT 1 FROM business")
            await app.start(one, "a", id="r")
            with pytest.raises(StoreBusy, match="from its start"):
                await app.start(one, "a", id="r", connection=connection)


@played
async def test_the_order_is_that_of_the_commits_also_when_transactions_overlap(place):
    async with Ledger(place, effects=[keyed]) as ledger, Ledger(place, effects=[keyed]) as worker:
        async with calling("async psycopg", place) as early, calling("async psycopg", place) as late:
            await ledger.enqueue(keyed("a"), operation="a", resource="account", connection=early.connection)
            waiting = asyncio.create_task(
                ledger.enqueue(keyed("b"), operation="b", resource="account", connection=late.connection)
            )
            other = await ledger.enqueue(keyed("c"), operation="c", resource="another")
            await worker.work()
            assert await other.result(within="20s") == "made c"
            assert not waiting.done(), "whoever is second in line waits for the commit of the first"
            await early.commit()
            handle = await waiting
            await late.commit()
        assert await handle.result(within="20s") == "made b"
    assert [request for request in target.requests if request != "c"] == ["a", "b"]


@played
async def test_one_that_joins_no_transaction_stands_in_the_same_line(place):
    gate = Gate()
    target.plan("a", gate)
    async with Ledger(place, effects=[keyed]) as ledger, Ledger(place, effects=[keyed]) as worker:
        await worker.work()
        async with calling("async psycopg", place) as early:
            await ledger.enqueue(keyed("a"), operation="a", resource="account", connection=early.connection)
            waiting = asyncio.create_task(ledger.enqueue(keyed("b"), operation="b", resource="account"))
            other = await ledger.enqueue(keyed("c"), operation="c", resource="another")
            assert await other.result(within="20s") == "made c"
            assert not waiting.done(), "whoever is second in line waits for the commit of the first"
            await early.commit()
        handle = await waiting
        await gate.reached.wait()
        after = await ledger.enqueue(keyed("d"), operation="d", resource="another")
        assert await after.result(within="20s") == "made d"
        assert target.requests == ["c", "a", "d"]
        gate.opened.set()
        assert await handle.result(within="20s") == "made b"
