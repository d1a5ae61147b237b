"""Measures a worker beside a million runs that wait: its memory, its claims, its wake-ups, and what it does at rest.

The rows are made by one INSERT ... SELECT from a run that the engine has made itself, so that they are what it would
have written; half of them wait for a signal alone, half also have a time far ahead, which a claim's index holds.
The worker is a process of its own, whose memory and time are read in /proc. Which plans the hot queries have beside so
many rows is a test's matter (tests/services).
"""

import asyncio
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from bench.counters import statements
from bench.drain import begin, command, started
from bench.fleet import WAKES, wake_up
from bench.load import percentile
from bench.modes import Request, emit
from bench.place import Eye, Place
from bench.work import app_on, approval, new_id, woken, working
from fencepost.runtime.app import App

RUNS = 1_000_000
_LOOK_AGAIN_SECONDS = 0.01
_LOOK_AT_ONCE_SECONDS = 0.001
_SETTLED_SECONDS = 2.0
_IDLE_SECONDS = 20.0
_BYTES_PER_MIB = 1024**2

_COPY_RUNS = """
    INSERT INTO run (
        namespace, id, workflow, workflow_version, principal, input, fingerprint, state, generation, version, wake_at,
        delivered, created_at, changed_at
    )
    SELECT namespace, 'waiting-' || number, workflow, workflow_version, principal, input, fingerprint, state,
        generation, version, CASE WHEN mod(number, 2) = 0 THEN changed_at + 86400000000 + number END,
        delivered, created_at, changed_at
    FROM run, generate_series(1, ?) AS number WHERE id = ?
"""
_COPY_STEPS = """
    INSERT INTO step (run, position, kind, name, fingerprint, version, state, request, detail, due_at, opened_at)
    SELECT run.no, position, kind, name, step.fingerprint, step.version, step.state, request, detail, due_at, opened_at
    FROM step JOIN run ON run.id LIKE 'waiting-%%' WHERE step.run = (SELECT no FROM run WHERE id = ?)
"""


def fill(eye: Eye, like: str, runs: int) -> None:
    """Copy a waiting run and its open wait so many times, and let the server see how many there are."""
    eye.ask(_COPY_RUNS, runs, like)
    eye.ask(_COPY_STEPS, like)
    eye.ask("VACUUM ANALYZE")


async def one_waiting(where: Place) -> str:
    """Have the engine make one run that waits; its id."""
    async with working(where) as app:
        run = await app.start(approval, 1, id=new_id())
        await seen(lambda: where.runs_in("waiting") > 0, every=_LOOK_AGAIN_SECONDS)
        return run.id


class _Process(NamedTuple):
    """A worker as the system sees it (Linux)."""

    pid: int

    def mib(self) -> float:
        """What of it is in memory."""
        pages = int(Path(f"/proc/{self.pid}/statm").read_text("ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / _BYTES_PER_MIB

    def cpu_seconds(self) -> float:
        """What it has used so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text("ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def _worker(asked: Request) -> Iterator[_Process]:
    with started([command("subject", asked)]) as workers:
        begin(workers)
        time.sleep(_SETTLED_SECONDS)
        yield _Process(workers[0].pid)


def measure(peer: str, asked: Request, runs: int) -> None:
    """Prints the line of mode `million`."""
    where = asked.where
    assert where.server is not None, "so many runs are made by a server's own statement"
    like = asyncio.run(one_waiting(where))
    with _worker(asked) as worker:
        before = worker.mib()
    begun = time.perf_counter()
    with where.seen() as eye:
        fill(eye, like, runs)
    filling = time.perf_counter() - begun
    with _worker(asked) as worker:
        claims, wakes = asyncio.run(_claims_and_wakes(where))
        used, rested, given = worker.cpu_seconds(), time.perf_counter(), statements(where.server)
        time.sleep(_IDLE_SECONDS)
        cpu, passed = worker.cpu_seconds() - used, time.perf_counter() - rested
        after, asked_for = worker.mib(), statements(where.server)
    more = {} if given is None or asked_for is None else {"idle_statements_per_s": (asked_for - given) / passed}
    emit(
        peer,
        "million",
        runs=runs,
        fill_seconds=filling,
        worker_mib=after,
        grown_mib=after - before,
        claim_p50_ms=percentile(claims, 0.50) * 1e3,
        claim_p99_ms=percentile(claims, 0.99) * 1e3,
        wake_p50_ms=percentile(wakes, 0.50) * 1e3,
        wake_p99_ms=percentile(wakes, 0.99) * 1e3,
        idle_cpu_percent=cpu / passed * 100,
        **more,
    )


async def _claims_and_wakes(where: Place) -> tuple[list[float], list[float]]:
    async with app_on(where) as app:
        with where.seen() as eye:
            claims = [await _claimed(app, eye) for _ in range(WAKES)]
        return claims, [await wake_up(app, where) for _ in range(WAKES)]


async def _claimed(app: App, eye: Eye) -> float:
    """Seconds from the start of a run, by somebody without a worker, to the moment when it is owned or was."""
    begun = time.perf_counter()
    run = await app.start(woken, id=new_id())
    question = "SELECT 1 FROM run WHERE namespace = 'default' AND id = ? AND generation > 0"
    await seen(lambda: bool(eye.ask(question, run.id)), every=_LOOK_AT_ONCE_SECONDS)
    return time.perf_counter() - begun


async def seen(is_so: Callable[[], bool], *, every: float) -> None:
    """Return when it is so; nobody tells."""
    while not is_so():  # noqa: ASYNC110 - another process makes it so
        await asyncio.sleep(every)
