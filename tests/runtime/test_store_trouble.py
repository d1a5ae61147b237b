"""A ledger that cannot be written in the middle of a run: nothing is sent on a guess, and it goes on when it can.

The connection behind the store is replaced by one that refuses; the store's own behaviour is tested in its room.
"""

import asyncio
import sqlite3
from contextlib import AsyncExitStack, closing

import pytest

from fencepost.core.errors import StoreBusy, StoreFailed
from fencepost.core.states import OperationState, RunState
from fencepost.runtime import app as app_module
from fencepost.runtime.app import App
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from fencepost.store.open import open_store
from tests.runtime.stage import Gate, keyed, once, operation, played, reaches, target, until
from tests.store.faulty import FULL, IOERR_FSYNC, Faults


@pytest.fixture
def db(tmp_path):
    """A file: the faults are SQLite's."""
    return f"sqlite:///{tmp_path / 'ledger.db'}"


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Faults:
    """What goes wrong with the apps' connections from now on."""
    wrong = Faults()
    monkeypatch.setattr(
        app_module, "open_store", lambda url, **options: open_store(url, connect=wrong.connect, **options)
    )
    return wrong


@workflow()
async def two(run: Run) -> str:
    await run.do(keyed("a"))
    return await run.do(once("b"))


@workflow()
async def side_by_side(run: Run) -> list[str]:
    async def row(name: str) -> str:
        await run.do(keyed(f"{name}1"), item=f"{name}1")
        return await run.do(keyed(f"{name}2"), item=f"{name}2")

    return list(await run.gather(row("x"), row("y")))


@workflow()
async def one_after_the_other(run: Run) -> str:
    await run.do(once("a"), item="a")
    return await run.do(once("b"), item="b")


@workflow()
async def beside_each_other(run: Run) -> list[str]:
    async def row() -> str:
        await run.do(once("a"), item="a")
        return await run.do(once("b"), item="b")

    return list(await run.gather(row(), run.do(once("c"), item="c")))


@pytest.mark.parametrize("flow", [two, side_by_side])
@pytest.mark.parametrize("statement", ["COMMIT", "BEGIN IMMEDIATE"])
def test_a_full_disk_stops_sending_holds_nothing_and_the_run_goes_on_when_there_is_room(db, faults, flow, statement):
    async def play() -> None:
        gate, other = Gate(), Gate()
        target.plan("a", gate)
        target.plan("x1", gate)
        target.plan("y1", other)
        async with App(db, workflows=[flow], lease="600ms", margin="100ms") as app, app.worker():
            await app.start(flow, id="r")
            await gate.reached.wait()
            if flow is side_by_side:
                await other.reached.wait()
            sent = len(target.requests)
            faults.refuse[statement] = FULL
            gate.opened.set()
            other.opened.set()
            await asyncio.sleep(0.6)
            assert len(target.requests) == sent
            faults.refuse.clear()
            await reaches(app, "r", RunState.SUCCEEDED, RunState.HELD)
            assert (await app.show("r")).run.state is RunState.SUCCEEDED
        assert len(target.objects) == len(set(target.objects))

    asyncio.run(play())


@played
async def test_after_a_failed_sync_this_process_sends_nothing_more_and_another_one_goes_on(db, faults):
    gate = Gate()
    target.plan("a", gate)
    async with App(db, workflows=[two], lease="600ms", margin="100ms") as app:
        working = app.worker()
        await working.__aenter__()
        await app.start(two, id="r")
        await gate.reached.wait()
        faults.refuse["COMMIT"] = IOERR_FSYNC
        gate.opened.set()
        await until(lambda: app.host.journal.failed is not None, "the sync to fail")
        faults.refuse.clear()
        await asyncio.sleep(0.3)
        assert target.requests == ["a"]
        with pytest.raises(StoreFailed, match="not known"):
            await working.__aexit__(None, None, None)
        async with App(db, workflows=[two]) as heir, heir.worker():
            await reaches(heir, "r", RunState.SUCCEEDED)
    assert target.objects == ["a", "b"]


@played
async def test_a_worker_that_is_idle_when_a_sync_fails_says_so_at_once_and_ends(db, faults, caplog):
    async with App(db, workflows=[two], lease="600ms", margin="100ms") as app:
        working = app.worker()
        await working.__aenter__()
        faults.refuse["COMMIT"] = IOERR_FSYNC
        await until(lambda: "worker has ended" in caplog.text, "the worker to say that it has ended")
        assert [one.levelname for one in caplog.records if "has ended" in one.message] == ["CRITICAL"]
        with pytest.raises(StoreFailed):
            await working.__aexit__(None, None, None)


@pytest.mark.parametrize("works", [True, False], ids=["beside a worker", "without a worker"])
def test_a_start_on_a_busy_ledger_says_so_and_is_one_run_however_often_it_is_tried(db, works):
    @played
    async def play() -> None:
        async with App(db, workflows=[two], patience="200ms") as app, AsyncExitStack() as stack:
            if works:
                await stack.enter_async_context(app.worker())
            await app.runs()  # the file is there
            with closing(sqlite3.connect(db.removeprefix("sqlite:///"), isolation_level=None)) as shell:
                shell.execute("BEGIN IMMEDIATE")
                for _ in range(2):
                    with pytest.raises(StoreBusy, match="more than 200ms") as busy:
                        await app.start(two, id="r")
                    assert "same id" in busy.value.hint
                assert target.requests == []
            if not works:
                await stack.enter_async_context(app.worker())
            assert await (await app.start(two, id="r")).result(within="10s") == "made b"
            assert len(await app.runs()) == 1
        assert target.requests == ["a", "b"]

    play()


@pytest.mark.parametrize("flow", [one_after_the_other, beside_each_other])
def test_a_reply_is_kept_where_only_the_row_of_the_next_step_finds_no_room(db, faults, flow):
    @played
    async def play() -> None:
        gates = {name: Gate() for name in ("a", "c")}
        for name, gate in gates.items():
            target.plan(name, gate)
        async with App(db, workflows=[flow], lease="600ms", margin="100ms") as app, app.worker():
            await app.start(flow, id="r")
            await gates["a"].reached.wait()
            if flow is beside_each_other:
                await gates["c"].reached.wait()
            faults.refuse["INSERT INTO operation"] = FULL
            gates["a"].opened.set()
            await until(lambda: is_known(app, "a"), "the reply to be kept")
            gates["c"].opened.set()
            if flow is beside_each_other:
                await until(lambda: is_known(app, "c"), "the other reply to be kept")
            faults.refuse.clear()
            await reaches(app, "r", RunState.SUCCEEDED)
            assert {len(one.attempts) for one in (await app.show("r")).operations} == {1}
        expected = ["a", "b"] if flow is one_after_the_other else ["a", "c", "b"]
        assert target.requests == target.objects == expected

    play()


async def is_known(app, item):
    return (await operation(app, "r", "once", item)).state is OperationState.SUCCEEDED
