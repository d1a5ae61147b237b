"""An effect that a race took back before it was sent, and that its workflow asks for after all."""

import pytest

from fencepost.core.contract import Retry
from fencepost.core.duration import MINUTE
from fencepost.core.errors import RunCancelled
from fencepost.core.states import OperationState, RunState
from fencepost.effects.answers import Inconclusive
from fencepost.effects.call import Call
from fencepost.effects.declare import KeyHeader, effect
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from tests.runtime.stage import Clock, Gate, asked, once, operation, played, reaches, target, until, working

SLOW = Retry(attempts=3, within="1h", first_delay="10m", longest_delay="10m")


@effect(send_key=KeyHeader("Idempotency-Key", window="24h"), retry=SLOW)
async def patient(call: Call, name: str) -> str:
    """Pauses for long after each failure."""
    return await target.take(call, name, honours_keys=True)


@workflow()
async def reconsidering(run: Run) -> list[str]:
    index, _ = await run.race(run.do(patient("x"), item="x"), run.wait("go", str))
    first = str(index)
    await run.wait("anyway", str)
    return [first, await run.do(patient("x"), item="x"), await run.do(once("after"))]


async def is_taken_back(app):
    await until(lambda: operation_is_there(app), "the operation")
    await reaches(app, "r", RunState.WAITING)
    await app.signal("r", "go", "on")
    await until(lambda: is_cancelled(app), "the operation to be taken back")


async def operation_is_there(app):
    return (await app.show("r")).operations


async def is_cancelled(app):
    return (await operation(app, "r", "patient", "x")).state is OperationState.CANCELLED


@pytest.mark.parametrize("lives", [1, 2])
def test_it_goes_once_after_the_pause_that_it_was_in_and_with_what_is_left_of_its_budget(db, lives):
    @played
    async def play() -> None:
        clock = Clock()
        target.plan("x", "busy")
        async with working(db, reconsidering, clock=clock) as app:
            await app.start(reconsidering, id="r")
            await is_taken_back(app)
            if lives == 1:
                await app.signal("r", "anyway", "do")
                await until(lambda: is_reserved(app), "it to be intended again")
        async with working(db, reconsidering, clock=clock) as app:
            if lives == 2:
                await app.signal("r", "anyway", "do")
                await until(lambda: is_reserved(app), "it to be intended again")
            assert target.requests == []
            clock.offset = 11 * MINUTE
            app._workers[0].wake()
            assert await (await app.handle("r")).result() == ["1", "made x", "made after"]
            found = await operation(app, "r", "patient", "x")
            assert (found.state, len(found.attempts)) == (OperationState.SUCCEEDED, 2)
        async with working(db, reconsidering, clock=clock) as app:
            assert await (await app.handle("r")).result() == ["1", "made x", "made after"]
        assert target.requests == ["x", "after"]

    play()


async def is_reserved(app):
    return (await operation(app, "r", "patient", "x")).state is OperationState.RESERVED


@played
async def test_taken_back_and_asked_for_in_the_same_moment_it_goes(db):
    @workflow(name="at once")
    async def at_once(run: Run) -> str:
        await run.race(run.do(patient("x"), item="x"), run.wait("go", str))
        return await run.do(patient("x"), item="x")

    clock = Clock()
    target.plan("x", "busy")
    async with working(db, at_once, clock=clock) as app:
        handle = await app.start(at_once, id="r")
        await reaches(app, "r", RunState.WAITING)
        await app.signal("r", "go", "on")
        await until(lambda: _is_reserved_after(app, 1), "it to be asked for again")
        clock.offset = 11 * MINUTE
        app._workers[0].wake()
        assert await handle.result() == "made x"
    assert target.requests == ["x"]


async def _is_reserved_after(app, attempts):
    found = await operation(app, "r", "patient", "x")
    return found.state is OperationState.RESERVED and len(found.attempts) == attempts


@played
async def test_in_flight_when_its_branch_lost_and_refused_then_it_is_not_sent_for_nobody(db):
    gate = Gate()

    @effect(name="busy", send_key=KeyHeader("K", window="24h"), retry=Retry(attempts=5, within="1m", first_delay="1ms"))
    async def busy(call: Call) -> str:
        target.requests.append("busy")
        if len(target.requests) == 1:
            await gate.wait()
            with call.sending():
                raise ConnectionRefusedError("nobody listens")
        return "sent"

    @workflow(name="losing")
    async def losing(run: Run) -> str:
        await run.race(run.do(busy()), run.wait("go", str))
        return await run.do(once("after"))

    async with working(db, losing) as app:
        handle = await app.start(losing, id="r")
        await gate.reached.wait()
        await app.signal("r", "go", "on")
        await until(lambda: "after" in target.requests, "the effect after the race")
        gate.opened.set()
        assert await handle.result() == "made after"
        assert (await operation(app, "r", "busy")).state is OperationState.CANCELLED
    assert target.requests == ["busy", "after"]


@played
async def test_unknown_when_its_run_was_cancelled_and_proved_absent_then_it_is_not_sent_for_nobody(db):
    @workflow(name="asking")
    async def asking(run: Run) -> str:
        return await run.do(asked("x"))

    target.plan("x", "drop")
    target.answers.append(Inconclusive("not yet"))
    async with working(db, asking) as app:
        handle = await app.start(asking, id="r")
        await until(lambda: target.looked, "the look-up")
        await app.cancel("r", by="ann", reason="stop")
        with pytest.raises(RunCancelled):
            await handle.result()
        assert (await operation(app, "r", "asked")).state is OperationState.CANCELLED
    assert target.requests == ["x"]
