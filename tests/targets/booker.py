"""A process that books under a guard row, and can be told to wait in the middle: before the guard, or behind it.

Run as `python -m tests.targets.booker FOLDER WAITS`, where WAITS is "", "before the guard" or "behind the guard". It
says what it does in lines on its standard output, and ends with its standard input. Who stops it is `test_paused`.
"""

import asyncio
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from fencepost import Absent, App, Fenced, FenceRefused, Found, Retry, Run, SyncCall, effect, workflow
from fencepost.targets import SqlFence
from tests.polling import until

ACCOUNT = "account:7"
RUN = "run-1"
ENTRIES = "CREATE TABLE IF NOT EXISTS entry (account TEXT, token INTEGER)"


def make_app(folder: Path, pause: Callable[[str], None] = lambda _: None) -> App:
    """The app of every such process, and of the test that reads its ledger; `pause` is told where the body is."""
    books = folder / "books.db"
    fence = SqlFence(lambda: sqlite3.connect(books, timeout=0.2))
    fence.create()

    def find(call: SyncCall, account: str) -> Found[int] | Absent:
        say("looks up")
        with closing(sqlite3.connect(books)) as connection:
            entries = connection.execute("SELECT token FROM entry WHERE account = ?", (account,)).fetchall()
        return Found.only(token for (token,) in entries)

    @effect(
        fence=Fenced(fence, resource=lambda account: account), reconcile=find, consistent=True, settle="1h",
        attempt_timeout="1m", retry=Retry(attempts=5, within="15m", first_delay="1ms", longest_delay="2ms"),
    )  # fmt: skip
    def book(call: SyncCall, account: str) -> int:
        token = call.token(account)
        with call.sending(), closing(sqlite3.connect(books)) as connection:
            pause("before the guard")
            try:
                fence.guard(connection, account, token)
            except FenceRefused:
                say(f"is refused with {token}")
                raise
            connection.execute("INSERT INTO entry (account, token) VALUES (?, ?)", (account, token))
            pause("behind the guard")
            connection.commit()
        say(f"has booked with {token}")
        return token

    @workflow(version=1)
    async def pay(run: Run, account: str) -> int:
        return await run.do(book(account))

    with closing(sqlite3.connect(books)) as connection:
        connection.execute(ENTRIES)
    return App(f"sqlite:///{folder}/ledger.db", workflows=[pay], lease="1200ms", margin="200ms")


def say(what: str) -> None:
    """Tell the test."""
    sys.stdout.write(f"{what}\n")
    sys.stdout.flush()


async def work(folder: Path, waits: str) -> None:
    """Work until standard input ends; whoever is to wait starts the run too."""

    def pause(where: str) -> None:
        if where == waits:
            say(where)
            until((folder / "go").exists, "the word to go on", seconds_max=90)

    app = make_app(folder, pause)
    async with app, app.worker():
        if waits:
            await app.start(next(iter(app.workflows.values())), ACCOUNT, id=RUN)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(work(Path(sys.argv[1]), sys.argv[2]))
