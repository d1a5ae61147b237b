"""Whoever lacks the role of a verb gets it by no other door: counted at the target, and by the rows of the refusals."""

from collections.abc import Callable
from typing import Any

import pytest

from fencepost.core.approval import Approval
from fencepost.core.errors import NotPermitted, RunFailed
from fencepost.core.permissions import Permissions
from fencepost.core.states import RunState
from fencepost.runtime import permits, restoring
from fencepost.runtime.app import App
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from tests.runtime.stage import once, played, reaches, target, working

WHO = Permissions({"app": "approver", "max": "operator", "vic": "viewer"})


@workflow()
async def paying(run: Run, name: str) -> str:
    call = once(name)
    return await run.do(call, approval=await run.wait("ok", Approval, allows=call))


def answer(*, approved: bool) -> dict[str, Any]:
    return {"approved": approved, "digest": once("a").digest("r")}


DOORS: dict[str, Callable[..., Any]] = {
    "approve": lambda app, by, yes: app.approve("r", "ok", by=by, approved=yes),
    "a signal by hand": lambda app, by, yes: app.signal("r", "ok", answer(approved=yes), by=by, reason="so"),
    "a signal of code": lambda app, by, yes: app.signal("r", "ok", answer(approved=yes), sender=by),
    "an event": lambda app, by, yes: app.event("ok", answer(approved=yes), id="1", sender=by),
}
"""By which an answer comes to the wait for an approval."""


@pytest.mark.parametrize("yes", [True, False])
@pytest.mark.parametrize("door", DOORS)
@played
async def test_an_approval_takes_the_approvers_role_by_every_door(db, door, yes):
    async with working(db, paying, permissions=WHO) as app, App(db, workflows=[]) as anybody:
        await app.start(paying, "a", id="r")
        await reaches(app, "r", RunState.WAITING)
        for who in ("max", "vic", "eve"):
            with pytest.raises(NotPermitted, match="lacks the role"):
                await DOORS[door](anybody, who, yes)
        assert (await app.show("r")).signals == []
        assert {row.outcome for row in await app.audit()} - {"done"} == {"refused"}
        assert target.requests == []
        if door != "a signal by hand":  # which takes the operator's role besides
            await DOORS[door](anybody, "app", yes)
            await reaches(app, "r", RunState.SUCCEEDED if yes else RunState.FAILED)
            assert target.requests == (["a"] if yes else [])


@pytest.mark.parametrize("verb", [restoring.restored, restoring.close_lost_time])
@played
async def test_what_concerns_the_whole_ledger_takes_the_role_in_every_namespace_that_has_declared_any(db, verb):
    async with working(db, paying, permissions=Permissions({"ann": "admin"}), namespace="shop"):
        pass
    async with App(db, workflows=[], namespace="elsewhere") as app:
        with pytest.raises(NotPermitted, match="lacks the role admin") as refused:
            verb(app, by="max", reason="so")
        assert refused.value.ids["namespace"] == "shop"
        assert app.store.epoch() is None
        assert restoring.restored(app, by="ann", reason="the disk died").number
        (row, *_) = await app.audit(outcome="refused")
        assert (row.actor, row.outcome) == ("max", "refused")


@pytest.mark.parametrize("door", list(DOORS)[1:3])
@played
async def test_an_early_answer_takes_the_role_too(db, door):
    async with App(db, workflows=[paying], permissions=WHO) as app:
        await app.start(paying, "a", id="r")
        with pytest.raises(NotPermitted, match="lacks the role approver for approve"):
            await DOORS[door](app, "max", True)
        async with app.worker():
            await reaches(app, "r", RunState.WAITING)
    assert target.requests == []


@workflow()
async def paying_when_told(run: Run, name: str) -> str:
    call = once(name)
    answer = await run.wait("ok", Approval, allows=call)
    await run.wait("go", str)
    return await run.do(call, approval=answer)


@pytest.mark.parametrize("left", [True, False])
@played
async def test_the_approvers_role_is_asked_for_again_when_the_approval_is_used(db, left):
    async with working(db, paying_when_told, permissions=WHO) as app:
        handle = await app.start(paying_when_told, "a", id="r")
        await reaches(app, "r", RunState.WAITING)
        await app.approve("r", "ok", by="app")
        if left:
            permits.declare(app.store, "default", Permissions({"max": "operator", "app": "viewer"}))
        await app.signal("r", "go", "now")
        if left:
            with pytest.raises(RunFailed, match="right lost by approver"):
                await handle.result()
            (row,) = [row for row in await app.audit(run="r") if row.verb == "use approval"]
            assert (row.actor, row.outcome) == ("app", "refused")
        else:
            assert await handle.result() == "made a"
        assert target.requests == ([] if left else ["a"])
