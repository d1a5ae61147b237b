"""Says where a step's time goes, room by room: `python -m bench.profile`.

A worker makes runs of ten steps, in turns without a profiler for the true cost and under cProfile for how it is
spread. What the profiler itself adds is taken off every call alike, so that the rooms sum up to the true cost; where
small functions are called often, that is a guess and may even turn out negative. What a room's code calls in C
counts as that room's, unless it belongs to SQLite, Pydantic or asyncio; a pass of Python's garbage collector counts
for whoever set it off. Time on other threads, such as a slow sync handed over, is not spread. Comparing with the
ceiling is `table`'s part.
"""

import argparse
import asyncio
import cProfile
import pstats
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from bench.child import ROOT
from bench.load import by_tasks
from bench.modes import STEPS
from bench.place import Place, place
from bench.work import one_run, working
from fencepost.runtime.app import App

_TURNS = 4

Function = tuple[str, int, str]
"""A function as pstats names it: file, line, name. C functions have "~" for a file."""

ROOMS = {
    "runtime": "owns runs: replay, lanes, lease, and what is done with each answer",
    "effects": "leads each operation: contract, permission, deadline, evidence, types at the door",
    "core": "decides: transitions, identity and key, driver, canonical JSON",
    "store": "remembers: moves bound to statements, kinds sorted, answers given out",
    "sqlite": "SQLite itself: the rows, their checks and indexes, the log and its sync",
    "pydantic": "requests and results validated and written out",
    "asyncio": "the event loop, its tasks and futures",
    "bench": "the load itself: clients, the trivial body, the value objects",
    "other": "the rest of the standard library",
}

_C_ROOMS = {
    "sqlite3": "sqlite",
    "pydantic_core": "pydantic",
    "_asyncio": "asyncio",
    "select.epoll": "asyncio",
    "_contextvars": "asyncio",
}


class Cost(NamedTuple):
    """One step's true cost, in microseconds."""

    wall: float
    here: float
    """On the processor, by the thread of the event loop."""
    elsewhere: float
    """On the processor, by all other threads."""


class Spent(NamedTuple):
    """What one function, or one room, spent on a step."""

    microseconds: float
    calls: float


class Profile(NamedTuple):
    """How a step's time in the loop is spread."""

    cost: Cost
    rooms: dict[str, Spent]
    functions: dict[str, Spent]


class _Stopwatch:
    """Sums the clocks over stretches of work."""

    def __init__(self) -> None:
        self._sums = [0.0, 0.0, 0.0]
        self.steps = 0

    async def measure(self, app: App, concurrency: int, seconds: float) -> None:
        """One stretch."""
        began = _clocks()
        load = await by_tasks(lambda: one_run(app), concurrency, seconds)
        self._sums = [total + now - then for total, now, then in zip(self._sums, _clocks(), began, strict=True)]
        self.steps += len(load.latencies) * STEPS

    def cost(self) -> Cost:
        """What a step cost in the mean."""
        wall, thread, process = (total / self.steps * 1e6 for total in self._sums)
        return Cost(wall, thread, process - thread)


def _clocks() -> tuple[float, float, float]:
    return time.perf_counter(), time.thread_time(), time.process_time()


async def measure(where: Place, concurrency: int, seconds: float) -> Profile:
    """Works in turns with and without the profiler, since the machine's speed drifts."""
    plain, profiled, profiler = _Stopwatch(), _Stopwatch(), cProfile.Profile(time.thread_time)
    async with working(where) as app:
        await one_run(app)
        for _ in range(_TURNS):
            await plain.measure(app, concurrency, seconds / _TURNS)
            profiler.enable()
            await profiled.measure(app, concurrency, seconds / _TURNS)
            profiler.disable()
    return spread(pstats.Stats(profiler), profiled.steps, plain.cost())


