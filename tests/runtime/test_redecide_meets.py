"""What a new decision meets: children, compensations, sleeps, patches, effects that were not sent, and other code."""

import pytest

from fencepost.core.contract import Retry
from fencepost.core.duration import HOUR
from fencepost.core.errors import CompensationIncomplete, HistoryMismatch, SecondPersonNeeded, StepFailed, VerbRefused
from fencepost.core.permissions import Permissions
from fencepost.core.states import OperationState, RunState
from fencepost.effects.call import Call
from fencepost.effects.declare import effect
from fencepost.effects.promises import KeyHeader
from fencepost.runtime.app import App
from fencepost.runtime.rehearsal import rehearse
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from tests.runtime.stage import hold, keyed, once, operation, played, reaches, target, undo, working
from tests.runtime.test_redecide import _forgetful, decide, said, tried

__all__ = ["_forgetful"]


@effect(on_unknown="hold")
async def for_good(call: Call, name: str) -> str:
    """Nothing makes it acceptable again."""
    return await target.take(call, name)


@effect(
    send_key=KeyHeader("Idempotency-Key", window="1d"), compensate=undo,
    retry=Retry(attempts=3, within="5h", first_delay="1h", longest_delay="1h"),
)  # fmt: skip
async def patient(call: Call, name: str) -> str:
    return await target.take(call, name, honours_keys=True)


async def refused(app: App, match: str, run: str = "r") -> None:
    with pytest.raises(VerbRefused, match=match):
        await app.redecide(run, by="ann", reason="not this")


# -- children ---------------------------------------------------------------------------------------------------------


@workflow()
async def child(run: Run) -> str:
    way = await run.do(decide("child"))
    return f"{way} {await run.wait('word', str)}" if way == "wait" else way


@workflow()
async def parent(run: Run) -> str:
    await run.do(decide("parent"))
    return await run.child(child, id="c")


@played
async def test_a_child_is_waited_for_stands_like_an_effect_and_has_said_its_answer(db):
    said.extend(["go", "wait", "else"])
    async with working(db, parent, child) as app:
        handle = await app.start(parent, id="r")
        await reaches(app, "r", RunState.WAITING)
        await refused(app, "/child is not over")
        await app.signal("c", "word", "now")
        assert await handle.result() == "wait now"
        await refused(app, "/child came after /decide and stands")
        await refused(app, "its parent has its answer", "c")
        await app.redecide("r", by="ann", reason="not this", override=True)
        await reaches(app, "r", RunState.HELD)
        assert (await hold(app, "r"))["reason"] == "ChildRefused"


# -- compensations ----------------------------------------------------------------------------------------------------


@workflow()
async def goes_back(run: Run, first: str) -> str:
    """Makes up for it as well as it can, and then comes to a stop."""
    if await run.do(decide("which way")) == "right":
        return "right"
    await run.do(for_good("one") if first == "for good" else once("one"))
    try:
        await run.compensate(reason="not this way")
    except CompensationIncomplete:
        await run.do(tried("two"))
    return "left"


@pytest.mark.parametrize(
    ("first", "why"), [("for good", "its compensation is incomplete"), ("undone", "once was to be compensated")]
)
@played
async def test_nobody_decides_anew_over_a_compensation_that_is_incomplete(db, first, why):
    said.append("left")
    target.plan("two", "busy")
    target.plan("undo one", "refuse")
    async with working(db, goes_back) as app:
        await app.start(goes_back, first, id="r")
        await reaches(app, "r", RunState.HELD)
        await refused(app, why)


@played
async def test_a_run_that_went_back_ends_as_its_new_decision_has_it(db):
    said.extend(["left", "right"])
    async with working(db, goes_back) as app:
        handle = await app.start(goes_back, "undone", id="r")
        await reaches(app, "r", RunState.COMPENSATED)
        await app.redecide("r", by="ann", reason="not this way")
        await reaches(app, "r", RunState.SUCCEEDED)
        assert await handle.result() == "right"
        assert (await app.check()).found == []
    assert target.requests == ["one", "undo one"]


# -- what is under way ------------------------------------------------------------------------------------------------


@workflow()
async def rests_beside(run: Run) -> str:
    way, _ = await run.gather(run.do(decide("which way")), run.sleep("1h"))
    return way


@played
async def test_what_slept_beside_the_decision_sleeps_its_whole_time_again(db):
    said.extend(["left", "right"])
    async with working(db, rests_beside) as app:
        await app.start(rests_beside, id="r")
        await reaches(app, "r", RunState.WAITING)
        await app.redecide("r", by="ann", reason="not this")
        await reaches(app, "r", RunState.WAITING)
        rows = {one.position: one for one in (await app.show("r")).steps}
        old, new = rows["/gather:1.1/sleep:1"], rows["/redecide:1/gather:1.1/sleep:1"]
        assert (old.state, new.state) == ("cancelled", "open")
        assert new.due_at >= rows["redecide:1"].opened_at + HOUR


