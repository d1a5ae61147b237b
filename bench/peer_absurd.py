"""Measures Absurd: its schema as `absurdctl` bundles it, plain workers of its synchronous SDK, one connection each.

A task runs in a worker and nowhere else. Alone, a client waits for each task's end and asks every 2 ms, with a worker
that polls every 5 ms (the default of 250 ms would be waited for in every run). At 10 and 100 that many clients would
drown it in questions: there the tasks are enqueued first and then drained by 10 and 50 one-thread workers of one
process, which was faster than one worker with as many threads; a run's latency is missing there.
"""

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from uuid import uuid4

import psycopg
from absurd_sdk import Absurd, TaskContext
from absurdctl import BUNDLED_SCHEMA_SQL

from bench.counters import counting, durability, emit_cost, statements
from bench.drain import command, emit_processes, emit_queue, ready
from bench.load import by_threads, emit_history, emit_idle, emit_ten, emit_wake
from bench.modes import BODY_SECONDS, STEPS, emit, parser, request

PEER = "absurd"
_QUEUE = "runs"
_POLL, _DEFAULT_POLL = 0.005, 0.25
_ASK_AGAIN_SECONDS = 0.002
_CLIENTS = 10
_WORKERS_AT = {10: 10, 100: 50}
_DRAINED = 200
_RUNS = 200
_COST_RUNS = 200
_WAKES = 30
_REST_SECONDS = 0.15
_IDLE_SECONDS = 10.0
_OPEN = "SELECT count(*) FROM absurd.t_runs WHERE state NOT IN ('completed', 'failed', 'cancelled')"


def _opened(url: str) -> Absurd:
    """A client that knows the tasks."""
    app = Absurd(url, queue_name=_QUEUE)

    @app.register_task(name="ten")
    def ten(params: dict[str, int], context: TaskContext) -> int:
        return sum(context.step(f"count-{number}", lambda: 1) for number in range(params["steps"]))

    @app.register_task(name="waiting")
    def waiting(params: dict[str, int], context: TaskContext) -> int:
        return sum(context.step(f"wait-{number}", _wait) for number in range(params["steps"]))

    @app.register_task(name="woken")
    def woken(params: dict[str, str], context: TaskContext) -> float:
        context.await_event(params["event"])
        return time.time()

    return app


def _wait() -> int:
    time.sleep(BODY_SECONDS)
    return 1


def make_tables(url: str) -> None:
    """Its schema and one queue."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(BUNDLED_SCHEMA_SQL.encode())
    app = _opened(url)
    app.create_queue()
    app.close()


def begin_workers(url: str, number: int, poll: float) -> list[Absurd]:
    """One-thread workers, each on a connection of its own."""
    apps = [_opened(url) for _ in range(number)]
    for app in apps:
        threading.Thread(target=app.start_worker, daemon=True, kwargs={"poll_interval": poll}).start()
    return apps


def _await(app: Absurd, task: str) -> object:
    """The result of a task, which must have completed."""
    while (found := app.fetch_task_result(task)) is None or found.state in ("pending", "running", "sleeping"):
        time.sleep(_ASK_AGAIN_SECONDS)
    assert found.state == "completed", found
    return found.result


class TaskQueue:
    """Tasks that workers elsewhere take."""

    def __init__(self, url: str) -> None:
        self._url = url

    def put(self, kind: str, runs: int) -> None:
        """See `drain.Queue`."""
        numbers = iter(range(runs))

        def client() -> None:
            app = _opened(self._url)
            for _ in numbers:
                app.spawn(kind, {"steps": STEPS})
            app.close()

        with ThreadPoolExecutor(_CLIENTS) as pool:
            for done in [pool.submit(client) for _ in range(_CLIENTS)]:
                done.result()

    def await_end(self) -> None:
        """See `drain.Queue`."""
        with psycopg.connect(self._url, autocommit=True) as connection:
            while connection.execute(_OPEN.encode()).fetchone() != (0,):
                time.sleep(_ASK_AGAIN_SECONDS * 5)


def ten(url: str, seconds: float) -> None:
    """Prints the lines of mode `ten`."""
    workers = begin_workers(url, 1, _POLL)
    client = _opened(url)

    def one_run() -> None:
        assert _await(client, client.spawn("ten", {"steps": STEPS})["task_id"]) == STEPS

    one_run()
    emit_ten(PEER, 1, by_threads(one_run, 1, seconds))
    for app in workers:
        app.stop_worker()
    for concurrency, number in _WORKERS_AT.items():
        time.sleep(_DEFAULT_POLL)  # until those before have stopped
        queue = TaskQueue(url)
        queue.put("ten", _DRAINED)
        begun = time.perf_counter()
        workers = begin_workers(url, number, _POLL)
        queue.await_end()
        passed = time.perf_counter() - begun
        rate = _DRAINED * STEPS / passed
        emit(PEER, "ten", concurrency=concurrency, runs=_DRAINED, steps_per_s=rate, seconds=passed)
        for app in workers:
            app.stop_worker()
    emit(PEER, "about", version=version("absurd-sdk"), settings=durability(url))


def wake_ups(url: str) -> list[float]:
    """Seconds from each event to the moment when its task goes on."""
    client, seconds = _opened(url), []
    for _ in range(_WAKES):
        event = str(uuid4())
        task = client.spawn("woken", {"event": event})["task_id"]
        time.sleep(_REST_SECONDS)
        sent = time.time()
        client.emit_event(event, {"go": True})
        went_on = _await(client, task)
        assert isinstance(went_on, float), went_on
        seconds.append(went_on - sent)
    return seconds


def cost(url: str) -> None:
    """Prints the line of mode `cost`; the worker looks once for each run."""
    with counting(url) as spent:
        app = _opened(url)
        for _ in range(_COST_RUNS):
            app.spawn("ten", {"steps": STEPS})
            app.work_batch()
        app.close()
    emit_cost(PEER, 1, spent, _COST_RUNS * STEPS)


def history(url: str) -> None:
    """Prints the lines of mode `history`."""
    app = _opened(url)

    def run_of(steps: int) -> None:
        app.spawn("ten", {"steps": steps})
        app.work_batch()

    emit_history(PEER, run_of)


def main() -> None:
    """Prints the lines of the mode that the command line names."""
    modes = ("ten", "history", "idle", "queue", "processes", "wake", "cost", "worker")
    asked = request(parser("peer_absurd", modes))
    url = asked.server
    assert url is not None, "it knows PostgreSQL alone"
    if asked.mode == "worker":
        ready()
        begin_workers(url, _WORKERS_AT[10], _POLL)
        time.sleep(3600)
    make_tables(url)
    if asked.mode == "ten":
        ten(url, asked.seconds)
    elif asked.mode == "history":
        history(url)
    elif asked.mode == "queue":
        emit_queue(PEER, TaskQueue(url), command("peer_absurd", asked), _RUNS)
    elif asked.mode == "processes":
        emit_processes(PEER, TaskQueue(url), command("peer_absurd", asked), _RUNS)
    elif asked.mode == "wake":
        begin_workers(url, 1, _POLL)
        emit_wake(PEER, wake_ups(url))
    elif asked.mode == "cost":
        cost(url)
    else:
        begin_workers(url, 1, _DEFAULT_POLL)
        emit_idle(PEER, max(asked.seconds, _IDLE_SECONDS), lambda: statements(url))
    os._exit(0)  # workers that poll end only after their pause; the database is thrown away


if __name__ == "__main__":
    main()
