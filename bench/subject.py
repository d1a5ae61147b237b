"""Measures Fencepost: a real effect in a real worker, on a ledger whose settings are read back.

What is done stands in `work`, who sees to it that intents came first in `witness`; the bare journal is `ceiling`, the
killed process `recovery`. This file answers the command line and prints the lines; it compares nothing.
"""

import asyncio
import gc
import os
import resource
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from bench import ceiling, recovery
from bench.load import by_tasks, emit_history, emit_idle, emit_ten
from bench.modes import CONCURRENCIES, emit, parser, request
from bench.witness import WITNESS
from bench.work import approval, ledger, new_id, one_run, runs_in, working
from fencepost import __version__
from fencepost.runtime.app import App
from fencepost.runtime.worker import quiet_collector

PEER = "fencepost"
_SYNCHRONOUS = {0: "OFF", 1: "NORMAL", 2: "FULL", 3: "EXTRA"}
_WAITING = 10_000
_WARM_UP = 500
_STARTED_AT_ONCE = 500
_LOOK_AGAIN_SECONDS = 0.05
_BYTES_PER_MIB = 1024**2
_KIB_PER_MIB = 1024


async def ten(state: Path, seconds: float) -> None:
    """Prints the lines of mode `ten`, and `about` with what the witness has seen."""
    quiet_collector()  # as `fencepost worker` does
    async with working(state, WITNESS.committed) as app:
        WITNESS.watch(ledger(state))
        await one_run(app)
        for concurrency in CONCURRENCIES:
            emit_ten(PEER, concurrency, await by_tasks(lambda: one_run(app), concurrency, seconds))
        WITNESS.close()
        settings = {name: _pragma(app, name) for name in ("journal_mode", "synchronous")}
    emit(PEER, "about", version=__version__, note=testimony(), **settings)


def testimony() -> str:
    """What the witness has seen, in a sentence; a violation fails the measurement."""
    seen = WITNESS.testimony()
    assert seen.violations == 0, f"bodies without a durable intent: {seen}"
    assert seen.bodies == seen.acknowledged > 0, f"not one body for each acknowledged dispatch: {seen}"
    return f"{seen.bodies:,} bodies, each after its intent was durable ({seen.read_back:,} read back)"


def _pragma(app: App, name: str) -> str:
    """What the connection that writes the ledger says of itself."""
    answer = app.store._connection.execute(f"PRAGMA {name}")[0][0]  # noqa: SLF001 - the setting belongs to it alone
    return _SYNCHRONOUS.get(answer, str(answer))


async def history(state: Path) -> None:
    """Prints the lines of mode `history`."""
    async with working(state) as app:
        await one_run(app)
        loop = asyncio.get_running_loop()

        def run_of(steps: int) -> None:
            asyncio.run_coroutine_threadsafe(one_run(app, steps), loop).result()

        await asyncio.to_thread(emit_history, PEER, run_of)


async def waiting(state: Path) -> None:
    """Prints the line of mode `waiting`: what the process grows by, SQLite's page cache included."""
    async with working(state) as app:
        await _wait_in(app, state, _WARM_UP)
        before = _resident()
        begun = time.perf_counter()
        await _wait_in(app, state, _WARM_UP + _WAITING)
        seconds = time.perf_counter() - begun
        grown = (_resident() - before) * 10_000 / _WAITING
    emit(PEER, "waiting", runs=_WAITING, mib_per_10000=grown, seconds=seconds)


async def _wait_in(app: App, state: Path, wanted: int) -> None:
    """Starts runs until so many are there, and returns when all of them wait."""
    there = await asyncio.to_thread(runs_in, state, "waiting")
    while there < wanted:
        batch = range(there, min(wanted, there + _STARTED_AT_ONCE))
        await asyncio.gather(*(app.start(approval, number, id=new_id()) for number in batch))
        there = batch.stop
        while await asyncio.to_thread(runs_in, state, "waiting") < there:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(_LOOK_AGAIN_SECONDS)


def _resident() -> float:
    """MiB of this process in memory; where only the peak is known, the peak."""
    gc.collect()
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        unit = _BYTES_PER_MIB if sys.platform == "darwin" else _KIB_PER_MIB
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
    return pages * os.sysconf("SC_PAGE_SIZE") / _BYTES_PER_MIB


async def idle(state: Path, seconds: float) -> None:
    """Prints the line of mode `idle`: a worker that has made one run and has nothing else to do."""
    async with working(state) as app:
        await one_run(app)
        await asyncio.to_thread(emit_idle, PEER, seconds)


def main() -> None:
    """Prints the lines of the mode that the command line names."""
    asked = request(parser("subject", ("ten", "ceiling", "history", "waiting", "idle", "recovery")))
    if asked.mode == "recovery":
        recovery.measure(PEER, asked.state)
        return
    measure: Callable[[], Coroutine[Any, Any, None]] = {
        "ten": lambda: ten(asked.state, asked.seconds),
        "ceiling": lambda: ceiling.measure(PEER, asked.state, asked.seconds),
        "history": lambda: history(asked.state),
        "waiting": lambda: waiting(asked.state),
        "idle": lambda: idle(asked.state, asked.seconds),
    }[asked.mode]
    asyncio.run(measure())


if __name__ == "__main__":
    main()
