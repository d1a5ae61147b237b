"""What only a server has of a receiver's memory: connections that die, two that do not see each other, many that begin.

What holds on both databases is in tests/receiving.
"""

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest

from fencepost.core.errors import StoreUnavailable
from fencepost.receiving import Answer, Receipts, Request, Terms, receipt
from fencepost.receiving.receipts import Key
from tests.receiving.test_receipt import ATOMIC, ask, behind
from tests.runtime.callers import conninfo, make_table, names
from tests.runtime.stage import played

TERMS = Terms(caller=lambda _: "ann")
KEY = Key("ann", "k")
REQUEST = Request("POST", "/orders", "", {}, b"{}")


def test_a_connection_that_died_meanwhile_loses_nothing(postgres, postgres_server):
    with Receipts(postgres.url(application_name="receipts")) as receipts:
        assert receipts.begin(KEY, REQUEST, TERMS, "one")
        assert postgres_server.kill_connections("receipts") == 1
        assert receipts.answer(KEY, "one", Answer(201), TERMS)
        assert postgres_server.kill_connections("receipts") == 1
        assert receipts.find(KEY).answer == Answer(201)


def test_a_server_that_is_away_is_said_to_be(own_server):
    with Receipts(own_server.url(), patience="1s") as receipts:
        assert receipts.find(KEY) is None
        own_server.stop()
        for _ in range(2):
            with pytest.raises(StoreUnavailable):
                receipts.find(KEY)
        own_server.start()
        assert receipts.find(KEY) is None


def test_many_processes_make_one_table(postgres):
    def first_use(_: int) -> None:
        with Receipts(postgres.url()) as receipts:
            receipts.find(KEY)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(first_use, range(16)))


@played
async def test_two_transactions_that_do_not_see_each_other_come_to_one_result(postgres):
    """The second has taken its snapshot before the first commits, so that it cannot see the receipt."""
    url = postgres.url()
    make_table(url)
    with Receipts(url) as receipts:

        async def work() -> None:
            with psycopg.connect(conninfo(url)) as connection, receipt(connection) as taken:
                connection.execute("INSERT INTO business (name) VALUES ('work')")
                taken.answer(201, "first")

        inner = behind(work, receipts)

        async def late() -> None:
            with psycopg.connect(conninfo(url)) as connection:
                connection.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
                connection.execute("SELECT 1 FROM business").fetchall()
                assert await ask(inner) == (201, b'"first"')
                with receipt(connection) as taken:
                    connection.execute("INSERT INTO business (name) VALUES ('work')")
                    taken.answer(201, "second")

        status, _ = await ask(behind(late, receipts, ATOMIC))
        assert status == 409
        assert await ask(inner) == (201, b'"first"')
    assert names(url) == ["work"]
