"""Clocks that are set, jump and run on: key windows (C30), budgets and pauses, none of them reopened by a clock."""

import asyncio

import pytest

from fencepost.core.contract import Retry
from fencepost.core.errors import DeclarationError, RunHeld
from fencepost.core.states import OperationState, RunState
from fencepost.effects.call import Call
from fencepost.effects.declare import effect
from fencepost.effects.promises import KeyHeader
from fencepost.runtime import verbs
from fencepost.runtime.app import App
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from tests.runtime.stage import Clock, Gate, hold, keyed, operation, played, reaches, target, until, verb, working

MINUTE = 60_000_000


@workflow()
async def capture(run: Run, name: str) -> str:
    return await run.do(keyed(name))


def test_a_dead_key_is_not_sent_again_and_a_clock_set_back_does_not_revive_it(db):
    async def play() -> None:
        clock = Clock()
        gate = Gate()
        target.plan("a", gate)
        async with working(db, capture, clock=clock) as app:
            await app.start(capture, "a", id="r")
            await gate.reached.wait()
            target.commit("a", (await operation(app, "r", "keyed")).key, honours_keys=True)
            clock.offset = 20 * MINUTE
            target.script["a"].clear()
            async with working(db, capture, clock=clock) as heir:
                await reaches(heir, "r", RunState.HELD)
                found = await heir.handle("r")
                with pytest.raises(RunHeld, match="promise has run out"):
                    await found.result()
                clock.offset = 0
                await verb(heir, verbs.resume, "r")
                await asyncio.sleep(0.3)
                assert target.requests == ["a"]
                assert (await hold(heir, "r"))["state"] == "unknown"
            gate.opened.set()

    asyncio.run(play())
    assert target.objects == ["a"]


def test_a_retry_window_longer_than_the_keys_life_is_refused_at_the_start(db):
    @effect(send_key=KeyHeader("K", window="15m"), retry=Retry(attempts=5, within="24h"), name="greedy")
    async def greedy(call: Call) -> str:
        return "x"

    @workflow(name="greedily")
    async def greedily(run: Run) -> str:
        return await run.do(greedy())

    async def play() -> None:
        async with App(db, workflows=[greedily]) as app:
            await app.start(greedily, id="r")

    with pytest.raises(DeclarationError, match="window"):
        asyncio.run(play())


@played
async def test_a_clock_set_back_does_not_make_a_budget_endless(db):
    clock = Clock()
    calls = []

    @effect(send_key=KeyHeader("K", window="24h"), name="failing", retry=Retry(attempts=4, first_delay="2ms"))
    async def failing(call: Call) -> str:
        calls.append(call.attempt)
        clock.offset -= 30 * MINUTE
        if len(calls) > 50:
            return "it would never end"
        raise OSError("lost")

    @workflow(name="trying")
    async def trying(run: Run) -> str:
        return await run.do(failing())

    async with working(db, trying, clock=clock) as app:
        handle = await app.start(trying, id="r")
        with pytest.raises(RunHeld, match="budget"):
            await handle.result(within="15s")
    assert calls == [1, 2, 3, 4]


@played
async def test_a_clock_that_jumps_ahead_costs_a_lease_and_no_object(db):
    clock = Clock()
    gate = Gate()
    target.plan("a", gate)
    async with working(db, capture, clock=clock) as app:
        handle = await app.start(capture, "a", id="r")
        await gate.reached.wait()
        clock.offset = 5 * MINUTE
        app._workers[0].wake()
        gate.opened.set()
        assert await handle.result(within="15s") == "made a"
    assert target.objects == ["a"]


@played
async def test_a_pause_asked_for_by_the_target_is_a_row_and_takes_no_place(db):
    clock = Clock()

    @effect(on_unknown="hold", name="limited", retry=Retry(attempts=3, within="1h", first_delay="5m"))
    async def limited(call: Call) -> str:
        return await target.take(call, "limited")

    @workflow(name="pausing")
    async def pausing(run: Run) -> str:
        return await run.do(limited())

    target.plan("limited", "busy")
    async with working(db, pausing, clock=clock) as app:
        handle = await app.start(pausing, id="r")
        await reaches(app, "r", RunState.WAITING)
        await until(lambda: not app._workers[0]._lives, "the run to leave memory")
        found = await operation(app, "r", "limited")
        assert found.state is OperationState.RESERVED
        clock.offset = 6 * MINUTE
        app._workers[0].wake()
        assert await handle.result() == "made limited"
        found = await operation(app, "r", "limited")
        assert found.attempts[1].dispatched_at - found.attempts[0].dispatched_at >= 150_000_000
