"""An effect whose rows are in the ledger's own database, and a careless twin that commits its rows by itself.

Both may end their process when they have written and have not returned. What is played with them, and how the rows are
counted, is in `test_atomic`; the other points are those of `store.faultpoints`.
"""

import os
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import psycopg

from fencepost.core.contract import Retry
from fencepost.core.duration import MINUTE
from fencepost.effects.call import SyncCall
from fencepost.effects.declare import effect
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from tests.processes.stories import KILL_AT

IN_BODY = "body:written"
"""The point at which a body has written its row and has not returned."""

LEDGER = "FENCEPOST_TEST_LEDGER"
"""The environment variable that names the ledger, for who opens its database by itself."""

TABLE = "CREATE TABLE IF NOT EXISTS booking (run TEXT NOT NULL)"
"""It has no key: a row that is written twice is there twice."""

QUICK = Retry(attempts=5, within=5 * MINUTE, first_delay=20_000, longest_delay=200_000)


@contextmanager
def database(url: str) -> Iterator[Any]:
    """The ledger's database, opened as anybody may; what is done inside is committed at the end."""
    if url.startswith("sqlite:"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"), timeout=10)) as file, file:
            yield file
    else:
        with psycopg.connect(url.partition("&schema=")[0]) as server:
            yield server


def write(connection: Any, name: str) -> None:
    """Add a row."""
    place = "?" if isinstance(connection, sqlite3.Connection) else "%s"
    connection.execute(f"INSERT INTO booking VALUES ({place})", (name,))  # noqa: S608 - a placeholder


def end_here() -> None:
    """Kill this process if that is its point."""
    if os.environ.get(KILL_AT) == IN_BODY:
        os.kill(os.getpid(), signal.SIGKILL)


@effect(atomic=True, retry=QUICK, reference="run")
def book(call: SyncCall, name: str) -> dict[str, str]:
    write(call.transaction, name)
    end_here()
    return {"run": name}


@effect(repeatable=True, retry=QUICK, attempt_timeout="10s", settle="100ms")
def book_apart(call: SyncCall, name: str) -> dict[str, str]:
    with call.sending(), database(os.environ[LEDGER]) as own:
        write(own, name)
    end_here()
    return {"run": name}


@workflow()
async def books(run: Run, name: str) -> str:
    return (await run.do(book(name)))["run"]


@workflow()
async def books_apart(run: Run, name: str) -> str:
    return (await run.do(book_apart(name)))["run"]


WORKFLOWS = [books, books_apart]
