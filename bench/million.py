"""Measures a worker beside a million runs that wait: its memory, its claims, its wake-ups, and what it does at rest.

The rows are made by one INSERT ... SELECT from a run that the engine has made itself, so that they are what it would
have written; half of them wait for a signal alone, half also have a time far ahead, which a claim's index holds.
Which plans the hot queries have beside so many rows is a test's matter (tests/services).
"""

import asyncio
import time

from bench.counters import statements
from bench.fleet import WAKES
from bench.load import percentile
from bench.memory import resident
from bench.modes import emit
from bench.place import Eye, Place
from bench.work import app_on, approval, new_id, woken, working
from fencepost.runtime.app import App

RUNS = 1_000_000
_LOOK_AGAIN_SECONDS = 0.01
_REST_SECONDS = 0.1
_IDLE_SECONDS = 20.0

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
        while await asyncio.to_thread(where.runs_in, "waiting") == 0:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(_LOOK_AGAIN_SECONDS)
        return run.id


async def measure(peer: str, where: Place, runs: int) -> None:
    """Prints the line of mode `million`."""
    assert where.server is not None, "so many runs are made by a server's own statement"
    like = await one_waiting(where)
    begun = time.perf_counter()
    async with working(where):
        before = resident()
    with where.seen() as eye:
        fill(eye, like, runs)
    filling = time.perf_counter() - begun
    async with working(where), app_on(where) as outside:
        claims = [await _claimed(outside) for _ in range(WAKES)]
        wakes = [await _woken(outside, where) for _ in range(WAKES)]
        idle, per_second = await _at_rest(where.server)
        after = resident()
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
        idle_cpu_percent=idle,
        **({} if per_second is None else {"idle_statements_per_s": per_second}),
    )


async def _claimed(outside: App) -> float:
    """Seconds from the start of a run by somebody without a worker to the moment when it is lived."""
    begun = time.perf_counter()
    run = await outside.start(woken, id=new_id())
    while (await outside.show(run.id)).run.generation == 0:
        await asyncio.sleep(0)
    return time.perf_counter() - begun


async def _woken(outside: App, where: Place) -> float:
    """Seconds from a signal to the moment when its run goes on."""
    run = await outside.start(woken, id=new_id())
    question = "SELECT 1 FROM run WHERE namespace = 'default' AND id = ? AND state = 'waiting'"
    with where.seen() as eye:
        while not eye.ask(question, run.id):
            await asyncio.sleep(_LOOK_AGAIN_SECONDS)
    await asyncio.sleep(_REST_SECONDS)
    sent = time.time_ns()
    await outside.signal(run.id, "approved", value=True)
    return (await run.result() - sent) / 1e9


async def _at_rest(server: str) -> tuple[float, float | None]:
    """Share of a core in percent, and statements a second, of a worker that has nothing to do."""
    before, used, begun = statements(server), time.process_time(), time.perf_counter()
    await asyncio.sleep(_IDLE_SECONDS)
    cpu, passed = time.process_time() - used, time.perf_counter() - begun
    after = statements(server)
    return cpu / passed * 100, None if before is None or after is None else (after - before) / passed
