"""Keeps a fixed number of runs going for a while and says how many ended and how long each took.

The loop is closed: each client starts its next run when its last one has ended, so that a slow contestant is not
drowned. It knows nothing of what a run does; the contestants (`peer_*`, `subject`) bring that.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from math import ceil
from typing import NamedTuple

from bench.modes import HISTORIES, STEPS, emit

_STEPS_PER_HISTORY_MIN = 300
"""Short histories are repeated up to about so many steps, since one run of ten says little."""

_IDLE_SECONDS_MIN = 3.0
"""A peer that polls once a second needs a few of them to show it."""


class Load(NamedTuple):
    """What a closed loop saw."""

    seconds: float
    """From the first start to the last end. It is longer than asked for by what the open runs still needed."""
    latencies: list[float]
    """Seconds that each run took, in no order."""


def percentile(values: list[float], share: float) -> float:
    """The smallest value that at least `share` (0 to 1) of all values do not exceed (nearest rank)."""
    assert values, "no run has ended, so there is nothing to rank"
    return sorted(values)[max(0, ceil(share * len(values)) - 1)]


def by_threads(run: Callable[[], object], concurrency: int, seconds: float) -> Load:
    """Runs `run` from as many threads. What one of them raises is raised here."""
    started = time.perf_counter()

    def client(_: int) -> list[float]:
        latencies: list[float] = []
        while (begun := time.perf_counter()) - started < seconds or not latencies:
            run()
            latencies.append(time.perf_counter() - begun)
        return latencies

    with ThreadPoolExecutor(concurrency) as pool:
        each = list(pool.map(client, range(concurrency)))
    return Load(time.perf_counter() - started, [latency for latencies in each for latency in latencies])


async def by_tasks(run: Callable[[], Awaitable[object]], concurrency: int, seconds: float) -> Load:
    """Awaits `run` from as many tasks of the running loop. What one of them raises is raised here."""
    started = time.perf_counter()

    async def client() -> list[float]:
        latencies: list[float] = []
        while (begun := time.perf_counter()) - started < seconds or not latencies:
            await run()
            latencies.append(time.perf_counter() - begun)
        return latencies

    each = await asyncio.gather(*(client() for _ in range(concurrency)))
    return Load(time.perf_counter() - started, [latency for latencies in each for latency in latencies])


def emit_wake(peer: str, seconds: list[float]) -> None:
    """Prints the line of mode `wake`."""
    p50, p99 = (percentile(seconds, share) * 1e3 for share in (0.50, 0.99))
    emit(peer, "wake", wakes=len(seconds), p50_ms=p50, p99_ms=p99)


def emit_ten(peer: str, concurrency: int, load: Load) -> None:
    """Prints the line of mode `ten` for runs of `STEPS` steps."""
    emit(
        peer,
        "ten",
        concurrency=concurrency,
        runs=len(load.latencies),
        steps_per_s=STEPS * len(load.latencies) / load.seconds,
        p50_ms=percentile(load.latencies, 0.50) * 1e3,
        p99_ms=percentile(load.latencies, 0.99) * 1e3,
        seconds=load.seconds,
    )


def emit_history(peer: str, run_of: Callable[[int], object]) -> None:
    """Prints the lines of mode `history`; `run_of(steps)` is one whole run of as many steps."""
    for history in HISTORIES:
        repeats = max(1, _STEPS_PER_HISTORY_MIN // history)
        begun = time.perf_counter()
        for _ in range(repeats):
            run_of(history)
        emit(peer, "history", history=history, ms_per_step=(time.perf_counter() - begun) / (repeats * history) * 1e3)


def emit_idle(peer: str, seconds: float, statements: Callable[[], int | None] = lambda: None) -> None:
    """Prints the line of mode `idle`: what passes of the process's time while the calling thread sleeps.

    `statements` says how many the database has been given so far, where it counts them.
    """
    before, used, begun = statements(), time.process_time(), time.perf_counter()
    time.sleep(max(seconds, _IDLE_SECONDS_MIN))
    passed = time.perf_counter() - begun
    cpu = (time.process_time() - used) / passed * 100
    after = statements()
    given = {} if before is None or after is None else {"statements_per_s": (after - before) / passed}
    emit(peer, "idle", cpu_percent=cpu, seconds=passed, **given)
