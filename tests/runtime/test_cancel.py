"""Cancel and terminate at every point: nothing begins afterwards, what was sent is settled first (C13, C24)."""

import asyncio
import gc
from collections.abc import Iterator
from contextlib import suppress

import pytest

from fencepost.core.errors import Cancelled, RunCancelled, RunHeld, RunTerminated, StepFailed, VerbRefused
from fencepost.core.states import OperationState, RunState
from fencepost.effects.call import Call, SyncCall
from fencepost.effects.declare import effect
from fencepost.runtime import applicable, verbs
from fencepost.runtime.app import App
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from tests.runtime.stage import (
    QUICK,
    Gate,
    expire,
    hold,
    keyed,
    once,
    operation,
    played,
    reaches,
    target,
    until,
    verb,
    working,
)  # fmt: skip


@workflow()
async def five(run: Run) -> int:
    for number in range(5):
        await run.do(once(str(number)), item=str(number))
    return 5


@workflow()
async def undoing(run: Run) -> int:
    try:
        await run.do(once("a"))
        await run.wait("never", str)
    except Cancelled:
        await run.compensate(reason="cancelled")
        raise
    return 1


@workflow()
async def stubborn(run: Run) -> int:
    done = 0
    while True:
        with suppress(BaseException):  # what a user may write
            await run.do(once(str(done)), item=str(done))
        done += 1


@workflow()
async def sleeping(run: Run) -> int:
    await run.do(once("a"))
    await run.sleep("1h")
    await run.do(keyed("b"))
    return 1


@pytest.fixture
def reported_here() -> Iterator[None]:
    """What a test drops is reported while its own filter holds, and not in the next test."""
    yield
    gc.collect()


@played
async def test_a_run_cancelled_before_it_began_does_nothing(db):
    async with App(db, workflows=[five]) as app:
        handle = await app.start(five, id="r")
        await app.cancel("r", by="ann", reason="stop")
        async with app.worker():
            with pytest.raises(RunCancelled):
                await handle.result()
    assert target.requests == []


@played
async def test_a_cancel_lets_the_effect_in_flight_end_and_begins_no_other(db):
    gate = Gate()
    target.plan("0", gate)
    async with working(db, five) as app:
        handle = await app.start(five, id="r")
        await gate.reached.wait()
        await app.cancel("r", by="ann", reason="stop")
        gate.opened.set()
        with pytest.raises(RunCancelled):
            await handle.result()
        assert (await operation(app, "r", "once", "0")).state is OperationState.SUCCEEDED
    assert target.objects == ["0"]


@played
async def test_a_reply_that_arrives_right_after_the_cancel_is_not_lost(db):
    @effect(on_unknown="hold", retry=QUICK, name="overtaken")
    def overtaken(call: SyncCall) -> str:
        run = app.store.find("default", "r")
        assert run is not None
        verbs.cancel(app, run, by="ann", reason="stop")  # accepted, and this worker has not heard of it yet
        target.requests.append("overtaken")
        return "done"

    @workflow(name="overtaking")
    async def overtaking(run: Run) -> str:
        await run.do(overtaken())
        return await run.do(once("after"))

    async with working(db, overtaking) as app:
        handle = await app.start(overtaking, id="r")
        with pytest.raises(RunCancelled):
            await handle.result()
        assert (await operation(app, "r", "overtaken")).state is OperationState.SUCCEEDED
    assert target.requests == ["overtaken"]


@played
async def test_a_cancelled_workflow_that_compensates_ends_compensated(db):
    async with working(db, undoing) as app:
        handle = await app.start(undoing, id="r")
        await reaches(app, "r", RunState.WAITING)
        await app.cancel("r", by="ann", reason="stop")
        with pytest.raises(RunCancelled, match="compensated"):
            await handle.result()
        assert await handle.state() is RunState.COMPENSATED
    assert target.requests == ["a", "undo a"]


