"""A child that has ended stays so while a run above it goes back, and after it has: nothing new stands beside that."""

import pytest

from fencepost.core.contract import Retry
from fencepost.core.errors import RunNotFound, StepFailed, VerbRefused
from fencepost.core.states import RunState
from fencepost.effects.call import Call
from fencepost.effects.declare import effect
from fencepost.runtime.bulk import Selection
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from tests.runtime.stage import Gate, keyed, played, reaches, target, undo, until, working


@effect(on_unknown="hold", retry=Retry(attempts=1, within="1m"), compensate=undo, forward=keyed)
async def tried(call: Call, name: str) -> str:
    return await target.take(call, name)


@workflow()
async def waits_and_sends(run: Run) -> str:
    await run.wait("go", str)
    return await run.do(keyed("in"))


@workflow()
async def sends(run: Run) -> str:
    return await run.do(tried("in"))


@workflow()
async def between(run: Run, child: str) -> str:
    return await run.child(waits_and_sends if child == "ended" else sends, id="r/child")


@workflow(on_failure="compensate")
async def above(run: Run, child: str) -> str:
    await run.do(keyed("own"))
    return await run.child(between, child, id="r/between")


@workflow()
async def goes_on_without(run: Run, child: str) -> str:
    try:
        return await run.child(between, child, id="r/between")
    except StepFailed:
        return "without"


CODE = (waits_and_sends, sends, between, above, goes_on_without)
VERBS = {"resume": {}, "forward": {"step": "tried"}, "reopen": {}}


async def left(app, verb: str, parent) -> None:
    """Start the parent, and have the child end in a way from which this verb would let it go on."""
    if verb != "reopen":
        target.plan("in", "refuse")
    await app.start(parent, "ended" if verb == "reopen" else "failed", id="r")
    if verb == "reopen":

        async def waits() -> bool:
            try:
                return (await app.show("r/child")).run.state is RunState.WAITING
            except RunNotFound:
                return False

        await until(waits, "the child to wait")
        await app.terminate("r/child", by="ann", reason="not now")


@pytest.mark.parametrize("when", ["while it goes back", "after it has"])
@pytest.mark.parametrize("verb", VERBS)
@played
async def test_a_child_does_not_go_on_below_a_run_that_goes_back(db, verb, when):
    gate = Gate()
    if when.startswith("while"):
        target.plan("undo own", gate)
    async with working(db, *CODE) as app:
        await left(app, verb, above)
        if when.startswith("while"):
            await gate.reached.wait()
        else:
            await reaches(app, "r", RunState.COMPENSATED)
        before = (await app.show("r/child")).run
        with pytest.raises(VerbRefused, match="whose child it is, goes back"):
            await getattr(app, verb)("r/child", by="ann", reason="after all", **VERBS[verb])
        if verb != "forward":
            (tried,) = await app.bulk(
                verb, Selection(shown={"r/child": before.version}), dry_run=True, by="ann", reason="so"
            )
            assert "goes back" in tried.refused
        assert (await app.show("r/child")).run == before
        assert [row.outcome for row in await app.audit(run="r/child", verb=verb)] == ["refused"]
        gate.opened.set()
        await reaches(app, "r", RunState.COMPENSATED)
        assert target.requests == ["own", "undo own"]
        assert not (await app.check()).found


@pytest.mark.parametrize("verb", VERBS)
@played
async def test_below_one_that_does_not_go_back_it_does(db, verb):
    async with working(db, *CODE) as app:
        await left(app, verb, goes_on_without)
        await reaches(app, "r", RunState.SUCCEEDED)
        await getattr(app, verb)("r/child", by="ann", reason="after all", **VERBS[verb])
        if verb == "reopen":
            await app.signal("r/child", "go", "now")
        await reaches(app, "r/child", RunState.SUCCEEDED)
        assert target.requests == ["in"]
