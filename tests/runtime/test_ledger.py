"""The ledger without the engine, and the blocking faces: the same laws in whatever program calls them."""

import asyncio
import threading

import pytest

from fencepost.core.errors import (
    InProgress,
    Misuse,
    RunFailed,
    RunHeld,
    RunInputMismatch,
    StepFailed,
    StoreUnavailable,
)
from fencepost.core.states import RunState
from fencepost.effects.call import Call
from fencepost.effects.declare import compute
from fencepost.runtime import verbs
from fencepost.runtime.app import App
from fencepost.runtime.ledger import Ledger
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from tests.runtime.stage import Gate, expire, keyed, once, played, target, working


@workflow()
async def one(run: Run, name: str) -> str:
    return await run.do(once(name))


@compute()
async def thinking(call: Call) -> str:
    return "no effect"


@played
async def test_an_operation_is_performed_once_and_its_result_returned_again(db):
    async with Ledger(db) as ledger:
        for _ in range(3):
            assert await ledger.perform(keyed("a"), operation="ticket:1") == "made a"
    async with Ledger(db) as ledger:
        assert await ledger.perform(keyed("a"), operation="ticket:1") == "made a"
    assert target.requests == ["a"]


@played
async def test_ten_callers_at_once_perform_an_operation_once(db):
    async with Ledger(db) as ledger:
        results = await asyncio.gather(*(ledger.perform(keyed("a"), operation="ticket:1") for _ in range(10)))
    assert results == ["made a"] * 10
    assert target.requests == ["a"]


@played
async def test_the_same_name_with_another_request_or_effect_is_refused(db):
    async with Ledger(db) as ledger:
        await ledger.perform(keyed("a"), operation="ticket:1")
        for other in (keyed("b"), once("a")):
            with pytest.raises(RunInputMismatch):
                await ledger.perform(other, operation="ticket:1")
    assert target.requests == ["a"]


@played
async def test_a_definite_failure_is_raised_as_what_it_is_and_again(db):
    target.plan("a", "refuse")
    async with Ledger(db) as ledger:
        for _ in range(2):
            with pytest.raises(StepFailed, match="not this one"):
                await ledger.perform(keyed("a"), operation="ticket:1")
    assert target.requests == []


@played
async def test_an_unknown_outcome_is_held_and_settled_by_a_person(db):
    target.plan("a", "lose")
    async with Ledger(db) as ledger:
        for _ in range(2):
            with pytest.raises(RunHeld):
                await ledger.perform(once("a"), operation="ticket:1")
        await ledger.app._verb(
            verbs.settle, "ticket:1", step="once", happened=True, result='"seen"', by="ann", reason="she looked"
        )
        assert await ledger.perform(once("a"), operation="ticket:1") == "seen"
    assert target.requests == ["a"]


@played
async def test_a_caller_that_waits_too_long_hears_that_it_is_in_progress(db):
    gate = Gate()
    target.plan("a", gate)
    async with Ledger(db) as ledger, Ledger(db) as other:
        first = asyncio.create_task(ledger.perform(keyed("a"), operation="ticket:1"))
        await gate.reached.wait()
        with pytest.raises(InProgress):
            await other.perform(keyed("a"), operation="ticket:1", within="100ms")
        gate.opened.set()
        assert await first == await other.perform(keyed("a"), operation="ticket:1") == "made a"
    assert target.requests == ["a"]


@played
async def test_what_a_crashed_caller_left_is_settled_by_the_next_one(db):
    gate = Gate()
    target.plan("a", gate)
    async with Ledger(db) as crashed:
        lost = asyncio.create_task(crashed.perform(keyed("a"), operation="ticket:1"))
        await gate.reached.wait()
        expire(crashed.app)
        async with Ledger(db) as ledger:
            assert await ledger.perform(keyed("a"), operation="ticket:1") == "made a"
        gate.opened.set()
        assert await lost == "made a"
    assert (target.requests, target.objects) == (["a", "a"], ["a"])


@played
async def test_only_effects_are_performed(db):
    async with Ledger(db) as ledger:
        with pytest.raises(Misuse):
            await ledger.perform(thinking(), operation="thought:1")


def test_the_blocking_ledger_performs_with_the_same_laws(db):
    with Ledger(db).sync as ledger:
        assert ledger.perform(keyed("a"), operation="ticket:1") == "made a"
        assert ledger.perform(keyed("a"), operation="ticket:1") == "made a"
        with pytest.raises(RunInputMismatch):
            ledger.perform(keyed("b"), operation="ticket:1")
    assert target.requests == ["a"]


def test_the_blocking_app_starts_works_signals_and_shows(db):
    app = App(db, workflows=[one])
    with app.sync as blocking, blocking.worker():
        handle = blocking.start(one, "a", id="r")
        assert handle.result() == "made a"
        assert handle.id == "r"
        assert blocking.show("r").run.state is RunState.SUCCEEDED
        with pytest.raises(RunInputMismatch):
            blocking.start(one, "b", id="r")


@played
async def test_a_blocking_call_from_a_thread_works_beside_a_worker_on_this_loop(db):
    async with working(db, one) as app:

        def call() -> str:
            return app.sync.start(one, "a", id="r").result(within="10s")

        assert await asyncio.wait_for(asyncio.to_thread(call), 15) == "made a"
        assert await (await app.handle("r")).result() == "made a"
    assert target.requests == ["a"]


@played
async def test_many_threads_start_runs_beside_a_worker_on_this_loop(db):
    async with working(db, one) as app:
        results: list[str] = []

        def call(number: int) -> None:
            results.append(app.sync.start(one, f"{number}", id=f"r{number}").result(within="15s"))

        threads = [threading.Thread(target=call, args=(number,)) for number in range(10)]
        for thread in threads:
            thread.start()
        handles = [await app.start(one, f"{number}", id=f"r{number}") for number in range(10)]
        assert [await handle.result(within="15s") for handle in handles] == [f"made {number}" for number in range(10)]
        for thread in threads:
            await asyncio.to_thread(thread.join, 20)
        assert sorted(results) == sorted(f"made {number}" for number in range(10))
    assert sorted(target.requests, key=int) == [f"{number}" for number in range(10)]


@played
async def test_a_workflow_that_failed_says_so_through_its_handle(db):
    @workflow(name="failing")
    async def failing(run: Run) -> None:
        raise ValueError("a fault")

    async with working(db, failing) as app:
        with pytest.raises(RunFailed, match="a fault"):
            await (await app.start(failing, id="r")).result()


@played
async def test_a_closed_ledger_performs_nothing_and_opens_no_file(db):
    ledger = Ledger(db)
    assert await ledger.perform(keyed("a"), operation="one") == "made a"
    await ledger.close()
    with pytest.raises(Misuse, match="is closed"):
        await ledger.perform(keyed("b"), operation="two")
    with pytest.raises(Misuse, match="is closed"):
        await ledger.app.cancel("one", by="ann", reason="too late")
    with pytest.raises(Misuse, match="is closed"):
        await ledger.app.show("one")
    assert ledger.app._host is None
    assert target.requests == ["a"]
    async with ledger:
        assert await ledger.perform(keyed("b"), operation="two") == "made b"


@played
async def test_a_ledger_that_could_not_be_opened_at_first_performs_once_it_can(tmp_path):
    folder = tmp_path / "later"
    async with Ledger(f"sqlite:///{folder / 'ledger.db'}") as ledger:
        with pytest.raises(StoreUnavailable):
            await ledger.perform(keyed("a"), operation="one")
        folder.mkdir()
        assert await ledger.perform(keyed("a"), operation="one", within="10s") == "made a"
