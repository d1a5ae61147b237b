"""A person has one effect of a run compensated and nothing else of it: counted at the target, told by the run's end."""

import json

import pytest

from fencepost.core.errors import NotPermitted, SecondPersonNeeded, VerbRefused
from fencepost.core.permissions import Above, Permissions
from fencepost.core.states import OperationState, RunState
from fencepost.effects.call import Call
from fencepost.effects.compensation import Compensation
from fencepost.effects.declare import effect
from fencepost.effects.promises import KeyHeader
from fencepost.runtime.app import App
from fencepost.runtime.applicable import verbs_for
from fencepost.runtime.bulk import Selection
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from tests.runtime.stage import QUICK, asked, keyed, once, operation, played, reaches, staying, target, undo, working

ANN = {"by": "ann", "reason": "that one was wrong"}


@workflow()
async def three(run: Run) -> str:
    for name in ("a", "b", "c"):
        await run.do(keyed(name), item=name)
    return "done"


@workflow()
async def resting(run: Run) -> str:
    await run.do(keyed("below"), item="below")
    await run.do(keyed("above"), item="above", after=[(keyed, "below")])
    await run.do(keyed("beside"), item="beside")
    return "done"


@workflow()
async def unsure(run: Run) -> str:
    await run.do(keyed("sure"))
    return await run.do(once("unsure"))


@workflow()
async def child_of(run: Run) -> str:
    return await run.do(keyed("child's"))


@workflow()
async def parent(run: Run) -> str:
    await run.do(keyed("parent's"))
    return await run.child(child_of, id="child")


@effect(on_unknown="hold", retry=QUICK, compensate=Compensation(undo, by={"finance"}))
async def of_finance(call: Call, name: str) -> str:
    return await target.take(call, name)


@effect(send_key=KeyHeader("Idempotency-Key", window="15m"), retry=QUICK)
async def take_back_cents(call: Call, name: str, cents: int, result: str | None, reference: str | None) -> str:
    return await target.take(call, f"undo {name}")


@effect(send_key=KeyHeader("Idempotency-Key", window="15m"), retry=QUICK, compensate=take_back_cents)
async def pays(call: Call, name: str, cents: int) -> str:
    return await target.take(call, name)


@workflow()
async def mixed(run: Run) -> str:
    await run.do(pays("large", 900))
    await run.do(pays("small", 1), item="small")
    return await run.do(staying("stays"))


def undone():
    return [name.removeprefix("undo ") for name in target.objects if name.startswith("undo ")]


async def report(app, run_id="r"):
    """What became of each effect, by the last compensation that is over."""
    steps = [step for step in (await app.show(run_id)).steps if step.kind == "compensate" and step.result]
    last = max(steps, key=lambda step: int(step.position.rpartition(":")[2]))
    return {one["effect"]: one["outcome"] for one in json.loads(last.result)["effects"]}


async def begun(app, code, *states):
    await app.start(code, id="r")
    await reaches(app, "r", *(states or (RunState.SUCCEEDED,)))


async def settled_as(app, state):
    await reaches(app, "r", state)
    assert (await app.check()).found == []


@played
async def test_only_that_effect_is_undone_and_the_end_says_what_stands(db):
    async with working(db, three) as app:
        await begun(app, three)
        assert "compensate step" in verbs_for(await app.show("r"))
        await app.compensate_step("r", "keyed", item="b", **ANN)
        await settled_as(app, RunState.PARTLY_COMPENSATED)
        assert undone() == ["b"]
        assert await report(app) == {
            "keyed[c]": "left standing", "keyed[b]": "compensated", "keyed[a]": "left standing",
        }  # fmt: skip
        (row,) = await app.audit(run="r")
        assert (row.verb, row.actor, row.outcome, row.step, row.item) == (
            "compensate step",
            "ann",
            "done",
            "keyed",
            "b",
        )

        with pytest.raises(VerbRefused, match=r"keyed\[b\] was compensated before"):
            await app.compensate_step("r", "keyed", item="b", **ANN)
        await app.compensate_step("r", "keyed", item="c", **ANN)
        await settled_as(app, RunState.PARTLY_COMPENSATED)
        assert "compensate step" not in verbs_for(await app.show("r")), "one is left: that is the run"
        await app.compensate("r", by="ann", reason="the rest")
        await settled_as(app, RunState.COMPENSATED)
        assert undone() == ["b", "c", "a"]
    assert target.requests == ["a", "b", "c", "undo b", "undo c", "undo a"]


@played
async def test_what_something_rests_on_is_compensated_after_that_and_never_before(db):
    async with working(db, resting) as app:
        await begun(app, resting)
        with pytest.raises(VerbRefused, match=r"keyed\[above\] came after keyed\[below\], rests on it, and stands"):
            await app.compensate_step("r", "keyed", item="below", **ANN)
        assert (await app.audit(run="r"))[0].outcome == "refused"
        for item in ("above", "below", "beside"):
            await app.compensate_step("r", "keyed", item=item, **ANN)
            await settled_as(app, RunState.COMPENSATED if item == "beside" else RunState.PARTLY_COMPENSATED)
    assert target.requests == ["below", "above", "beside", "undo above", "undo below", "undo beside"]


