"""A failed run that a person lets go on: what ended it is taken back and asked for anew, and so is what that withdrew.

Each run is lived once more from its rows at the end, so that a replay that differs would be held.
"""

import pytest

from fencepost.core.duration import MINUTE
from fencepost.core.errors import VerbRefused, WaitExpired
from fencepost.core.states import RunState, StepState
from fencepost.effects.call import Call
from fencepost.effects.declare import compute, read
from fencepost.runtime import verbs
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from tests.runtime.stage import QUICK, Clock, Gate, once, played, reaches, target, until, verb, working


@workflow()
async def deciding(run: Run) -> str:
    await run.do(once("a"))
    return await run.wait("decision", str, within="10m")


@workflow()
async def raising(run: Run) -> str:
    try:
        return await run.wait("decision", str, within="10m")
    except WaitExpired as error:
        raise LookupError("nobody decided") from error


@workflow()
async def beside(run: Run) -> str:
    """Something else is delivered after the wait has expired, and before the run fails of it."""
    return (await run.gather(run.wait("decision", str, within="10m"), run.sleep("10m2s")))[0]


@workflow()
async def racing(run: Run) -> list[str]:
    async def decide() -> str:
        return await run.wait("decision", str, within="10m")

    async def remind() -> str:
        await run.wait("reminder", str, within="1h")
        return "reminded"

    return [(await run.race(decide(), remind()))[1], await run.do(once("after"))]


async def step(app, name):
    return next(one for one in (await app.show("r")).steps if one.name == name)


async def let_it_expire(app, clock):
    await reaches(app, "r", RunState.WAITING)
    clock.offset += 11 * MINUTE
    app._workers[0].wake()
    await reaches(app, "r", RunState.FAILED)


@pytest.mark.parametrize("flow", [deciding, raising, beside])
def test_an_expired_wait_is_opened_again_with_its_whole_time(db, flow):
    @played
    async def play() -> None:
        clock = Clock()
        async with working(db, flow, clock=clock) as app:
            handle = await app.start(flow, id="r")
            await let_it_expire(app, clock)
            with pytest.raises(VerbRefused, match="ended"):
                await app.signal("r", "decision", "too late", id="s1")
            await verb(app, verbs.resume, "r")
            await reaches(app, "r", RunState.WAITING)
            opened = await step(app, "decision")
            assert opened.state is StepState.OPEN
            assert opened.due_at > app.store.now() + 9 * MINUTE
            if flow is deciding:
                await let_it_expire(app, clock)
                await verb(app, verbs.resume, "r")
            await app.signal("r", "decision", "yes", id="s2")
            assert await handle.result() == "yes"
        async with working(db, flow, clock=clock) as app:
            assert await (await app.handle("r")).result() == "yes"

    play()


@played
async def test_what_the_expired_wait_withdrew_is_opened_again_too(db):
    clock = Clock()
    async with working(db, racing, clock=clock) as app:
        handle = await app.start(racing, id="r")
        await let_it_expire(app, clock)
        assert (await step(app, "reminder")).state is StepState.CANCELLED
        await verb(app, verbs.resume, "r")
        await reaches(app, "r", RunState.WAITING)
    async with working(db, racing, clock=clock) as app:
        assert (await step(app, "reminder")).state is StepState.OPEN
        await app.signal("r", "reminder", "now")
        handle = await app.handle("r")
        assert await handle.result() == ["reminded", "made after"]
        assert (await step(app, "decision")).state is StepState.CANCELLED


@played
async def test_a_read_that_ended_after_it_was_withdrawn_is_delivered_at_the_same_place_in_every_life(db):
    """The race was lost to a failure that a resume takes back; so the late answer wins it now, and is a delivery."""
    gate, faulty = Gate(), [True]

    @read(name="slow")
    async def slow(call: Call) -> str:
        await gate.wait()
        return "late"

    @compute(name="computing")
    async def computing(call: Call) -> str:
        await gate.reached.wait()
        if faulty:
            gate.opened.set()  # so that the read ends in the moment in which its branch has lost
            raise ValueError("a fault")
        raise AssertionError("the answer is there already")

    @workflow(name="both")
    async def both(run: Run) -> str:
        async def other() -> str:
            await run.sleep("1ms")
            return await run.do(computing())

        won = (await run.race(run.do(slow()), other()))[1]
        return won + await run.wait("go", str)

    async with working(db, both) as app:
        await app.start(both, id="r")
        await reaches(app, "r", RunState.FAILED)
        faulty.clear()
        await verb(app, verbs.resume, "r")
        await reaches(app, "r", RunState.WAITING)
    async with working(db, both) as app:
        await app.signal("r", "go", "!")
        assert await (await app.handle("r")).result() == "late!"


@played
async def test_a_read_in_flight_whose_branch_lost_ends_without_harm(db):
    gate, tries = Gate(), []

    @read(name="slow", retry=QUICK)
    async def slow(call: Call) -> str:
        tries.append(1)
        if len(tries) == 1:
            raise ConnectionRefusedError("once more, so that it has a row")
        await gate.wait()
        return "late"

    @workflow(name="losing")
    async def losing(run: Run) -> str:
        index, _ = await run.race(run.do(slow()), run.wait("go", str))
        await run.do(once("after"))
        return str(index)

    async with working(db, losing) as app:
        handle = await app.start(losing, id="r")
        await gate.reached.wait()
        await app.signal("r", "go", "on")
        await until(lambda: "after" in target.requests, "the effect after the race")
        gate.opened.set()
        assert await handle.result() == "1"
