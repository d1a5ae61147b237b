"""A decision made anew: the model is asked again beside its old answer, and nothing that was sent is sent twice."""

import json
from collections import deque

import pytest

from fencepost.core.contract import Retry
from fencepost.core.errors import Misuse, VerbRefused
from fencepost.core.queue import Queue
from fencepost.core.states import OperationState, RunState
from fencepost.effects.call import Call
from fencepost.effects.declare import effect, read
from fencepost.effects.model import model
from fencepost.runtime.app import App
from fencepost.runtime.applicable import verbs_for
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from tests.runtime.stage import hold, keyed, once, operation, played, reaches, target, undo, working

said: deque[str] = deque()
"""What the model answers, one after the other."""
asked: list[str] = []
"""What it was asked."""
looked: list[str] = []


@pytest.fixture(autouse=True)
def _forgetful() -> None:
    said.clear()
    asked.clear()
    looked.clear()


@model(output=str)
async def decide(call: Call, about: str) -> str:
    asked.append(about)
    return said.popleft()


@read()
async def look(call: Call, about: str) -> str:
    looked.append(about)
    return f"{about} {len(looked)}"


@effect(on_unknown="hold", retry=Retry(attempts=1, within="1m"), compensate=undo)
async def tried(call: Call, name: str) -> str:
    return await target.take(call, name)


@workflow()
async def routes(run: Run) -> str:
    """What is decided leads to one of two effects."""
    first = await run.do(look("before"))
    await run.do(keyed("received"))
    way = await run.do(decide("which way"))
    after = await run.do(look("after"))
    if way == "none":
        return f"{first}, {after}: none"
    done = await run.do(tried("left") if way == "left" else once("right"))
    return f"{first}, {after}: {done}"


@workflow()
async def waits(run: Run) -> str:
    way = await run.do(decide("which way"))
    word = await run.wait("word", str)
    return f"{way} {word}"


@workflow()
async def twice(run: Run) -> str:
    first = await run.do(decide("first"))
    await run.do(keyed(first))
    second = await run.do(decide("second"))
    return f"{first} {second}"


@workflow()
async def abreast(run: Run) -> list[str]:
    one, other, sent = await run.gather(run.do(decide("one")), run.do(look("beside")), run.do(keyed("beside")))
    return [one, other, sent]


def rows(app: App) -> list[tuple[str, str, str, str | None]]:
    return [(row.actor, row.verb, row.outcome, row.step) for row in app.store.audits("default", "r")]


async def steps(app: App) -> dict[str, tuple[str, str | None]]:
    return {one.position: (one.state.value, one.result) for one in (await app.show("r")).steps}


@played
async def test_the_model_is_asked_again_beside_its_old_answer_and_what_came_before_is_not(db):
    said.extend(["left", "right"])
    target.plan("left", "refuse")
    async with working(db, routes) as app:
        handle = await app.start(routes, id="r")
        await reaches(app, "r", RunState.FAILED)
        before = await app.show("r")
        await app.redecide("r", by="ann", reason="left is closed", version=before.run.version)
        assert await handle.result() == "before 1, after 3: made right"
        assert asked == ["which way"] * 2
        assert looked == ["before", "after", "after"]
        found = await steps(app)
        assert (found["/decide"], found["/redecide:1/decide"]) == (("done", '"left"'), ("done", '"right"'))
        assert (found["/look#2"], found["/redecide:1/look#2"]) == (("done", '"after 2"'), ("done", '"after 3"'))
        kept = {one.position: one for one in (await app.show("r")).steps}
        assert all(kept[one.position] == one for one in before.steps), "the old history stays as it is"
        assert (await operation(app, "r", "tried")).state is OperationState.FAILED
        assert rows(app) == [("ann", "redecide", "done", "/decide")]
        row = app.store.audits("default", "r")[0]
        assert (json.loads(row.before)["run"], json.loads(row.after)["run"]) == ("failed", "ready")
        assert json.loads(row.after)["generation"] > json.loads(row.before)["generation"]
        assert json.loads(row.after)["decided at"] == "/redecide:1/decide"
        assert (await app.check()).found == []
    assert target.requests == ["received", "right"]


