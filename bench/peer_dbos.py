"""Measures DBOS on SQLite as its documentation sets it up: one process, steps called from threads.

Every step stores its result in a transaction of its own (rollback journal, synchronous=FULL, SQLite's defaults, which
DBOS keeps). Threads are used because they were faster than its async workflows here. `--journal wal` puts the file
into WAL mode beforehand: no default, but the first thing that an operator would try.
Only the log level differs from the defaults, to the peer's advantage. Recovery is not measured here.
"""

import os
import sqlite3
from contextlib import closing
from importlib.metadata import version
from pathlib import Path
from typing import Any

import sqlalchemy
from dbos import DBOS

from bench.load import by_threads, emit_history, emit_idle, emit_ten
from bench.modes import CONCURRENCIES, STEPS, emit, parser, request

_connections: list[Any] = []


@DBOS.step()
def count(number: int) -> int:
    """The trivial step: a small value in, a small value out."""
    return number + 1


@DBOS.workflow()
def run(steps: int) -> int:
    """One run of as many steps, each fed with the result of the one before it."""
    number = 0
    for _ in range(steps):
        number = count(number)
    return number


def start(state: Path, journal: str | None) -> None:
    """Opens DBOS on a new file and keeps its connections, so that their settings can be read back."""
    path = state / "dbos.sqlite"
    if journal is not None:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute(f"PRAGMA journal_mode={journal}")  # argparse allows only known names
    sqlalchemy.event.listen(sqlalchemy.pool.Pool, "connect", lambda connection, _: _connections.append(connection))
    DBOS(config={"name": "bench", "system_database_url": f"sqlite:///{path}", "log_level": "ERROR"})
    DBOS.launch()


def one_run(steps: int = STEPS) -> None:
    """Makes one run and checks that each of its steps took part."""
    assert run(steps) == steps


def pragma(name: str) -> str:
    """What all of the peer's connections say, once or, where they differ, each."""
    return " or ".join(sorted({str(each.execute(f"PRAGMA {name}").fetchone()[0]) for each in _connections}))


def main() -> None:
    """Prints the lines of the mode that the command line names."""
    command = parser("peer_dbos", ("ten", "history", "idle"))
    command.add_argument("--peer", default="dbos", help="the name printed in each line")
    command.add_argument("--journal", choices=("wal", "delete"), help="set the journal mode of the file beforehand")
    asked = request(command)
    peer = asked.rest.peer
    start(asked.state, asked.rest.journal)
    one_run()
    if asked.mode == "ten":
        for concurrency in CONCURRENCIES:
            emit_ten(peer, concurrency, by_threads(one_run, concurrency, asked.seconds))
        settings = {name: pragma(name) for name in ("journal_mode", "synchronous")}
        emit(peer, "about", version=version("dbos"), **settings)
    elif asked.mode == "history":
        emit_history(peer, one_run)
    else:
        emit_idle(peer, asked.seconds)
    os._exit(0)  # its background threads poll for up to a second before they end; the folder is thrown away


if __name__ == "__main__":
    main()
