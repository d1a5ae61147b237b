"""Jobs of a run that continues: each turn's wait takes reports on its own job, and an earlier one's come too late."""

import asyncio

import pytest

from fencepost import WaitExpired
from fencepost.core.states import RunState, SignalState
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from tests.runtime.stage import Gate, played, reaches, target, until
from tests.runtime.test_jobs import farm, submit, waits_for, with_secret


@pytest.fixture(autouse=True)
def forgetful():
    farm.tokens, farm.answers, farm.asked, farm.reporting = [], [], 0, None


@workflow()
async def rendering_anew(run: Run, number: int) -> str:
    await run.do(submit(f"film {number}"))
    try:
        film = await run.wait("rendered", str, callback=submit, heartbeat="1h", within="1ms" if number == 0 else "2h")
    except WaitExpired:
        return run.continue_as(number + 1)
    return f"turn {number}: {film}"


@workflow()
async def handing_on(run: Run, number: int) -> str:
    if number == 0:
        await run.do(submit("film"))
        return run.continue_as(1)
    return await run.wait("rendered", str, callback=submit, heartbeat="1h")


async def stray(app):
    return [
        (one.state, one.reason) for one in (await app.show("r")).signals if one.payload == '{"done":"the old film"}'
    ]


@pytest.mark.parametrize("when", ["before the next job is handed over", "while the next one is waited for"])
@played
async def test_what_a_job_of_an_earlier_turn_brings_is_no_answer_to_the_wait_for_a_later_one(db, when):
    gate = Gate()
    target.plan("film 1", gate)
    async with with_secret(db, rendering_anew) as app:
        handle = await app.start(rendering_anew, 0, id="r")
        await gate.reached.wait()
        late, current = farm.tokens
        if when.startswith("before"):
            await app.callback(late, "the old film")
        gate.opened.set()
        await until(lambda: waits_for(app, "rendered"), "the wait for the second job")
        await reaches(app, "r", RunState.WAITING)
        if when.startswith("while"):
            await app.callback(late, "the old film")

        async def refused():
            return [state for state, _ in await stray(app)] == [SignalState.REFUSED]

        await until(refused, "the late report to be refused")
        assert "an earlier turn" in (await stray(app))[0][1]
        assert [row.outcome for row in await app.audit(run="r")] == ["refused"]
        await reaches(app, "r", RunState.WAITING)
        await app.callback(current, "the new film")
        assert await handle.result(within="20s") == "turn 1: the new film"


@played
async def test_a_heartbeat_of_an_earlier_turns_job_keeps_no_later_one_alive(db):
    async with with_secret(db, rendering_anew) as app:
        await app.start(rendering_anew, 0, id="r")
        await until(lambda: len(farm.tokens) == 2, "the second job")
        await reaches(app, "r", RunState.WAITING)
        (before,) = await waits_for(app, "rendered")
        late, current = farm.tokens
        assert await app.heartbeat(late, progress="half of the old film") is False
        assert await waits_for(app, "rendered") == [before]
        assert await app.heartbeat(current) is True


@played
async def test_a_job_may_be_handed_over_in_one_turn_and_waited_for_in_the_next(db):
    async with with_secret(db, handing_on) as app:
        handle = await app.start(handing_on, 0, id="r")
        await until(lambda: waits_for(app, "rendered"), "the wait")
        await asyncio.sleep(0)
        assert await app.heartbeat(farm.tokens[0]) is True
        await app.callback(farm.tokens[0], "a film")
        assert await handle.result(within="20s") == "a film"