@played
async def test_a_cancel_of_a_sleeping_run_ends_it_at_once(db):
    async with working(db, sleeping) as app:
        handle = await app.start(sleeping, id="r")
        await reaches(app, "r", RunState.WAITING)
        await app.cancel("r", by="ann", reason="stop")
        with pytest.raises(RunCancelled):
            await handle.result()
    assert target.requests == ["a"]


@played
async def test_a_cancel_during_the_pause_before_the_next_attempt_takes_the_effect_back(db):
    from fencepost.core.contract import Retry

    @effect(on_unknown="hold", retry=Retry(attempts=5, first_delay="5m"), name="paused")
    async def paused(call: Call) -> str:
        return await target.take(call, "paused")

    @workflow(name="pausing")
    async def pausing(run: Run) -> str:
        return await run.do(paused())

    target.plan("paused", "busy")
    async with working(db, pausing) as app:
        handle = await app.start(pausing, id="r")
        await reaches(app, "r", RunState.WAITING)
        await app.cancel("r", by="ann", reason="stop")
        with pytest.raises(RunCancelled):
            await handle.result()
        assert (await operation(app, "r", "paused")).state is OperationState.CANCELLED
    assert target.requests == []


@played
async def test_a_cancel_that_is_asked_for_twice_is_one_cancel(db):
    gate = Gate()
    target.plan("0", gate)
    async with working(db, five) as app:
        handle = await app.start(five, id="r")
        await gate.reached.wait()
        for _ in range(2):
            await app.cancel("r", by="ann", reason="stop")
        gate.opened.set()
        with pytest.raises(RunCancelled):
            await handle.result()
        with pytest.raises(VerbRefused):
            await app.cancel("r", by="ann", reason="stop")
        outcomes = [row.outcome for row in app.store.audits("default", "r")]
        assert outcomes == ["done", "done", "refused"]


@played
async def test_a_run_is_not_cancelled_while_one_of_its_effects_is_unknown(db):
    target.plan("0", "lose")
    async with working(db, five) as app:
        handle = await app.start(five, id="r")
        await reaches(app, "r", RunState.HELD)
        await app.cancel("r", by="ann", reason="stop")
        await reaches(app, "r", RunState.HELD)
        await verb(app, verbs.settle, "r", step="once", item="0", happened=True, result='"x"')
        with pytest.raises(RunCancelled):
            await handle.result()
    assert target.requests == ["0"]


