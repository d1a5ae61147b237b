"""Measures what runs cost a process while all they do is wait for a signal that nobody sends.

`waiting` starts ten thousand of them and sees the process grow; SQLite's page cache is part of that. A million, which
no engine has to start, are `million`'s matter.
"""

import asyncio
import gc
import os
import resource
import sys
import time
from pathlib import Path

from bench.modes import emit
from bench.place import Place
from bench.work import approval, new_id, working
from fencepost.runtime.app import App

_WAITING = 10_000
_WARM_UP = 500
_STARTED_AT_ONCE = 500
_LOOK_AGAIN_SECONDS = 0.05
_BYTES_PER_MIB = 1024**2
_KIB_PER_MIB = 1024


async def waiting(peer: str, where: Place) -> None:
    """Prints the line of mode `waiting`: what the process grows by."""
    async with working(where) as app:
        await _wait_in(app, where, _WARM_UP)
        before = resident()
        begun = time.perf_counter()
        await _wait_in(app, where, _WARM_UP + _WAITING)
        seconds = time.perf_counter() - begun
        grown = (resident() - before) * 10_000 / _WAITING
    emit(peer, "waiting", runs=_WAITING, mib_per_10000=grown, seconds=seconds)


async def _wait_in(app: App, where: Place, wanted: int) -> None:
    """Starts runs until so many are there, and returns when all of them wait."""
    there = await asyncio.to_thread(where.runs_in, "waiting")
    while there < wanted:
        batch = range(there, min(wanted, there + _STARTED_AT_ONCE))
        await asyncio.gather(*(app.start(approval, number, id=new_id()) for number in batch))
        there = batch.stop
        while await asyncio.to_thread(where.runs_in, "waiting") < there:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(_LOOK_AGAIN_SECONDS)


def resident() -> float:
    """MiB of this process in memory; where only the peak is known, the peak."""
    gc.collect()
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        unit = _BYTES_PER_MIB if sys.platform == "darwin" else _KIB_PER_MIB
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / unit
    return pages * os.sysconf("SC_PAGE_SIZE") / _BYTES_PER_MIB