def spread(stats: pstats.Stats, steps: int, cost: Cost) -> Profile:
    """Lays the profile over the true cost, so that the sums agree.

    The profiler's own work falls half on a function that is called and half on its caller: each end of a call is
    relieved of the same surplus.
    """
    timings: dict[Function, Any] = stats.stats  # type: ignore[attr-defined]  # typeshed does not know it
    made: Counter[Function] = Counter()
    for _, _, _, _, callers in timings.values():
        for caller, (_, times, _, _) in callers.items():
            made[caller] += times
    found = [part for function, timing in timings.items() for part in _parts(function, timing, made[function])]
    surplus = (sum(part.own for part in found) - cost.here / 1e6 * steps) / sum(part.ends for part in found)
    rooms: dict[str, Spent] = {}
    functions: dict[str, Spent] = {}
    for part in found:
        microseconds, calls = (part.own - part.ends * surplus) / steps * 1e6, part.calls / steps
        for sums, key in ((rooms, part.room), (functions, part.name)):
            before = sums.get(key, Spent(0.0, 0.0))
            sums[key] = Spent(before.microseconds + microseconds, before.calls + calls)
    return Profile(cost, rooms, functions)


class _Part(NamedTuple):
    """What one function did on account of one room."""

    room: str
    name: str
    own: float
    """Seconds, the profiler's work included."""
    calls: int
    ends: int
    """Ends of calls: those of it and those by it."""


def _parts(function: Function, timing: Any, made: int) -> Iterator[_Part]:
    """One part; a C function is split among the rooms of its callers."""
    _, number, own, _, callers = timing
    room = room_of(function)
    if room is not None or not callers:
        yield _Part(room or "other", _name(function), own, number, number + made)
        return
    for caller, (_, times, seconds, _) in callers.items():
        yield _Part(room_of(caller) or "other", _name(function), seconds, times, times)


def room_of(function: Function) -> str | None:
    """The room that pays for a function; None for C that its caller pays for."""
    file, _, name = function
    if file == "~":
        return next((room for mark, room in _C_ROOMS.items() if mark in name), None)
    parts = Path(file).parts
    if "fencepost" in parts[:-1] and "src" in parts:
        return parts[parts.index("fencepost", parts.index("src")) + 1]
    if "bench" in parts[:-1]:
        return "bench"
    for package in ("pydantic", "asyncio"):
        if package in parts:
            return package
    return "asyncio" if parts[-1] == "selectors.py" else "other"


def _name(function: Function) -> str:
    file, line, name = function
    return name if file == "~" else f"{'/'.join(Path(file).parts[-2:])}:{line} {name}"


def report(profile: Profile, functions: int) -> Iterator[str]:
    """The rows to print."""
    wall, here, elsewhere = profile.cost
    yield f"{wall:.0f} µs a step; on the processor {here:.0f} µs in the loop, {elsewhere:.0f} µs beside it"
    yield ""
    yield f"{'room':10}{'µs':>8}{'share':>8}{'calls':>8}  what it buys"
    for room, spent in _dearest(profile.rooms):
        share = spent.microseconds / here
        yield f"{room:10}{spent.microseconds:8.1f}{share:8.1%}{spent.calls:8.1f}  {ROOMS.get(room, '')}"
    yield f"{'all':10}{here:8.1f}{1:8.0%}{sum(spent.calls for spent in profile.rooms.values()):8.1f}"
    yield ""
    yield f"{'µs':>8}{'calls':>8}  function (its own time)"
    for name, spent in _dearest(profile.functions)[:functions]:
        yield f"{spent.microseconds:8.2f}{spent.calls:8.2f}  {name}"


def _dearest(sums: dict[str, Spent]) -> list[tuple[str, Spent]]:
    return sorted(sums.items(), key=lambda entry: entry[1].microseconds, reverse=True)


def main() -> None:
    """Measures and prints."""
    command = argparse.ArgumentParser(prog="python -m bench.profile", description="Where a step's time goes.")
    command.add_argument("--concurrency", type=int, default=100, help="runs open at once (default: 100)")
    command.add_argument(
        "--seconds", type=float, default=3.0, help="with the profiler, and as many without (default: 3)"
    )
    command.add_argument("--functions", type=int, default=30, help="how many functions to list (default: 30)")
    command.add_argument("--state", type=Path, default=ROOT / "var" / "bench", help="folder on the disk to measure")
    asked = command.parse_args()
    asked.state.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="profile-", dir=asked.state) as folder:
        profile = asyncio.run(measure(place(Path(folder)), asked.concurrency, asked.seconds))
    print("\n".join(report(profile, asked.functions)))


if __name__ == "__main__":
    main()
