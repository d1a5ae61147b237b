"""The server fails over to its standby: workers find it and go on; what the standby has forgotten is not sent again."""

import asyncio
import signal
import socket
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from fencepost import App, LedgerWentBack, Run, workflow
from fencepost.core.states import RunState
from fencepost.store.open import open_store
from tests.cli.conftest import SHOP
from tests.runtime.stage import Clock, Gate, asked, hold, keyed, once, played, reaches, target, until, working
from tests.services.fixtures import started
from tests.services.postgres import Cluster, Standby
from tests.services.wire import SOCKET

RUNS = 20


@workflow()
async def three(run: Run, name: str) -> str:
    await run.do(keyed(f"{name} keyed"), item="1")
    await run.do(asked(f"{name} asked"), item="2")
    return await run.do(once(f"{name} once"), item="3")


@pytest.fixture
def pair(own_server: Cluster) -> Iterator[tuple[Cluster, Standby]]:
    """A primary and its standby."""
    target.reset()
    standby = started(lambda: Standby(own_server))
    yield own_server, standby
    standby.remove()


def url_of(*servers: Cluster, **parameters: str) -> str:
    more = "".join(f"&{name}={value}" for name, value in parameters.items())
    return f"postgresql:///postgres?host={','.join(str(one.folder) for one in servers)}&user=fencepost{more}"


@played
async def test_workers_find_the_new_primary_and_every_run_ends_once(pair) -> None:
    primary, standby = pair
    async with working(url_of(*pair), three, lease="3s", margin="500ms") as app:
        handles = [await app.start(three, f"r{number}", id=f"r{number}") for number in range(RUNS)]
        await until(lambda: len(target.objects) > RUNS, "runs to be under way")
        await asyncio.to_thread(primary.stop)  # it hands over everything before it ends
        await asyncio.to_thread(standby.promote)
        assert len({await handle.result(within="30s") for handle in handles}) == RUNS
        assert standby.ask("SELECT pg_is_in_recovery()") == [(False,)]
    assert sorted(target.objects) == sorted(f"r{n} {step}" for n in range(RUNS) for step in ("asked", "keyed", "once"))


@workflow()
async def in_a_row(run: Run) -> str:
    await run.do(once("a"), item="a")
    await run.sleep("2m")
    await run.do(keyed("b"))
    return await run.do(once("c"), item="c")


def told_the_time(clock: Clock, url: str) -> App:
    app = App(url, workflows=[in_a_row])
    app.clock = clock
    return app


@played
async def test_a_worker_that_has_seen_more_than_the_new_primary_stops_until_somebody_has_said_so(
    pair, fencepost, caplog
) -> None:
    primary, standby = pair
    gate, clock = Gate(), Clock()
    target.plan("c", gate)
    async with told_the_time(clock, url_of(*pair)) as app:
        working_on = app.worker()
        worker = await working_on.__aenter__()
        await app.start(in_a_row, id="r")
        await reaches(app, "r", RunState.WAITING)
        await asyncio.to_thread(standby.catches_up)
        await asyncio.to_thread(standby.falls_behind)
        clock.offset += 120_000_000
        worker.wake()
        await gate.reached.wait()
        await asyncio.to_thread(primary.stop, signal.SIGQUIT)
        await asyncio.to_thread(standby.promote)
        gate.opened.set()
        await until(lambda: "worker has ended" in caplog.text, "the worker to say that it has ended")
        with pytest.raises(LedgerWentBack, match="fencepost restored"):
            await app.start(in_a_row, id="another")
        with pytest.raises(LedgerWentBack, match="failed over to a copy that lagged"):
            await working_on.__aexit__(None, None, None)
    assert target.requests == ["a", "b", "c"]

    said = await asyncio.to_thread(
        fencepost, "restored", "--reason", "the primary's disk died", "--db", url_of(standby)
    )
    assert said.code == 0, said.err
    async with told_the_time(clock, url_of(standby)) as app, app.worker():
        await reaches(app, "r", RunState.HELD)
        assert (await hold(app, "r"))["item"] == "c"
    assert target.requests == ["a", "b", "c", "b"]
    assert target.objects == ["a", "b", "c"]


class Silent(Cluster):
    """A server that takes connections and answers nothing: it was stopped, or a firewall came between."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._door = socket.socket(socket.AF_UNIX)
        self._door.bind(str(folder / SOCKET))
        self._door.listen()

    def close(self) -> None:
        self._door.close()


@played
async def test_a_primary_that_keeps_silent_does_not_keep_the_others_from_being_found(own_server, tmp_path) -> None:
    target.reset()
    with closing(Silent(tmp_path)) as silent:
        async with working(url_of(silent, own_server), three, patience="1s") as app:
            assert await (await app.start(three, "r", id="r")).result(within="10s") == "made r once"
    assert sorted(target.objects) == ["r asked", "r keyed", "r once"]


def test_a_url_that_only_reaches_the_standby_says_so_and_what_to_do(pair, fencepost) -> None:
    primary, standby = pair
    open_store(primary.url()).close()
    standby.catches_up()

    for url in (standby.url(), url_of(standby, standby)):
        for command in (["runs"], ["worker", SHOP], ["restored", "--reason", "r"]):
            ended = fencepost(*command, "--db", url)
            assert ended.code == 5
            assert "standby" in ended.err
            assert "target_session_attrs=read-write" in ended.err
