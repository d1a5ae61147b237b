"""Measures Fencepost across processes: a queue drained by workers, and a signal that wakes a run somewhere else.

This process only writes to the ledger and looks at it; the workers are processes of `subject` in mode `worker`. What
the runs do is in `work`; how workers are started and timed in `drain`.
"""

import asyncio
import time

from bench.drain import ready
from bench.place import Place
from bench.work import app_on, new_id, tickets, waiting_bodies, woken
from fencepost.runtime.app import App
from fencepost.runtime.collector import quiet_collector
from fencepost.runtime.handle import Handle

CLIENTS = 10
WAKES = 40
_LOOK_AGAIN_SECONDS = 0.01
_REST_SECONDS = 0.1
"""Before each signal, so that the worker has gone to rest."""
_KINDS = {"ten": tickets, "waiting": waiting_bodies}


class RunQueue:
    """Runs on a ledger that workers elsewhere take."""

    def __init__(self, where: Place) -> None:
        self._where = where

    def put(self, kind: str, runs: int) -> None:
        """See `drain.Queue`."""
        asyncio.run(self._put(kind, runs))

    async def _put(self, kind: str, runs: int) -> None:
        numbers = iter(range(runs))

        async def client(app: App) -> None:
            for _ in numbers:
                await app.start(_KINDS[kind], 10, id=new_id())

        async with app_on(self._where) as app:
            await asyncio.gather(*(client(app) for _ in range(CLIENTS)))

    def await_end(self) -> None:
        """See `drain.Queue`."""
        with self._where.seen() as eye:
            while eye.ask("SELECT count(*) FROM run WHERE ended_at IS NULL")[0][0]:
                assert not eye.ask("SELECT id FROM run WHERE state = 'held'"), "a run is held"
                time.sleep(_LOOK_AGAIN_SECONDS)


async def work(where: Place) -> None:
    """Work until killed."""
    quiet_collector()  # as `fencepost worker` does
    async with app_on(where) as app:
        app.store.now()
        ready()
        async with app.worker():
            await asyncio.Event().wait()


async def wake_ups(where: Place) -> list[float]:
    """Seconds from each signal to the moment when its run went on, in a worker that runs already."""
    async with app_on(where) as app:
        return [await wake_up(app, where) for _ in range(WAKES)]


async def wake_up(app: App, where: Place) -> float:
    """Seconds from one signal to the moment when its run goes on."""
    handle: Handle[int] = await app.start(woken, id=new_id())
    question = "SELECT 1 FROM run WHERE namespace = 'default' AND id = ? AND state = 'waiting'"
    with where.seen() as eye:
        while not eye.ask(question, handle.id):  # noqa: ASYNC110 - another process makes it so
            await asyncio.sleep(_LOOK_AGAIN_SECONDS)
    await asyncio.sleep(_REST_SECONDS)
    sent = time.time_ns()
    await app.signal(handle.id, "approved", value=True)
    return (await handle.result() - sent) / 1e9