@workflow()
async def begins(run: Run) -> str:
    way = await run.do(decide("which way"))
    return await run.do(patient("left") if way == "left" else keyed("right"))


@played
async def test_what_was_not_sent_yet_is_taken_back_and_goes_under_its_key_if_it_is_wanted_after_all(db):
    said.extend(["left", "right", "left"])
    target.plan("left", "busy", "commit")
    async with working(db, begins) as app:
        handle = await app.start(begins, id="r")
        await reaches(app, "r", RunState.WAITING)
        key = (await operation(app, "r", "patient")).key
        await app.redecide("r", by="ann", reason="not left")
        assert await handle.result() == "made right"
        assert (await operation(app, "r", "patient")).state is OperationState.CANCELLED
        await app.redecide("r", by="ann", reason="left after all", override=True)
        await reaches(app, "r", RunState.WAITING)
        again = await operation(app, "r", "patient")
        assert (again.state, again.key, len(again.attempts)) == (OperationState.RESERVED, key, 1)
    assert target.requests == ["right"]


# -- code -------------------------------------------------------------------------------------------------------------


@workflow()
async def patched(run: Run) -> str:
    way = await run.do(decide("which way"))
    new = run.patched("new way") if way != "skip" else "not asked"
    await run.wait("word", str)
    return f"{way}: {new}"


@pytest.mark.parametrize(("second", "ends"), [("right", "right: True"), ("skip", "skip: not asked")])
@played
async def test_a_patch_is_one_thing_in_all_versions_and_need_not_be_asked_for_again(db, second, ends):
    said.extend(["left", second])
    async with working(db, patched) as app:
        await app.start(patched, id="r")
        await reaches(app, "r", RunState.WAITING)
        await app.redecide("r", by="ann", reason="not this")
        await reaches(app, "r", RunState.WAITING)
    async with working(db, patched) as app:
        await app.signal("r", "word", "go")
        assert await (await app.handle("r")).result() == ends


@workflow(name="changed")
async def asks(run: Run) -> str:
    return await run.do(decide("which way"))


@workflow(name="changed", version=2)
async def asks_nothing(run: Run) -> str:
    return await run.wait("word", str)


@played
async def test_code_that_does_not_wait_for_the_decision_does_not_fit(db):
    said.append("left")
    async with working(db, asks, asks_nothing) as app:
        await app.start(asks, id="r")
        await reaches(app, "r", RunState.SUCCEEDED)
    async with App(db, workflows=[asks, asks_nothing]) as app:
        await app.redecide("r", by="ann", reason="not this")
        history = await app.show("r")
    assert rehearse(asks, history).difference is None
    assert rehearse(asks, history).waits_for == ("/redecide:1/decide",)
    assert isinstance(rehearse(asks_nothing, history).difference, HistoryMismatch)


@workflow()
async def swallows(run: Run) -> str:
    way = await run.do(decide("which way"))
    try:
        return await run.do(tried(way))
    except StepFailed as error:
        return error.record.class_name


@played
async def test_an_effect_that_failed_for_good_says_so_again_and_is_not_tried_again(db):
    said.extend(["left", "left"])
    target.plan("left", "refuse")
    async with working(db, swallows) as app:
        handle = await app.start(swallows, id="r")
        first = await handle.result()
        await app.redecide("r", by="ann", reason="look again")
        await reaches(app, "r", RunState.SUCCEEDED)
        assert await handle.result() == first
        assert len((await operation(app, "r", "tried")).attempts) == 1


# -- people -----------------------------------------------------------------------------------------------------------


@played
async def test_an_override_takes_two_persons_where_overrides_do(db):
    said.extend(["right", "left", "right"])
    two = Permissions({"ann": "operator", "bob": "operator"}, two_persons=["override"])
    async with working(db, begins, permissions=two) as app:
        handle = await app.start(begins, id="r")
        await reaches(app, "r", RunState.SUCCEEDED)
        with pytest.raises(SecondPersonNeeded):
            await app.redecide("r", "decide", by="ann", reason="not this", override=True)
        (proposed,) = await app.proposals()
        assert (await app.show("r")).run.state is RunState.SUCCEEDED
        await app.confirm(proposed.no, by="bob", reason="I have looked")
        assert await handle.result() == "made left"
        row = next(row for row in app.store.audits("default", "r") if row.verb == "redecide")
        assert (row.actor, row.step) == ("bob", "/decide")
        assert "lost by override" in row.after
    assert target.requests == ["right", "left"]
