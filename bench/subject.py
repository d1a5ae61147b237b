"""Measures Fencepost: a real effect in a real worker, on a ledger whose settings are read back.

What is done stands in `work`, who sees to it that intents came first in `witness`; the bare journal is `ceiling`, the
killed process `recovery`. This file answers the command line and prints the lines; it compares nothing.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from bench import ceiling, fleet, memory, million, recovery
from bench.counters import counting, durability, emit_cost, statements
from bench.drain import begin, command, emit_processes, emit_queue, started
from bench.load import by_tasks, emit_history, emit_idle, emit_ten, emit_wake
from bench.modes import CONCURRENCIES, STEPS, Request, emit, parser, request
from bench.place import Place
from bench.witness import WITNESS
from bench.work import app_on, one_run, working
from fencepost import __version__
from fencepost.runtime.app import App
from fencepost.runtime.collector import quiet_collector

PEER = "fencepost"
_SYNCHRONOUS = {0: "OFF", 1: "NORMAL", 2: "FULL", 3: "EXTRA"}
_MODES = (
    "ten", "ceiling", "history", "waiting", "idle", "recovery", "queue", "processes", "wake", "cost", "million",
    "worker",
)  # fmt: skip
_COST_RUNS = ((1, 200), (100, 600))
"""How many at a time, and how many in all."""
_QUEUED = 2_000
_IDLE_SECONDS = 20.0
"""On a server: a lease is renewed every 5 s, and the listener proves every 10 s that it hears."""
RECOVERED, RECOVERED_ON_SERVER = 100, 1_000


async def ten(where: Place, seconds: float) -> None:
    """Prints the lines of mode `ten`, and `about` with what the witness has seen."""
    quiet_collector()  # as `fencepost worker` does
    async with working(where, WITNESS.committed) as app:
        WITNESS.watch(where)
        await one_run(app)
        for concurrency in CONCURRENCIES:
            emit_ten(PEER, concurrency, await by_tasks(lambda: one_run(app), concurrency, seconds))
        WITNESS.close()
        settings = _settings(app, where)
    emit(PEER, "about", version=__version__, note=testimony(), settings=settings)


def testimony() -> str:
    """What the witness has seen, in a sentence; a violation fails the measurement."""
    seen = WITNESS.testimony()
    assert seen.violations == 0, f"bodies without a durable intent: {seen}"
    assert seen.bodies == seen.acknowledged > 0, f"not one body for each acknowledged dispatch: {seen}"
    return f"{seen.bodies:,} bodies, each after its intent was durable ({seen.read_back:,} read back)"


def _settings(app: App, where: Place) -> str:
    """What durability rests on, read back."""
    if where.server is None:
        names = ("journal_mode", "synchronous")
        return ", ".join(f"{name}={_pragma(app, name)}" for name in names)
    return durability(where.server)


def _pragma(app: App, name: str) -> str:
    """What the connection that writes the ledger says of itself."""
    answer = app.store._connection.execute(f"PRAGMA {name}")[0][0]  # noqa: SLF001 - the setting belongs to it alone
    return _SYNCHRONOUS.get(answer, str(answer))


async def history(where: Place) -> None:
    """Prints the lines of mode `history`."""
    async with working(where) as app:
        await one_run(app)
        loop = asyncio.get_running_loop()

        def run_of(steps: int) -> None:
            asyncio.run_coroutine_threadsafe(one_run(app, steps), loop).result()

        await asyncio.to_thread(emit_history, PEER, run_of)


async def idle(where: Place, seconds: float) -> None:
    """Prints the line of mode `idle`: a worker that has made one run and has nothing else to do."""
    async with working(where) as app:
        await one_run(app)
        server = where.server
        if server is None:
            await asyncio.to_thread(emit_idle, PEER, seconds)
        else:
            await asyncio.to_thread(emit_idle, PEER, max(seconds, _IDLE_SECONDS), lambda: statements(server))


async def cost(where: Place) -> None:
    """Prints the lines of mode `cost`: one run after the other, and a hundred at a time."""
    assert where.server is not None, "a file has no statistics"
    async with working(where) as app:
        await one_run(app)  # its tables are there, its statements known
    for concurrency, runs in _COST_RUNS:
        with counting(where.server) as spent:
            trips = await _work_off(where, concurrency, runs)
        emit_cost(PEER, concurrency, spent, runs * STEPS, round_trips=trips / (runs * STEPS))


async def _work_off(where: Place, concurrency: int, runs: int) -> int:
    """Make so many runs, and close everything; how many round trips that took, without those of a start."""
    numbers = iter(range(runs))

    async def client(app: App) -> None:
        for _ in numbers:
            await one_run(app)

    async with working(where) as app:
        before = _round_trips(app)
        await asyncio.gather(*(client(app) for _ in range(concurrency)))
        return _round_trips(app) - before


def _round_trips(app: App) -> int:
    pool = app.store._pool  # noqa: SLF001 - nobody else counts them
    return sum(connection.round_trips for connection in pool._free)  # noqa: SLF001 - the same


def wake(asked: Request) -> None:
    """Prints the line of mode `wake`."""
    asyncio.run(_make(asked.where))
    with started([command("subject", asked)]) as workers:
        begin(workers)
        emit_wake(PEER, asyncio.run(fleet.wake_ups(asked.where)))


async def _make(where: Place) -> None:
    async with app_on(where) as app:
        app.store.now()


def main() -> None:
    """Prints the lines of the mode that the command line names."""
    options = parser("subject", _MODES)
    options.add_argument("--waiting", type=int, default=million.RUNS, help="runs of mode million")
    asked = request(options)
    where = asked.where
    measure: dict[str, Callable[[], Coroutine[Any, Any, None]]] = {
        "ten": lambda: ten(where, asked.seconds),
        "ceiling": lambda: ceiling.measure(PEER, where, asked.seconds),
        "history": lambda: history(where),
        "waiting": lambda: memory.waiting(PEER, where),
        "idle": lambda: idle(where, asked.seconds),
        "cost": lambda: cost(where),
        "worker": lambda: fleet.work(where),
    }
    if asked.mode in measure:
        asyncio.run(measure[asked.mode]())
    elif asked.mode == "recovery":
        recovery.measure(PEER, where, RECOVERED_ON_SERVER if where.server else RECOVERED)
    elif asked.mode == "million":
        million.measure(PEER, asked, asked.rest.waiting)
    elif asked.mode == "wake":
        wake(asked)
    else:
        of_queue = emit_queue if asked.mode == "queue" else emit_processes
        of_queue(PEER, fleet.RunQueue(where), command("subject", asked), _QUEUED)


if __name__ == "__main__":
    main()
