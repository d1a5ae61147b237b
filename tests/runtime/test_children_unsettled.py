"""A child that was ended over an unknown effect is settled before its parent undoes anything; counted at the target."""

import json

import pytest

from fencepost.core.errors import RunNotFound, StepFailed
from fencepost.core.states import RunState
from fencepost.effects.call import Call
from fencepost.effects.compensation import Compensation
from fencepost.effects.declare import effect
from fencepost.effects.promises import KeyHeader
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from tests.runtime.stage import QUICK, keyed, once, played, reaches, target, undo, until, working

KEY = KeyHeader("Idempotency-Key", window="15m")


@effect(send_key=KEY, retry=QUICK, compensate=undo, independent=True)
async def apart(call: Call, name: str) -> str:
    return await target.take(call, name, honours_keys=True)


@effect(send_key=KEY, retry=QUICK, compensate=Compensation(undo, by={"finance"}))
async def of_finance(call: Call, name: str) -> str:
    return await target.take(call, name, honours_keys=True)


@workflow()
async def unsure(run: Run) -> str:
    return await run.do(once("in"))


@workflow()
async def between(run: Run) -> str:
    await run.do(keyed("between"))
    return await run.child(unsure, id="unsure")


@workflow()
async def above(run: Run, child: str) -> str:
    await run.do(keyed("before"))
    try:
        await run.child(between if child == "between" else unsure, id=child)
    except StepFailed:
        return await run.do(apart("after"))
    return "done"


@workflow()
async def paid(run: Run) -> str:
    return await run.do(of_finance("paid"))


@workflow()
async def above_finance(run: Run) -> str:
    await run.do(keyed("before"))
    await run.child(paid, id="paid")
    await run.compensate(reason="wrong")
    return "done"


CODE = (unsure, between, above, paid, above_finance)


async def is_there(app, run_id, state):
    try:
        return (await app.show(run_id)).run.state is state
    except RunNotFound:
        return False


async def report(app):
    steps = [step for step in (await app.show("r")).steps if step.kind == "compensate" and step.result]
    return {one["effect"]: (one["outcome"], one["error"]) for one in json.loads(steps[-1].result)["effects"]}


@pytest.mark.parametrize("happened", [True, False])
@pytest.mark.parametrize("child", ["unsure", "between"])
@played
async def test_a_child_ended_over_an_unknown_effect_is_settled_and_then_everything_is_undone(db, child, happened):
    target.plan("in", "lose" if happened else "drop")
    async with working(db, *CODE) as app:
        await app.start(above, child, id="r")
        await until(lambda: is_there(app, "unsure", RunState.HELD), "the child to be held")
        await app.terminate("unsure", by="ann", reason="enough")
        await reaches(app, "r", RunState.SUCCEEDED)
        await app.compensate("r", by="ann", reason="wrong")
        await reaches(app, "unsure", RunState.HELD)
        assert not [name for name in target.requests if name.startswith("undo")]
        said = {"result": '"made in"'} if happened else {"override": True}
        await app.settle("unsure", step="once", happened=happened, by="ann", reason="I looked", **said)
        await reaches(app, "r", RunState.COMPENSATED, RunState.PARTLY_COMPENSATED)
        assert {what for what, _ in (await report(app)).values()} == {"compensated"}
        assert (await app.show("r")).run.state is RunState.COMPENSATED
        assert not (await app.check()).found
    made = [one for one in target.objects if not one.startswith("undo")]
    assert sorted(f"undo {one}" for one in made) == sorted(one for one in target.objects if one not in made)


@played
async def test_why_a_child_was_not_compensated_is_told_in_its_parents_report(db):
    async with working(db, *CODE) as app:
        await app.start(above_finance, id="r")
        await reaches(app, "r", RunState.PARTLY_COMPENSATED)
        became = next(told for told in (await report(app)).values() if told[0] != "compensated")
        assert became == ("not permitted", "of_finance may be compensated by finance, not by workflow")
    assert target.objects == ["before", "paid", "undo before"]


@played
async def test_beside_a_child_that_stays_unknown_nothing_is_undone_and_trying_again_undoes_it_all(db):
    target.plan("in", "lose")
    async with working(db, *CODE) as app:
        await app.start(above, "unsure", id="r")
        await until(lambda: is_there(app, "unsure", RunState.HELD), "the child to be held")
        await app.terminate("unsure", by="ann", reason="enough")
        await reaches(app, "r", RunState.SUCCEEDED)
        await app.compensate("r", by="ann", reason="wrong")
        await reaches(app, "unsure", RunState.HELD)
        await app.terminate("unsure", by="ann", reason="enough again")
        await reaches(app, "r", RunState.COMPENSATION_FAILED)
        assert await report(app) == {
            "apart": ("not settled", "unsure: once is unknown"),
            "/unsure": ("failed", "run unsure is terminated"),
            "keyed": ("not settled", "unsure: once is unknown"),
        }
        assert not [name for name in target.requests if name.startswith("undo")]
        await app.compensate("r", by="ann", reason="once more")
        await reaches(app, "unsure", RunState.HELD)
        await app.settle("unsure", step="once", happened=True, result='"made in"', by="ann", reason="I looked")
        await reaches(app, "r", RunState.COMPENSATED)
        assert not (await app.check()).found
    assert target.objects == ["before", "in", "after", "undo in", "undo after", "undo before"]
