"""Measures DBOS as its documentation sets it up, on SQLite or on PostgreSQL: one process, steps called from threads.

Every step stores its result in a transaction of its own. On a file that is SQLite's rollback journal with
synchronous=FULL, which DBOS keeps; `--journal wal` puts the file into WAL mode beforehand: no default, but the first
thing that an operator would try. Threads are used because they were faster than its async workflows here.
Only the log level and the queue's polling (0.1 s) differ from the defaults, to the peer's advantage. Recovery is not
measured here.
"""

import os
import sqlite3
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from importlib.metadata import version
from typing import Any

import sqlalchemy
from dbos import DBOS, DBOSClient

from bench.counters import counting, durability, emit_cost, statements
from bench.drain import command as worker_command
from bench.drain import emit_processes, emit_queue, ready
from bench.load import by_threads, emit_history, emit_idle, emit_ten, emit_wake
from bench.modes import BODY_SECONDS, CONCURRENCIES, STEPS, Request, emit, parser, request

_QUEUE = "runs"
_CLIENTS = 10
_RUNS = 100
_COST_RUNS = 100
_WAKES = 30
_REST_SECONDS = 0.15
_IDLE_SECONDS = 10.0

_connections: list[Any] = []


@DBOS.step()
def count(number: int) -> int:
    """The trivial step: a small value in, a small value out."""
    return number + 1


@DBOS.step()
def wait(number: int) -> int:
    """A step that waits as if a near target answered."""
    time.sleep(BODY_SECONDS)
    return number + 1


@DBOS.workflow(name="ten")
def run(steps: int) -> int:
    """One run of as many steps, each fed with the result of the one before it."""
    number = 0
    for _ in range(steps):
        number = count(number)
    return number


@DBOS.workflow(name="waiting")
def waiting(steps: int) -> int:
    """The same with steps that wait."""
    number = 0
    for _ in range(steps):
        number = wait(number)
    return number


@DBOS.workflow()
def woken() -> float:
    """Waits for a message, and returns when it came."""
    DBOS.recv("go", timeout_seconds=30)
    return time.perf_counter()


def url_of(asked: Request) -> str:
    """Where its tables are."""
    if asked.server is None:
        return f"sqlite:///{asked.state / 'dbos.sqlite'}"
    return asked.server.replace("postgresql:", "postgresql+psycopg:", 1)


def start(asked: Request, executor: str = "local", queues: Sequence[str] | None = None) -> None:
    """Opens DBOS on a new database and keeps its connections, so that their settings can be read back."""
    if asked.rest.journal is not None:
        with closing(sqlite3.connect(asked.state / "dbos.sqlite")) as connection:
            connection.execute(f"PRAGMA journal_mode={asked.rest.journal}")  # argparse allows only known names
    sqlalchemy.event.listen(sqlalchemy.pool.Pool, "connect", lambda connection, _: _connections.append(connection))
    DBOS(
        config={
            "name": "bench", "system_database_url": url_of(asked), "log_level": "ERROR", "executor_id": executor,
            "application_version": "1",
        }
    )  # fmt: skip
    if queues is not None:
        DBOS.listen_queues(queues)
    DBOS.launch()


def one_run(steps: int = STEPS) -> None:
    """Makes one run and checks that each of its steps took part."""
    assert run(steps) == steps


def settings(asked: Request) -> str:
    """What all of the peer's connections to a file say, once or, where they differ, each; or what the server says."""
    if asked.server is not None:
        return durability(asked.server)
    return ", ".join(f"{name}={_said(name)}" for name in ("journal_mode", "synchronous"))


def _said(pragma: str) -> str:
    return " or ".join(sorted({str(each.execute(f"PRAGMA {pragma}").fetchone()[0]) for each in _connections}))


class RunQueue:
    """Its queue, filled and watched by its client."""

    def __init__(self, asked: Request) -> None:
        start(asked, queues=[])  # this process makes the tables and takes nothing itself
        DBOS.destroy()
        self._client = DBOSClient(system_database_url=url_of(asked))
        self._handles: list[Any] = []

    def put(self, kind: str, runs: int) -> None:
        """See `drain.Queue`."""
        options = {"queue_name": _QUEUE, "workflow_name": kind, "app_version": "1"}
        with ThreadPoolExecutor(_CLIENTS) as pool:
            self._handles = list(pool.map(lambda _: self._client.enqueue(options, STEPS), range(runs)))

    def await_end(self) -> None:
        """See `drain.Queue`."""
        for handle in self._handles:
            assert handle.get_result(polling_interval_sec=0.01) == STEPS


def work(asked: Request) -> None:
    """Takes from the queue until killed."""
    ready()
    start(asked, f"worker-{os.getpid()}", [_QUEUE])
    DBOS.register_queue(_QUEUE, worker_concurrency=_CLIENTS, polling_interval_sec=0.1)
    time.sleep(3600)


def wake_ups() -> list[float]:
    """Seconds from each message to the moment when its workflow goes on."""
    seconds = []
    for _ in range(_WAKES):
        handle = DBOS.start_workflow(woken)
        time.sleep(_REST_SECONDS)
        sent = time.perf_counter()
        DBOS.send(handle.workflow_id, "go", "go")
        seconds.append(handle.get_result() - sent)
    return seconds


def cost(peer: str, asked: Request) -> None:
    """Prints the line of mode `cost`."""
    assert asked.server is not None, "a file has no statistics"
    with counting(asked.server) as spent:
        for _ in range(_COST_RUNS):
            one_run()
        DBOS.destroy()
    emit_cost(peer, 1, spent, _COST_RUNS * STEPS)


def measure(peer: str, asked: Request) -> None:
    """Prints the lines of a mode that needs nothing but this process."""
    start(asked)
    one_run()
    if asked.mode == "ten":
        for concurrency in CONCURRENCIES:
            emit_ten(peer, concurrency, by_threads(one_run, concurrency, asked.seconds))
        emit(peer, "about", version=version("dbos"), settings=settings(asked))
    elif asked.mode == "history":
        emit_history(peer, one_run)
    elif asked.mode == "wake":
        emit_wake(peer, wake_ups())
    elif asked.mode == "cost":
        cost(peer, asked)
    elif asked.server is None:
        emit_idle(peer, asked.seconds)
    else:
        url = asked.server
        emit_idle(peer, max(asked.seconds, _IDLE_SECONDS), lambda: statements(url))


def main() -> None:
    """Prints the lines of the mode that the command line names."""
    command = parser("peer_dbos", ("ten", "history", "idle", "queue", "processes", "wake", "cost", "worker"))
    command.add_argument("--peer", default="dbos", help="the name printed in each line")
    command.add_argument("--journal", choices=("wal", "delete"), help="set the journal mode of the file beforehand")
    asked = request(command)
    peer = asked.rest.peer
    if asked.mode == "worker":
        work(asked)
    elif asked.mode == "queue":
        emit_queue(peer, RunQueue(asked), worker_command("peer_dbos", asked), _RUNS)
    elif asked.mode == "processes":
        emit_processes(peer, RunQueue(asked), worker_command("peer_dbos", asked), _RUNS)
    else:
        measure(peer, asked)
    os._exit(0)  # its background threads poll for up to a second before they end; the folder is thrown away


if __name__ == "__main__":
    main()
