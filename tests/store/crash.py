"""What the crash tests write and look for: a workload of intents, and a reader of what is left.

`python -m tests.store.crash LEDGER LIFE` is a process that commits until it is killed and prints what it was
promised. How a disk loses writes is `images`' matter.
"""

import asyncio
import itertools
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from fencepost.core.records import Run
from fencepost.store.api import Answer, Group
from fencepost.store.connection import Connect
from fencepost.store.journal import Journal
from fencepost.store.open import open_store
from fencepost.store.sqlite import SqliteStore
from tests.store import build

Tell = Callable[[str], None]


def intent(run: Run, step: str) -> Group:
    """One operation, dispatched: after the answer the request may leave this process."""
    request = '"' + "x" * 300 + '"'
    return build.group(run, build.new_operation(run, step, request=request))


def result_and_next(run: Run, step: str, following: str) -> Group:
    return build.group(run, build.applied(run, step), build.settle(run, step=step), *intent(run, following).moves)


def work(path: str, connect: Connect, tell: Tell, *, rounds: int) -> None:
    """Open a ledger and commit intents alone, together, and with results; tell each one once it is acknowledged."""
    store = open_store(path, connect=connect, clock=lambda: build.NOW)
    store.take_lease(build.lease())
    runs = [store.start_run(build.new_run(f"run-{number}", lease="lease-1"))[0] for number in range(4)]
    for run in runs:
        tell(f"run {run.id}")
    journal = Journal(store)
    try:
        asyncio.run(together(journal, runs, tell, rounds))
        for number in range(rounds):
            assert journal.commit(intent(runs[0], f"alone-{number}")) is Answer.MOVED
            tell(fact(runs[0], f"alone-{number}"))
            store.signal("default", runs[1].id, build.signal(f"signal-{number}"))
            tell(f"signal {runs[1].id} signal-{number}")
    finally:
        journal.close()
        store.close()


async def together(journal: Journal, runs: list[Run], tell: Tell, rounds: int) -> None:
    """Several runs at once, one commit per round: the result of one step and the intent of the next."""

    async def one(run: Run) -> None:
        for number in range(rounds):
            step, last = f"step-{number}", f"step-{number - 1}"
            group = result_and_next(run, last, step) if number else intent(run, step)
            assert await journal.submit(group) is Answer.MOVED
            tell(fact(run, step))

    await asyncio.gather(*(one(run) for run in runs))


def fact(run: Run, step: str) -> str:
    return f"intent {run.id} {step}"


def facts_of(store: SqliteStore, run_ids: Iterable[str]) -> set[str]:
    """Everything that may have been told and is still there. An intent without its attempt is none."""
    found = set()
    for run_id in run_ids:
        run = store.find("default", run_id)
        if run is None:
            continue
        found.add(f"run {run_id}")
        history = store.load(run.no)
        found |= {fact(run, operation.step) for operation in history.operations if operation.attempts}
        found |= {f"signal {run_id} {signal.id}" for signal in history.signals}
    return found


def found_in(path: Path, run_ids: Iterable[str]) -> set[str]:
    """What a new process finds in a file that stock SQLite finds sound."""
    assert is_sound(path)
    store = open_store(str(path))
    try:
        return facts_of(store, run_ids)
    finally:
        store.close()


def is_sound(path: Path) -> bool:
    """Whether the standard library's SQLite recovers the file and finds nothing wrong in it."""
    with_stock = sqlite3.connect(path)
    try:
        return with_stock.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    finally:
        with_stock.close()


ROOT = Path(__file__).parents[2]


def start_life(path: Path, life: str, *prefix: str) -> "subprocess.Popen[str]":
    """A process that commits until it ends; `prefix` is Python code that it runs first."""
    code = "; ".join([*prefix, "import runpy", "runpy.run_module('tests.store.crash', run_name='__main__')"])
    command = [sys.executable, "-c", code, str(path), life]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, cwd=ROOT, text=True, env={**os.environ}, **pipes)


def promises(lines: Iterable[str]) -> set[str]:
    """What a process was heard to be promised; half a line is a promise that nobody could read."""
    return {line.strip() for line in lines if line.endswith("\n")}


def life_runs(life: str) -> list[str]:
    return [f"run-{life}-{number}" for number in range(3)]


def live_until_killed(path: str, life: str) -> None:
    """Commit for ever; a line is printed only after the journal's answer."""
    store = open_store(path)
    lease = build.lease(f"lease-{life}", at=store.now(), ttl=3600 * build.SECOND)
    store.take_lease(lease)
    runs = [store.start_run(build.new_run(name, lease=lease.id))[0] for name in life_runs(life)]
    journal = Journal(store)

    async def one(run: Run) -> None:
        for number in itertools.count():
            assert await journal.submit(intent(run, f"step-{number}")) is Answer.MOVED
            print(fact(run, f"step-{number}"), flush=True)  # noqa: T201 - how this process tells

    async def all_of_them() -> None:
        await asyncio.gather(*(one(run) for run in runs))

    asyncio.run(all_of_them())


if __name__ == "__main__":
    live_until_killed(*sys.argv[1:])
