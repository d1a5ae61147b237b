"""C19: a deployment removes, inserts, moves or renames a step, or changes its arguments, under a run in flight."""

import pytest

from fencepost.core.states import RunState
from fencepost.effects.call import Call
from fencepost.effects.declare import effect
from fencepost.effects.promises import Stands
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from tests.runtime.stage import QUICK, hold, played, reaches, target, working


def step(name):
    @effect(name=name, on_unknown="hold", retry=QUICK, compensate=Stands("it is meant to stay"))
    async def body(call: Call, what: str) -> str:
        return await target.take(call, what)

    return body


a, b, c, x = step("a"), step("b"), step("c"), step("x")


def flow(*before, version=1):
    """A workflow of one name: what comes before the wait, the wait, and C."""

    @workflow(name="flow", version=version)
    async def declared(run: Run) -> str:
        for one, what in before:
            await run.do(one(what))
        await run.wait("go", str, within="1h")
        return await run.do(c("c"))

    declared.steps = declared.steps_with([a, b, c, x])
    return declared


V1 = flow((a, "a"), (b, "b"))
CHANGED = {
    "removed": flow((a, "a")),
    "inserted": flow((a, "a"), (x, "x"), (b, "b")),
    "appended": flow((a, "a"), (b, "b"), (x, "x")),
    "reordered": flow((b, "b"), (a, "a")),
    "renamed": flow((a, "a"), (x, "b")),
    "other arguments": flow((a, "a"), (b, "B")),
}


async def stop_after_b(db):
    async with working(db, V1) as app:
        await app.start(V1, id="r")
        await reaches(app, "r", RunState.WAITING)
    assert target.requests == ["a", "b"]


@pytest.mark.parametrize("change", CHANGED)
@played
async def test_a_run_whose_code_changed_under_it_stops_before_any_further_effect(db, change):
    await stop_after_b(db)
    async with working(db, CHANGED[change]) as app:
        await app.signal("r", "go", "on", id="s1")
        await reaches(app, "r", RunState.HELD)
        assert (await hold(app, "r"))["reason"] in ("HistoryMismatch", "RepeatedEffect")
        assert target.requests == ["a", "b"]
    async with working(db, V1) as app:
        await app.resume("r", by="ann", reason="the old code is back")
        assert await (await app.handle("r")).result(within="20s") == "made c"
        assert target.requests == target.objects == ["a", "b", "c"]


@played
async def test_a_run_is_pinned_to_its_version_and_new_runs_take_the_new_one(db):
    await stop_after_b(db)
    v2 = flow((a, "a2"), version=2)
    async with working(db, V1, v2) as app:
        await app.signal("r", "go", "on", id="s1")
        assert await (await app.handle("r")).result(within="20s") == "made c"
        assert target.requests == ["a", "b", "c"]
        newer = await app.start(v2, id="r2")
        await app.signal("r2", "go", "on", id="s1")
        assert await newer.result(within="20s") == "made c"
        assert target.requests == ["a", "b", "c", "a2", "c"]


@played
async def test_a_run_whose_version_nobody_knows_any_more_is_touched_by_nobody(db):
    await stop_after_b(db)
    v2 = flow((a, "a2"), version=2)
    async with working(db, v2) as app:
        await app.signal("r", "go", "on", id="s1")
        other = await app.start(v2, id="r2")
        await app.signal("r2", "go", "on", id="s1")
        assert await other.result(within="20s") == "made c"
        assert (await app.show("r")).run.state is RunState.WAITING
        assert target.requests == ["a", "b", "a2", "c"]
