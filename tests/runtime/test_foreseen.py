"""What compensating would come to is said before anything is done, in the order in which it then is."""

import asyncio

from fencepost.core.states import RunState
from fencepost.effects.call import Call
from fencepost.effects.compensation import Compensation
from fencepost.effects.declare import effect
from fencepost.effects.promises import KeyHeader
from fencepost.runtime import verbs
from fencepost.runtime.app import App
from fencepost.runtime.foreseen import foreseen
from fencepost.runtime.report import CompensationReport
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from tests.runtime.stage import QUICK, keyed, once, played, reaches, staying, target, undo, verb, working


@effect(send_key=KeyHeader("Idempotency-Key", window="15m"), retry=QUICK, compensate=Compensation(undo, restores=True))
async def moved(call: Call, name: str) -> str:
    return await target.take(call, name)


@workflow(name="goes far")
async def goes_far(run: Run) -> str:
    await run.do(keyed("one"))
    await run.do(moved("two"))
    await run.do(staying("three"))
    await run.do(once("four"))
    raise LookupError("no further")


EXPECTED = {"compensate": "compensated", "restore": "restored", "stands as declared": "stands as declared"}


@played
async def test_what_is_foreseen_is_what_comes_of_it_and_foreseeing_it_does_nothing(db):
    async with working(db, goes_far) as app:
        await app.start(goes_far, id="r")
        await reaches(app, "r", RunState.FAILED)
        before, sent = await app.show("r"), list(target.requests)
        plan = foreseen(app, before.run)
        assert await app.show("r") == before
        assert target.requests == sent
        assert [(one.place, one.will) for one in plan] == [
            ("once", "compensate"), ("staying", "stands as declared"), ("moved", "restore"), ("keyed", "compensate"),
        ]  # fmt: skip
        await verb(app, verbs.compensate, "r")
        await reaches(app, "r", RunState.COMPENSATED)
        (step,) = [one for one in (await app.show("r")).steps if one.kind == "compensate"]
        report = CompensationReport.from_text(step.result)
        assert [(one.effect, one.outcome) for one in report.effects] == [
            (one.place, EXPECTED[one.will]) for one in plan
        ]
        assert {one.will for one in foreseen(app, before.run)} == {"done already", "stands as declared"}


@played
async def test_what_is_unknown_comes_first_and_code_that_is_not_here_is_not_guessed(db):
    target.plan("four", "lose")
    async with working(db, goes_far) as app:
        await app.start(goes_far, id="r")
        await reaches(app, "r", RunState.HELD)
    async with App(db, workflows=[]) as app:
        run = await asyncio.to_thread(app.store.find, "default", "r")
        assert [(one.place, one.will) for one in foreseen(app, run)] == [
            ("once", "settle first"), ("staying", "code not here"), ("moved", "code not here"),
            ("keyed", "code not here"),
        ]  # fmt: skip