@played
async def test_each_later_life_tells_the_story_of_the_new_decision(db):
    said.extend(["left", "right"])
    async with working(db, waits) as app:
        await app.start(waits, id="r")
        await reaches(app, "r", RunState.WAITING)
        await app.redecide("r", by="ann", reason="left is closed")
        await reaches(app, "r", RunState.WAITING)
    async with working(db, waits) as app:
        await app.signal("r", "word", "go", id="s")
        assert await (await app.handle("r")).result() == "right go"
        found = await steps(app)
        assert [found[one][0] for one in ("/word", "/redecide:1/word")] == ["cancelled", "done"]
        assert (await app.check()).found == []
    assert len(asked) == 2


@played
async def test_it_is_refused_while_an_effect_that_came_after_it_stands_unless_a_person_overrides(db):
    said.extend(["left", "left", "right"])
    async with working(db, routes) as app:
        handle = await app.start(routes, id="r")
        assert await handle.result() == "before 1, after 2: made left"
        before = await app.show("r")
        with pytest.raises(VerbRefused, match="tried came after /decide and stands"):
            await app.redecide("r", by="ann", reason="left is closed")
        assert await app.show("r") == before
        await app.redecide("r", by="ann", reason="left is closed", override=True)
        assert await handle.result() == "before 1, after 3: made left", "it gets what is recorded"
        with pytest.raises(VerbRefused, match="tried came after /redecide:1/decide and stands"):
            await app.redecide("r", by="ann", reason="still closed")
        await app.redecide("r", by="ann", reason="still closed", override=True)
        assert await handle.result() == "before 1, after 4: made right"
        assert rows(app) == [
            ("ann", "redecide", "refused", None),
            ("ann", "redecide", "done", "/decide"),
            ("ann", "redecide", "refused", None),
            ("ann", "redecide", "done", "/redecide:1/decide"),
        ]
        assert json.loads(app.store.audits("default", "r")[1].after)["guarantee"] == "lost by override"
        versions = [one for one in (await app.show("r")).steps if one.kind == "redecide"]
        told = [json.loads(one.detail) for one in versions]
        assert [(one["why"], one["effects"]) for one in told] == [
            ("left is closed", {"tried": 5}),
            ("still closed", {"tried": 9}),
        ]
        assert (await app.check()).found == []
    assert target.requests == ["received", "left", "right"]


@played
async def test_it_is_refused_while_anything_is_unknown_and_while_something_else_is_under_way(db):
    said.append("right")
    target.plan("right", "lose")
    async with working(db, routes) as app:
        await app.start(routes, id="r")
        await reaches(app, "r", RunState.HELD)
        with pytest.raises(VerbRefused, match="once is unknown"):
            await app.redecide("r", by="ann", reason="why not", override=True)
        await app.cancel("r", by="ann", reason="no more")
        await reaches(app, "r", RunState.HELD)
        with pytest.raises(VerbRefused, match="was cancelled"):
            await app.redecide("r", by="ann", reason="why not", override=True)
        await app.settle("r", "once", happened=True, result='"made right"', by="ann", reason="I see it")
        await reaches(app, "r", RunState.CANCELLED)
        with pytest.raises(VerbRefused, match="does not apply to a run that is cancelled"):
            await app.redecide("r", by="ann", reason="why not", override=True)
        await app.compensate("r", by="ann", reason="take it back")
        await reaches(app, "r", RunState.COMPENSATED)
    assert target.requests == ["received", "right", "undo right", "undo received"]


@played
async def test_another_request_under_the_same_key_is_held_and_never_sent(db):
    said.extend(["a", "second", "b"])
    async with working(db, twice) as app:
        await app.start(twice, id="r")
        await reaches(app, "r", RunState.SUCCEEDED)
        await app.redecide("r", "/decide", by="ann", reason="not a", override=True)
        await reaches(app, "r", RunState.HELD)
        held = await hold(app, "r")
        assert (held["reason"], held["step"]) == ("RepeatedEffect", "keyed")
        assert "with another request" in held["detail"]
    assert target.requests == ["a"]


