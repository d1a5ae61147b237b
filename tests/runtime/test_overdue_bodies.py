"""Async bodies that ignore their timeout's cancel: nobody waits for them, and what they say late is evidence.

Plain functions that outlive their time are in `test_unknown`: a thread cannot be stopped either.
"""

import asyncio
from contextlib import suppress

import pytest

from fencepost.core.errors import RunHeld
from fencepost.core.states import OperationState, RunState
from fencepost.effects.answers import Absent, Found, Inconclusive
from fencepost.effects.call import Call
from fencepost.effects.declare import KeyHeader, effect, read
from fencepost.runtime import verbs
from fencepost.runtime.app import App
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from tests.runtime.stage import QUICK, Gate, hold, once, operation, played, reaches, target, until, verb, working

GRACE = 0.1


class Stubborn:
    """A body's wait that no cancel ends; the test does."""

    def __init__(self) -> None:
        self.freed = asyncio.Event()
        self.cancels = 0

    async def wait(self) -> None:
        while not self.freed.is_set():
            try:
                await self.freed.wait()
            except asyncio.CancelledError:
                self.cancels += 1


def flow_of(step):
    @workflow(name="flow")
    async def flow(run: Run) -> str:
        return await run.do(step()) + ", " + await run.do(once("after"))

    return flow


@played
async def test_its_outcome_is_unknown_after_the_grace_and_its_late_result_settles_it(db):
    stubborn = Stubborn()

    @effect(on_unknown="hold", attempt_timeout="50ms", retry=QUICK, name="deaf")
    async def deaf(call: Call) -> str:
        target.requests.append("deaf")
        await stubborn.wait()
        return "late"

    flow = flow_of(deaf)
    async with working(db, flow) as app:
        app.host.overdue.grace = GRACE
        handle = await app.start(flow, id="r")
        with pytest.raises(RunHeld, match="unknown"):
            await handle.result(within="5s")
        assert (await operation(app, "r", "deaf")).state is OperationState.UNKNOWN
        assert stubborn.cancels == 1
        stubborn.freed.set()
        await reaches(app, "r", RunState.SUCCEEDED)
        assert await handle.result() == "late, made after"
    assert target.requests == ["deaf", "after"]


@played
async def test_under_a_key_it_is_sent_again_within_its_budget_beside_the_old_one(db):
    stubborn = Stubborn()

    @effect(send_key=KeyHeader("K", window="24h"), attempt_timeout="50ms", retry=QUICK, name="deaf")
    async def deaf(call: Call) -> str:
        target.requests.append(f"deaf {call.attempt}")
        if call.attempt == 1:
            await stubborn.wait()
        return "made"

    flow = flow_of(deaf)
    async with working(db, flow) as app:
        app.host.overdue.grace = GRACE
        assert await (await app.start(flow, id="r")).result(within="5s") == "made, made after"
        stubborn.freed.set()
        await until(lambda: not app._workers[0].abandoned, "the old body to end")
        assert not (await operation(app, "r", "deaf")).conflict
    assert target.requests == ["deaf 1", "deaf 2", "after"]


@played
async def test_a_worker_that_drains_does_not_wait_for_it(db):
    stubborn = Stubborn()

    @effect(on_unknown="hold", attempt_timeout="50ms", retry=QUICK, name="deaf")
    async def deaf(call: Call) -> str:
        target.requests.append("deaf")
        await stubborn.wait()
        return "late"

    flow = flow_of(deaf)
    async with App(db, workflows=[flow]) as app:
        app.host.overdue.grace = GRACE
        async with app.worker():
            await app.start(flow, id="r")
            await until(lambda: target.requests, "the request")
            begun = asyncio.get_running_loop().time()
        assert asyncio.get_running_loop().time() - begun < 3
        shown = await app.show("r")
        assert shown.run.state is RunState.READY
        assert shown.operations[0].state is OperationState.UNKNOWN
        stubborn.freed.set()
        await until(lambda: _is_known(app), "the late result to be taken in")


async def _is_known(app):
    return (await operation(app, "r", "deaf")).state is OperationState.SUCCEEDED


@pytest.mark.parametrize("which", ["read", "look-up"])
def test_what_sends_nothing_is_held_and_not_begun_again_beside_itself(db, which):
    @played
    async def play() -> None:
        stubborn, begun = Stubborn(), []

        async def ask(call: Call, *_: str) -> Found[str] | Absent | Inconclusive:
            begun.append(1)
            await stubborn.wait()
            return Found("found")

        @effect(reconcile=ask, attempt_timeout="50ms", settle="0s", retry=QUICK, name="lost")
        async def lost(call: Call) -> str:
            raise OSError("the reply is lost")

        @read(name="reading", attempt_timeout="50ms")
        async def reading(call: Call) -> str:
            await ask(call)
            return "found"

        flow = flow_of(lost if which == "look-up" else reading)
        async with working(db, flow) as app:
            app.host.overdue.grace = GRACE
            handle = await app.start(flow, id="r")
            with pytest.raises(RunHeld, match="TimeoutIgnored"):
                await handle.result(within="5s")
            assert (await hold(app, "r"))["step"] in ("lost", "/reading")
            assert len(begun) == 1
            stubborn.freed.set()
            await until(lambda: not app._workers[0].abandoned, "the old body to end")
            if (await app.show("r")).run.state is RunState.HELD:  # a look-up's late answer is none
                await verb(app, verbs.resume, "r")
            assert await handle.result(within="5s") == "found, made after"

    play()


@played
async def test_what_its_siblings_bring_meanwhile_is_not_lost(db):
    stubborn, gate = Stubborn(), Gate()
    target.plan("slow", gate)

    @effect(on_unknown="hold", attempt_timeout="50ms", retry=QUICK, name="deaf")
    async def deaf(call: Call) -> str:
        await stubborn.wait()
        return "late"

    @workflow(name="both")
    async def both(run: Run) -> list[str]:
        return list(await run.gather(run.do(deaf()), run.do(once("quick"), item="1"), run.do(once("slow"), item="2")))

    async with working(db, both) as app:
        app.host.overdue.grace = GRACE
        handle = await app.start(both, id="r")
        with pytest.raises(RunHeld):
            await handle.result(within="5s")
        assert (await operation(app, "r", "once", "1")).state is OperationState.SUCCEEDED
        gate.opened.set()
        stubborn.freed.set()
        await reaches(app, "r", RunState.SUCCEEDED)
        assert await handle.result() == ["late", "made quick", "made slow"]
    assert target.requests == ["quick", "slow"]


@played
async def test_a_body_that_ends_with_its_result_in_the_grace_has_returned(db):
    @effect(on_unknown="hold", attempt_timeout="50ms", retry=QUICK, name="tidy")
    async def tidy(call: Call) -> str:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        return "in spite of it"

    flow = flow_of(tidy)
    async with working(db, flow) as app:
        assert await (await app.start(flow, id="r")).result(within="5s") == "in spite of it, made after"