@played
async def test_late_evidence_lets_a_cancelled_run_end_as_cancelled_and_not_go_on(db):
    gate = Gate()
    target.plan("0", gate)
    async with working(db, five) as app:
        await app.start(five, id="r")
        await gate.reached.wait()
        expire(app)
        async with working(db, five) as heir:
            await reaches(heir, "r", RunState.HELD)
            await heir.cancel("r", by="ann", reason="stop")

            async def held_again():
                run = (await heir.show("r")).run
                return run.state is RunState.HELD and run.cancel is not None

            await until(held_again, "the run to be held with its cancel")
            gate.opened.set()
            await reaches(heir, "r", RunState.CANCELLED)
    assert target.requests == ["0"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # Python says that it was dropped
@pytest.mark.usefixtures("reported_here")
@played
async def test_a_workflow_that_ignores_its_cancel_is_held_and_begins_nothing(db):
    gate = Gate()
    target.plan("0", gate)
    async with working(db, stubborn) as app:
        handle = await app.start(stubborn, id="r")
        await gate.reached.wait()
        await app.cancel("r", by="ann", reason="stop")
        gate.opened.set()
        with pytest.raises(RunHeld, match="CancelIgnored"):
            await handle.result()
    assert target.requests == ["0"]


@played
async def test_a_cancel_by_another_process_is_heard_during_a_long_effect(db):
    gate = Gate()
    target.plan("0", gate)
    async with working(db, five) as app, App(db, workflows=[five]) as console:
        handle = await app.start(five, id="r")
        await gate.reached.wait()
        await console.cancel("r", by="ann", reason="stop")
        await until(lambda: app._workers[0]._lives[1].changed, "the worker to hear of it")
        gate.opened.set()
        with pytest.raises(RunCancelled):
            await handle.result()
    assert target.objects == ["0"]


# -- terminate --------------------------------------------------------------------------------------------------------


@played
async def test_a_run_terminated_in_flight_stays_so_and_keeps_what_came_later_as_evidence(db):
    gate = Gate()
    target.plan("0", gate)
    async with working(db, five) as app:
        handle = await app.start(five, id="r")
        await gate.reached.wait()
        await verb(app, verbs.terminate, "r", reason="it is wrong")
        assert await handle.state() is RunState.TERMINATED
        gate.opened.set()
        with pytest.raises(RunTerminated):
            await handle.result()

        async def known():
            return (await operation(app, "r", "once", "0")).state is OperationState.SUCCEEDED

        await until(known, "the late result")
        assert await handle.state() is RunState.TERMINATED
        with pytest.raises(VerbRefused):
            await verb(app, verbs.resume, "r")
        audits = app.store.audits("default", "r")
        assert [(row.verb, row.outcome) for row in audits] == [("terminate", "done"), ("resume", "refused")]
        assert audits[0].before != audits[0].after
        assert "compensate" in applicable.verbs_for(await app.show("r"))
        await verb(app, verbs.compensate, "r")
        await reaches(app, "r", RunState.COMPENSATED)
    assert target.requests == ["0", "undo 0"]


@pytest.mark.parametrize("at", ["ready", "waiting", "held", "failed"])
def test_a_person_can_end_a_run_wherever_it_stands(db, at):
    @workflow(name="going")
    async def going(run: Run) -> None:
        await run.do(once("a"))
        if at == "failed":
            raise ValueError("a fault")
        await run.wait("never", str)

    async def play() -> None:
        if at == "held":
            target.plan("a", "lose")
        async with App(db, workflows=[going]) as app:
            handle = await app.start(going, id="r")
            if at == "ready":
                await verb(app, verbs.terminate, "r")
            async with app.worker():
                if at != "ready":
                    await reaches(app, "r", RunState(at))
                    await verb(app, verbs.terminate, "r")
                with pytest.raises(RunTerminated):
                    await handle.result()

    asyncio.run(play())
    assert target.requests == ([] if at == "ready" else ["a"])


@played
async def test_the_cancel_of_one_branch_reaches_every_branch(db):
    heard = []

    async def branch(run: Run, name: str) -> None:
        try:
            await run.wait(name, str)
        except Cancelled:
            heard.append(name)
            raise

    @workflow(name="branching")
    async def branching(run: Run) -> None:
        await run.gather(branch(run, "x"), branch(run, "y"))

    async with working(db, branching) as app:
        handle = await app.start(branching, id="r")
        await reaches(app, "r", RunState.WAITING)
        await app.cancel("r", by="ann", reason="stop")
        with pytest.raises(RunCancelled):
            await handle.result()
    assert heard == ["x", "y"]


@played
async def test_a_step_that_fails_after_the_cancel_does_not_make_the_run_failed(db):
    gate = Gate()

    @effect(on_unknown="hold", retry=QUICK, name="failing")
    async def failing(call: Call) -> str:
        from fencepost.core.errors import NotSent

        await gate.wait()
        raise NotSent("no")

    @workflow(name="trying")
    async def trying(run: Run) -> str:
        try:
            return await run.do(failing())
        except StepFailed:
            return await run.do(once("instead"))

    async with working(db, trying) as app:
        handle = await app.start(trying, id="r")
        await gate.reached.wait()
        await app.cancel("r", by="ann", reason="stop")
        gate.opened.set()
        with pytest.raises(RunCancelled):
            await handle.result()
        assert not await hold(app, "r")
    assert target.requests == []
