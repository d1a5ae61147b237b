"""C16: a signal sent before the run, before the wait, during an earlier step, twice, or after the wait is over."""

import pytest

from fencepost.core.errors import RunNotFound, VerbRefused
from fencepost.core.states import RunState, SignalState
from fencepost.runtime.app import App
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from tests.runtime.stage import Gate, keyed, once, played, reaches, target, until, working


@workflow()
async def waits_between(run: Run, name: str) -> str:
    await run.do(keyed(name))
    word = await run.wait("word", str, within="1h")
    await run.do(once("after"))
    return f"{word}, {await run.wait('end', str, within='1h')}"


async def signals(app):
    return {one.id: (one.state, one.reason) for one in (await app.show("r")).signals}


async def _is_applied(app, signal):
    return (await signals(app))[signal][0] is SignalState.APPLIED


@played
async def test_a_before_the_run_exists_it_is_refused_and_the_sender_is_told(db):
    async with working(db, waits_between) as app:
        with pytest.raises(RunNotFound, match="no run has the id"):
            await app.signal("r", "word", "early", id="s1")


@played
async def test_b_before_the_wait_is_reached_it_is_kept_and_satisfies_the_wait(db):
    app = App(db, workflows=[waits_between])
    async with app:
        await app.start(waits_between, "a", id="r")
        kept = await app.signal("r", "word", "early", id="s1")
        assert kept.state is SignalState.KEPT
    async with working(db, waits_between) as app:
        await app.signal("r", "end", "done", id="s2")
        assert await (await app.handle("r")).result(within="20s") == "early, done"
        assert {state for state, _ in (await signals(app)).values()} == {SignalState.APPLIED}


@played
async def test_c_while_an_earlier_step_runs_it_is_kept_and_satisfies_the_wait(db):
    gate = Gate()
    target.plan("a", gate)
    async with working(db, waits_between) as app:
        handle = await app.start(waits_between, "a", id="r")
        await gate.reached.wait()
        await app.signal("r", "word", "meanwhile", id="s1")
        gate.opened.set()
        await app.signal("r", "end", "done", id="s2")
        assert await handle.result(within="20s") == "meanwhile, done"
        assert target.objects == ["a", "after"]


@played
async def test_d_sent_twice_it_is_taken_once(db):
    async with working(db, waits_between) as app:
        handle = await app.start(waits_between, "a", id="r")
        await app.signal("r", "word", "same", id="s1")
        await app.signal("r", "word", "same", id="s1")
        await app.signal("r", "end", "done", id="s2")
        await app.signal("r", "end", "done", id="s2")
        assert await handle.result(within="20s") == "same, done"
        assert len(await signals(app)) == 2
        assert target.objects == ["a", "after"]
        with pytest.raises(VerbRefused, match="another name or value"):
            await app.signal("r", "word", "other", id="s1")


@played
async def test_e_after_the_wait_is_over_it_is_refused_as_not_waiting(db):
    async with working(db, waits_between) as app:
        handle = await app.start(waits_between, "a", id="r")
        await app.signal("r", "word", "first", id="s1")
        await until(lambda: _is_applied(app, "s1"), "the first word to be taken by its wait")
        await reaches(app, "r", RunState.WAITING)
        with pytest.raises(VerbRefused, match="not waiting"):
            await app.signal("r", "word", "second", id="s2")
        await app.signal("r", "end", "done", id="s3")
        assert await handle.result(within="20s") == "first, done"
        state, reason = (await signals(app))["s2"]
        assert (state, reason) == (SignalState.REFUSED, "not waiting")
        with pytest.raises(VerbRefused, match="ended"):
            await app.signal("r", "word", "third", id="s4")