@played
async def test_which_decision_is_meant_is_not_guessed_and_those_before_it_stand(db):
    said.extend(["a", "wrong", "right"])
    async with working(db, twice) as app:
        handle = await app.start(twice, id="r")
        assert await handle.result() == "a wrong"
        for which in (None, "decide", "/nothing"):
            with pytest.raises(Misuse, match="its decisions are: /decide, /decide#2"):
                await app.redecide("r", which, by="ann", reason="not this")
        await app.redecide("r", "/decide#2", by="ann", reason="not this")
        assert await handle.result() == "a right"
        assert asked == ["first", "second", "second"]
    assert target.requests == ["a"]


@played
async def test_what_other_branches_had_begun_by_then_is_asked_for_again_and_their_effects_are_not_sent_again(db):
    said.extend(["x", "y", "z"])
    async with working(db, abreast) as app:
        handle = await app.start(abreast, id="r")
        assert (await handle.result())[0] == "x"
        for number, answer in enumerate("yz", 1):
            await app.redecide("r", by="ann", reason="not this", override=True)
            assert await handle.result() == [answer, (await handle.result())[1], "made beside"]
            assert f"/redecide:{number}/gather:1.0/decide" in await steps(app)
        assert (await app.check()).found == []
    assert target.requests == ["beside"]


@played
async def test_nobody_decides_anew_while_somebody_is_at_work(db):
    async with App(db, workflows=[waits]) as app:
        await app.start(waits, id="r")
        with pytest.raises(VerbRefused, match="does not apply to a run that is ready"):
            await app.redecide("r", by="ann", reason="why not")


@workflow(on_failure="compensate")
async def takes_back(run: Run) -> str:
    way = await run.do(decide("which way"))
    await run.do(keyed(way), item=way)
    if way != "right":
        raise ValueError(f"not {way}")
    return way


@workflow()
async def booked_before(run: Run) -> str:
    await run.do(keyed("room"))
    return await run.do(decide("which way"))


@played
async def test_what_was_compensated_stands_in_no_way_and_is_not_taken_for_done(db):
    said.extend(["left", "up", "left", "right"])
    async with working(db, takes_back) as app:
        await app.start(takes_back, id="r")
        await reaches(app, "r", RunState.COMPENSATED)
        await app.redecide("r", by="ann", reason="not left")
        await reaches(app, "r", RunState.COMPENSATED)
        assert target.requests == ["left", "undo left", "up", "undo up"], "its declared compensation is made anew too"
        await app.redecide("r", by="ann", reason="not up")
        await reaches(app, "r", RunState.HELD)
        held = await hold(app, "r")
        assert (held["reason"], held["step"]) == ("RepeatedEffect", "keyed")
        assert "was compensated" in held["detail"]
        await app.redecide("r", by="ann", reason="not left, as I said")
        assert await (await app.handle("r")).result() == "right"
        assert (await app.check()).found == []
    assert target.requests == ["left", "undo left", "up", "undo up", "right"]


@played
async def test_nobody_decides_on_what_was_compensated_since(db):
    said.append("left")
    async with working(db, booked_before) as app:
        await app.start(booked_before, id="r")
        await reaches(app, "r", RunState.SUCCEEDED)
        await app.compensate("r", by="ann", reason="no room")
        await reaches(app, "r", RunState.COMPENSATED)
        assert "redecide" not in verbs_for(await app.show("r"))
        with pytest.raises(VerbRefused, match="keyed, on which /decide was decided, was compensated since"):
            await app.redecide("r", by="ann", reason="not left")


@played
async def test_what_has_ended_is_not_decided_anew_beside_another_that_stands_for_the_same(db):
    @workflow(name="decides")
    async def decides(run: Run) -> str:
        return await run.do(decide("which way"))

    said.extend(["left", "right"])
    same = {"queue": "q", "dedup": "the same"}
    async with App(db, workflows=[decides], queues=[Queue("q")]) as app:
        async with app.worker():
            assert await (await app.start(decides, id="r", **same)).result(within="20s") == "left"
        await app.start(decides, id="beside", **same)
        assert "redecide" not in verbs_for(await app.show("r"))
        with pytest.raises(VerbRefused, match="run beside, which is ready, stands for the same in queue q"):
            await app.redecide("r", by="ann", reason="the other way")
        await app.terminate("beside", by="ann", reason="r it is")
        await app.redecide("r", by="ann", reason="the other way")
        async with app.worker():
            assert await (await app.handle("r")).result(within="20s") == "right"
