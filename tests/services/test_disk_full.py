"""The server's disk is full while runs go on: nothing is sent on a guess, and all goes on when there is room."""

import asyncio
import secrets
from collections.abc import Iterator
from contextlib import suppress

import pytest
from psycopg import OperationalError

from fencepost import App, Run, StoreUnavailable, workflow
from fencepost.runtime.handle import Handle
from tests.runtime.stage import Gate, asked, keyed, once, played, target, until, working
from tests.services.disk import Disk, OnDisk
from tests.services.fixtures import Place, started

RUNS = 10
BIG = 6_000
"""Characters of an input that nobody can compress: a table has to grow for each."""


@workflow()
async def three(run: Run, name: str, filling: str) -> str:
    await run.do(keyed(f"{name} keyed"))
    await run.do(once(f"{name} once"))
    return await run.do(asked(f"{name} asked"))


@pytest.fixture(scope="module")
def server() -> Iterator[OnDisk]:
    """A server for the tests here, one after the other."""
    server = started(lambda: OnDisk(Disk()))
    yield server
    server.remove()


async def insist(app: App, name: str, refusals: list[StoreUnavailable]) -> Handle[str]:
    """Start a run, again and again until the ledger has taken it."""
    filling = secrets.token_hex(BIG // 2)
    while True:
        try:
            return await app.start(three, name, filling, id=name)
        except StoreUnavailable as error:
            refusals.append(error)


# A table that cannot grow refuses a statement; a log that cannot ends the server, and may not let it recover.
COMPLAINTS = {"base/": "could not extend file", "pg_wal/": "PANIC:  could not write to file"}


@pytest.mark.parametrize("part", COMPLAINTS, ids=["tables cannot grow", "the log cannot grow"])
@played
async def test_a_full_disk_stops_sending_and_every_run_ends_once_when_there_is_room(server: OnDisk, part: str) -> None:
    target.reset()
    names = [f"before-{number}" for number in range(RUNS)]
    gates = [Gate() for _ in names]
    for name, gate in zip(names, gates, strict=True):
        target.plan(f"{name} once", gate)
    refusals: list[StoreUnavailable] = []
    async with working(Place(server).url(), three, lease="2s", margin="300ms", patience="500ms") as app:
        handles = [await insist(app, name, refusals) for name in names]
        for gate in gates:
            await gate.reached.wait()
        server.disk.fill(part)
        if part == "pg_wal/":
            with suppress(OperationalError):
                server.ask("SELECT pg_switch_wal()")
        starts = [asyncio.create_task(insist(app, f"during-{number}", refusals)) for number in range(RUNS)]
        await until(lambda: refusals, "a start to be refused")
        sent = len(target.requests)
        for gate in gates:
            gate.opened.set()
        await until(lambda: len(refusals) > RUNS, "each start to be refused")
        assert server.complaints(COMPLAINTS[part])
        if part == "pg_wal/":
            assert len(target.requests) == sent
        server.disk.free()
        await asyncio.to_thread(server.revive)
        handles += await asyncio.gather(*starts)
        ends = [await handle.result(within="30s") for handle in handles]
    names += [f"during-{number}" for number in range(RUNS)]
    assert ends == [f"made {name} asked" for name in names]
    assert sorted(target.objects) == sorted(f"{name} {step}" for name in names for step in ("keyed", "once", "asked"))
