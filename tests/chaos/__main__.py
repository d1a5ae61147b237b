"""`python -m tests.chaos --seconds 60`: load and strikes for so long, then everything must come to its end, once.

Counted are the world's objects against the runs that were started; the ledger's word is only asked whether a run has
ended. Fails on a duplicate, a loss, a run that is stuck or held, a contradiction in the ledger that is left, or too few
strikes and runs to mean anything.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, closing, suppress
from pathlib import Path
from typing import NamedTuple

from fencepost import App, StoreUnavailable
from fencepost.cli.exits import Exit
from fencepost.core.states import FINAL_RUN_STATES, RunState
from fencepost.store.api import RunFilter, Store
from fencepost.store.open import open_store
from fencepost.testing import World
from tests.chaos.story import BOOKS, DB, booked, made_app
from tests.chaos.strikes import COMMAND, Strikes, Workers
from tests.polling import until
from tests.services.fixtures import Place
from tests.services.postgres import Cluster, NotHere
from tests.services.wire import Wire

WORKERS = 3
AT_ONCE = 20
"""Runs that the load keeps open."""

STRUCK_WITHIN = 30.0
"""Seconds beyond the time asked for in which the last kind of strike may come."""

SETTLES_WITHIN = 90.0
"""Seconds after the last strike in which everything must have come to its end."""

MINIMUM = {"server crashes and restarts": 1 / 12, "workers killed": 1 / 6, "commits cut off": 1 / 6, "finished": 1.0}
"""Per second of chaos: with less of it a clean end means little."""


class Ended(NamedTuple):
    """What became of it."""

    counted: Counter[str]
    wrong: list[str]


async def load(app: App, seconds: float, prefix: str, has_struck: Callable[[], bool]) -> list[str]:
    """Start runs for so long, as many open at once; each start is repeated until the ledger has answered.

    On a machine that is busy it goes on for a while until every kind of strike has come.
    """
    started: list[str] = []
    ends_at = time.monotonic() + seconds

    def goes_on() -> bool:
        late = time.monotonic() - ends_at
        return late < 0 or (late < STRUCK_WITHIN and not has_struck())

    async def client(number: int) -> None:
        turn = 0
        while goes_on():
            name = f"{prefix}-{number}-{turn}"
            started.append(name)
            handle = None
            while handle is None:
                try:
                    handle = await app.start(booked, name, id=name)
                except StoreUnavailable:
                    await asyncio.sleep(0.05)
            with suppress(StoreUnavailable, TimeoutError):  # it goes on without us
                await handle.result(within="5s")
            turn += 1

    await asyncio.gather(*(client(number) for number in range(AT_ONCE)))
    return started


def unfinished(store: Store) -> list[str]:
    """The runs that have not ended, with their states."""
    open_states = [state for state in RunState if state not in FINAL_RUN_STATES]
    pages = [store.runs(RunFilter("default", state=state.value, limit=10_000)) for state in open_states]
    return [f"{run.id} is {run.state}" for page in pages for run in page]


def wait_until_settled(url: str) -> list[str]:
    """Wait for the last run to end; the runs that have not."""
    with closing(open_store(url)) as store:

        def nothing_moves() -> bool:
            return all(" is held" in run for run in unfinished(store))

        with suppress(TimeoutError):
            until(nothing_moves, "every run to end", seconds_max=SETTLES_WITHIN, seconds_between=0.2)
        return unfinished(store)


class Checked(NamedTuple):
    """What `fencepost check` says of the ledger that is left: how many runs it saw, and what contradicts itself."""

    runs: int
    found: list[str]


def checked(url: str) -> Checked:
    """Have `fencepost check` look through the ledger that is left."""
    command = [sys.executable, "-c", COMMAND, "check", "--db", url, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    if done.returncode not in (Exit.DONE, Exit.FINDINGS):
        raise RuntimeError(f"the ledger could not be checked: {done.stderr}")
    said = json.loads(done.stdout)
    found = [f"{one['rule']}: {one['run']} {one['where']}: {one['says']}" for one in said["found"]]
    return Checked(said["runs"], found)


def count(
    world: World, started: list[str], strikes: Counter[str], *, stuck: list[str], seen: Checked, seconds: float
) -> Ended:
    """Compare what the world holds with what was started; `seen` is what the ledger was found to be."""
    entries = Counter(str(entry["name"]) for entry in world.files.objects("entries"))
    payments = Counter(str(payment["name"]) for payment in world.files.objects("payments"))
    wanted = {f"{name}/{part}" for name in started for part in ("first", "last")}
    paid = {f"{name}/paid" for name in started}
    held = {run.partition(" ")[0] for run in stuck}
    there = entries + payments
    summary = world.files.summary()
    counted = Counter(
        {
            "started": len(started),
            "finished": len(started) - len(stuck),
            "requests": summary["entries"].requests + summary["payments"].requests,
            "look-ups": summary["payments"].lookups,
            "objects": there.total(),
            "duplicates": sum(number - 1 for number in there.values()),
            "lost": sum(name not in there for name in wanted | paid if name.partition("/")[0] not in held),
            "stuck": len(stuck),
            "contradictions": len(seen.found),
            "unchecked": len(started) - seen.runs,
        }
    )
    counted.update(strikes)
    counted["server crashes and restarts"] = strikes["server crashes"] + strikes["server restarts"]
    never = ("duplicates", "lost", "stuck", "contradictions", "unchecked")
    wrong = [f"{name}: {counted[name]}" for name in never if counted[name]]
    wrong += stuck[:10] + seen.found[:10]
    for name, each_second in MINIMUM.items():
        if counted[name] < int(each_second * seconds):
            wrong.append(f"{name}: {counted[name]}, fewer than {int(each_second * seconds)}")
    return Ended(counted, wrong)


def chaos(cluster: Cluster, seconds: float, seed: int, folder: Path) -> Ended:
    """Set everything up on a server of its own, let it be struck, wait, and count."""
    with ExitStack() as stack:
        world = stack.enter_context(World.start(folder / "world", seed=seed))
        for collection in ("entries", "payments"):
            world.configure("books", collection, identity=("name",))
        place = Place(cluster)
        open_store(place.url()).close()
        wire = stack.enter_context(closing(Wire(place)))
        surroundings = {**os.environ, DB: wire.url(connections=4), BOOKS: world.books.url}
        workers = stack.enter_context(closing(Workers(WORKERS, surroundings, folder / "workers.log")))

        async def loaded() -> list[str]:
            async with made_app(surroundings) as app:
                strikes = Strikes(place, wire, workers, seed)
                try:
                    started = await load(app, seconds, f"run-{seed}", strikes.every_kind)
                finally:
                    await asyncio.to_thread(strikes.close)
                done.update(strikes.done)
                return started

        done: Counter[str] = Counter()
        started = asyncio.run(loaded())
        stuck = wait_until_settled(place.url())
        return count(world, started, done, stuck=stuck, seen=checked(place.url()), seconds=seconds)


def main() -> int:
    """Print what was counted; the exit code."""
    command = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    command.add_argument("--seconds", type=float, default=60.0)
    command.add_argument("--seed", type=int, default=1)
    command.add_argument("--keep", type=Path, help="a folder to keep the world's files and the workers' log in")
    asked = command.parse_args()
    try:
        with tempfile.TemporaryDirectory(prefix="fencepost-chaos-") as folder, ExitStack() as stack:
            cluster = Cluster()
            stack.callback(cluster.remove)
            ended = chaos(cluster, asked.seconds, asked.seed, asked.keep or Path(folder))
    except NotHere as missing:
        sys.stderr.write(f"{missing}\n")
        return 1
    lines = [f"{name:30}{number:>8,}" for name, number in ended.counted.items()]
    lines += [f"WRONG  {complaint}" for complaint in ended.wrong]
    lines.append("chaos: " + ("FAILED" if ended.wrong else "nothing doubled, nothing lost, nothing stuck"))
    sys.stdout.write("\n".join(lines) + "\n")
    return bool(ended.wrong)


if __name__ == "__main__":
    raise SystemExit(main())