@played
async def test_what_is_unknown_is_settled_before_the_one_effect_is_compensated(db):
    target.plan("unsure", "lose")
    async with working(db, unsure) as app:
        await begun(app, unsure, RunState.HELD)
        with pytest.raises(VerbRefused, match="once is unknown, and only what is known to have happened"):
            await app.compensate_step("r", "once", **ANN)
        await app.compensate_step("r", "keyed", **ANN)
        await reaches(app, "r", RunState.HELD)
        assert undone() == []
        await app.settle("r", "once", happened=True, result='"seen"', by="ann", reason="it is there")
        await settled_as(app, RunState.PARTLY_COMPENSATED)
        assert await report(app) == {"once": "left standing", "keyed": "compensated"}
    assert undone() == ["sure"]


@played
async def test_one_that_fails_is_tried_again_alone_and_whoever_asks_for_all_is_not_given_one(db):
    target.plan("undo b", *["busy"] * 3)
    async with working(db, three) as app:
        await begun(app, three)
        await app.compensate_step("r", "keyed", item="b", **ANN)
        await settled_as(app, RunState.COMPENSATION_FAILED)
        await app.compensate_step("r", "keyed", item="a", **ANN)
        await settled_as(app, RunState.PARTLY_COMPENSATED)
        assert undone() == ["a"], "one that failed before is not tried with another"
        target.plan("undo b", "lose")
        await app.compensate_step("r", "keyed", item="b", **ANN)
        await reaches(app, "r", RunState.HELD)
        with pytest.raises(VerbRefused, match="has begun to go back already"):
            await app.compensate_step("r", "keyed", item="c", **ANN)
        await app.compensate("r", by="ann", reason="then all of it")
        await reaches(app, "r", RunState.HELD)
        await app.settle("r", "compensate keyed", item="b", happened=True, result='"seen"', by="ann", reason="there")
        await settled_as(app, RunState.COMPENSATED)
        assert all(step.result for step in (await app.show("r")).steps if step.kind == "compensate")
    assert sorted(undone()) == ["a", "b", "c"]


@played
async def test_a_child_of_the_run_is_left_as_it_is_and_counts_as_standing(db):
    async with working(db, parent, child_of) as app:
        await begun(app, parent)
        await app.compensate_step("r", "keyed", **ANN)
        await settled_as(app, RunState.PARTLY_COMPENSATED)
        assert undone() == ["parent's"]
        assert "left standing" in (await report(app)).values()
        assert (await app.show("child")).run.state is RunState.SUCCEEDED
        await app.compensate("r", by="ann", reason="the rest")
        await settled_as(app, RunState.COMPENSATED)
    assert undone() == ["parent's", "child's"]


@workflow()
async def finances(run: Run) -> str:
    await run.do(keyed("free"))
    return await run.do(of_finance("money"))


@played
async def test_whoever_may_not_start_it_and_what_has_no_compensation_is_refused(db):
    async with working(db, finances, mixed) as app:
        await begun(app, finances)
        with pytest.raises(NotPermitted, match="of_finance may be compensated by"):
            await app.compensate_step("r", "of_finance", **ANN)
        await app.compensate_step("r", "of_finance", roles={"finance"}, **ANN)
        await settled_as(app, RunState.PARTLY_COMPENSATED)
        await app.start(mixed, id="m")
        await reaches(app, "m", RunState.SUCCEEDED)
        with pytest.raises(VerbRefused, match="staying is declared to stand: it is meant to stay"):
            await app.compensate_step("m", "staying", **ANN)
    assert undone() == ["money"]


@played
async def test_two_persons_are_asked_for_by_the_one_effect_that_is_meant(db):
    two = Permissions({"ann": "operator", "bob": "operator"}, compensating_above=Above("cents", 100))
    async with working(db, mixed, permissions=two) as app:
        await begun(app, mixed)
        with pytest.raises(SecondPersonNeeded, match="cents is above 100"):
            await app.compensate_step("r", "pays", **ANN)
        await app.compensate_step("r", "pays", item="small", **ANN)
        await settled_as(app, RunState.PARTLY_COMPENSATED)
        assert undone() == ["small"]
    all_of_it = Permissions({"ann": "operator", "bob": "operator"}, two_persons=["compensate"])
    async with working(db, mixed, permissions=all_of_it) as app:
        with pytest.raises(SecondPersonNeeded, match="every compensate"):
            await app.compensate_step("r", "pays", **ANN)


@played
async def test_one_step_of_many_runs_is_compensated_as_a_job(db):
    async with working(db, three) as app:
        for name in ("r", "s"):
            await app.start(three, id=name)
            await reaches(app, name, RunState.SUCCEEDED)
        done = await app.bulk("compensate step", Selection(state="succeeded"), step="keyed", item="b", **ANN)
        assert [(one.run, one.refused) for one in done] == [("s", None), ("r", None)]
        for name in ("r", "s"):
            await reaches(app, name, RunState.PARTLY_COMPENSATED)
        assert (await app.check()).found == []
    assert undone() == ["b", "b"]


@workflow()
async def lost(run: Run) -> str:
    await run.do(asked("first"))
    await run.do(keyed("second"))
    raise ValueError("the code is wrong")


@played
async def test_it_is_carried_out_by_whoever_takes_the_run_when_its_worker_is_gone(db):
    async with working(db, lost) as app:
        await begun(app, lost, RunState.FAILED)
    async with App(db, workflows=[lost]) as app:
        await app.compensate_step("r", "asked", **ANN)
        assert target.requests == ["first", "second"]
    async with working(db, lost) as app:
        await settled_as(app, RunState.PARTLY_COMPENSATED)
        assert (await operation(app, "r", "compensate asked")).state is OperationState.SUCCEEDED
    assert undone() == ["first"]
