"""A cancel's layers: each with its time, each evidence, none of them proof; counted at the target (laws 2 and 9)."""

import asyncio
import threading
from contextlib import suppress

import pytest

from fencepost.console.cancelled import layers as screen_of
from fencepost.console.printable import instant
from fencepost.console.story import story
from fencepost.core.cancellation import Body
from fencepost.core.errors import CancelAccepted, RunCancelled, VerbRefused
from fencepost.core.states import OperationState, RunState
from fencepost.effects import sending
from fencepost.effects.call import Call, SyncCall
from fencepost.effects.declare import effect, read
from fencepost.runtime import applicable, verbs
from fencepost.runtime.app import App
from fencepost.runtime.performing import Hands
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from tests.runtime.stage import (
    QUICK,
    Gate,
    expire,
    keyed,
    played,
    reaches,
    target,
    undo,
    until,
    verb,
    working,
)

GRACE = 0.1

asked_to_cancel: list[tuple[str, str | None]] = []
answers: dict[str, object] = {}


@pytest.fixture(autouse=True)
def hooks():
    asked_to_cancel.clear()
    answers.clear()


async def stop_it(call: Call, name: str, reference: str | None) -> object:
    """What a provider offers: its answer is whatever the test says."""
    asked_to_cancel.append((name, reference))
    answer = answers.get(name, {"status": "cancelled"})
    if isinstance(answer, Gate):
        await answer.wait()
        return "late"
    if isinstance(answer, Exception):
        raise answer
    return answer


async def look(call: Call, name: str) -> object:
    """The look-up of `job`, which the test may hold."""
    if isinstance(gate := answers.get("look-up"), Gate):
        await gate.wait()
    return target.look(name)


@effect(
    reconcile=look, attempt_timeout="400ms", settle="10ms", retry=QUICK, compensate=undo, cancel=stop_it, reference=str
)
async def job(call: Call, name: str) -> str:
    """An effect that can be looked up, and that its target can be asked to stop."""
    return await target.take(call, name)


@effect(on_unknown="hold", retry=QUICK, compensate=undo, cancel=stop_it)
async def shot(call: Call, name: str) -> str:
    """One that a person settles."""
    return await target.take(call, name)


@workflow()
async def flow(run: Run) -> str:
    first = await run.do(job("a"), item="a")
    await run.do(keyed("b"))
    return first


@workflow()
async def shots(run: Run) -> str:
    return await run.do(shot("a"))


async def layers(app: App, run_id: str = "r"):
    found = (await app.show(run_id)).cancellation
    assert found is not None
    return found


async def cancelled(app: App, run_id: str = "r") -> None:
    await app.cancel(run_id, by="ann", reason="stop")


# -- where the cancel finds the effect ----------------------------------------------------------------------------


@played
async def test_before_anything_was_reserved_nothing_is_told_and_no_target_asked(db):
    async with App(db, workflows=[flow]) as app:
        handle = await app.start(flow, id="r")
        await cancelled(app)
        before = await layers(app)
        assert (before.who, before.why, before.accepted, before.operations) == ("ann", "stop", (), ())
        async with app.worker():
            with pytest.raises(RunCancelled):
                await handle.result()
        found = await layers(app)
        lease = app.host.lease.id
    assert [(one.lease, one.generation) for one in found.accepted] == [(lease, 1)]
    assert found.accepted[0].at >= found.asked_at
    assert (target.requests, asked_to_cancel, found.stands) == ([], [], ())


@played
async def test_in_flight_the_body_is_flagged_the_target_asked_and_the_reply_decides(db):
    gate = Gate()
    target.plan("a", gate)
    async with working(db, flow) as app:
        handle = await app.start(flow, id="r")
        await gate.reached.wait()
        await cancelled(app)
        await until(lambda: asked_to_cancel, "the target to be asked")
        during = await layers(app)
        assert (await handle.state()) is RunState.CANCELLING
        assert [one.how for one in during.operations[0].told] == ["flagged"]
        assert (during.operations[0].body, during.operations[0].state) == (Body.RUNNING, OperationState.DISPATCHED)
        assert [one.position for one in during.unsettled] == ["job[a]"]
        gate.opened.set()
        with pytest.raises(RunCancelled):
            await handle.result()
        found = await layers(app)
        assert "compensate" in applicable.verbs_for(await app.show("r"))
    (one,) = found.operations
    assert (one.state, one.body, one.reference) == (OperationState.SUCCEEDED, Body.ENDED, "made a")
    (asked,) = one.provider
    assert '"answer":{"status":"cancelled"}' in asked.answer
    in_order = [one.dispatched_at, found.asked_at, found.accepted[0].at, one.told[0].at, one.body_ended_at]
    assert in_order == sorted(in_order)
    assert found.accepted[0].at <= asked.sent_at <= asked.answered_at
    assert one.looked_up_at is None, "the reply told what became of it"
    assert [(one.position, one.reference) for one in found.stands] == [("job[a]", "made a")]
    assert (target.requests, target.objects, asked_to_cancel) == (["a"], ["a"], [("a", None)])


@pytest.mark.parametrize(("lost", "objects"), [("lose", ["a"]), ("drop", [])])
@played
async def test_a_lost_reply_is_read_back_whatever_the_target_says_of_the_cancel(db, lost, objects):
    target.plan("a", lost)
    gate, look_up = answers["a"], answers["look-up"] = Gate(), Gate()  # the hook hangs, and holds up nothing
    async with working(db, flow) as app:
        handle = await app.start(flow, id="r")
        await look_up.reached.wait()
        await cancelled(app)
        await gate.reached.wait()
        look_up.opened.set()
        with pytest.raises(RunCancelled):
            await handle.result(within="5s")
        assert (await handle.state()) is RunState.CANCELLED
        gate.opened.set()

        async def answered():
            (one,) = (await layers(app)).operations
            return one.provider and one.provider[0].answered_at

        await until(answered, "the late answer of the hook")
        (one,) = (await layers(app)).operations
    assert one.state is (OperationState.SUCCEEDED if objects else OperationState.CANCELLED)
    assert one.looked_up == ("found" if objects else "absent")
    assert (target.requests, target.objects, len(asked_to_cancel)) == (["a"], objects, 1)


@workflow()
async def two_shots(run: Run) -> list[str]:
    return await run.gather(run.do(keyed("made")), run.do(shot("lost")))


@played
async def test_a_cancelled_run_shows_what_stands_and_what_is_not_known_each_with_its_times(db):
    target.plan("lost", "lose")
    async with working(db, two_shots) as app:
        await app.start(two_shots, id="r")
        await reaches(app, "r", RunState.HELD)
        await cancelled(app)
        await until(lambda: asked_to_cancel, "the target to be asked")
        await reaches(app, "r", RunState.HELD)

        async def answered():
            return all(one.answered_at for each in (await layers(app)).operations for one in each.provider)

        await until(answered, "the answer to be written down")
        history, found = await app.show("r"), await layers(app)
        screen = "\n".join(screen_of(story(history, app.store.leases(), [])["cancellation"]))
        assert history.run.state is RunState.HELD
    made, lost = found.operations
    assert ([one.position for one in found.stands], [one.position for one in found.unsettled]) == (["keyed"], ["shot"])
    assert "  requested   " + instant(found.asked_at) + "  by ann: stop" in screen
    assert "  accepted    " + instant(found.accepted[0].at) + "  by pid " in screen
    assert f"dispatched  {instant(made.dispatched_at)[11:23]}" in screen
    assert f"dispatched  {instant(lost.dispatched_at)[11:23]}" in screen
    assert f"target      {instant(lost.provider[0].answered_at)[11:23]}  asked to cancel, and answered" in screen
    assert "  not known   shot\n  stands      keyed (no reference)" in screen
    assert target.objects == ["made", "lost"]


@played
async def test_the_target_says_cancelled_and_the_object_is_there(db):
    target.plan("a", "lose")
    answers["a"] = {"status": "cancelled"}
    async with working(db, shots) as app:
        handle = await app.start(shots, id="r")
        await reaches(app, "r", RunState.HELD)
        await cancelled(app)
        await until(lambda: asked_to_cancel, "the target to be asked")
        await reaches(app, "r", RunState.HELD)
        (one,) = (await layers(app)).operations
        assert one.state is OperationState.UNKNOWN, "what a target says of a cancel proves nothing"
        await verb(app, verbs.settle, "r", step="shot", happened=True, result='"made a"', reference="a-1")
        with pytest.raises(RunCancelled):
            await handle.result()
        found = await layers(app)
    assert [(one.position, one.reference) for one in found.stands] == [("shot", "a-1")]
    assert (target.objects, asked_to_cancel) == (["a"], [("a", None)])


@played
async def test_a_hook_that_fails_is_shown_and_called_once(db):
    gate = Gate()
    target.plan("a", gate)
    answers["a"] = ValueError("no such job")
    async with working(db, flow) as app:
        handle = await app.start(flow, id="r")
        await gate.reached.wait()
        for _ in range(2):
            await cancelled(app)
        await until(lambda: asked_to_cancel, "the target to be asked")
        gate.opened.set()
        with pytest.raises(RunCancelled):
            await handle.result()
        (one,) = (await layers(app)).operations
    assert len(one.provider) == len(asked_to_cancel) == 1
    assert '"failed":{"class":"ValueError","message":"no such job"}' in one.provider[0].answer


@played
async def test_a_cancel_asked_twice_keeps_the_first_request_and_one_of_a_finished_run_is_refused(db):
    gate = Gate()
    target.plan("a", gate)
    async with working(db, flow) as app:
        handle = await app.start(flow, id="r")
        await gate.reached.wait()
        await app.cancel("r", by="ann", reason="first")
        await app.cancel("r", by="bob", reason="second")
        gate.opened.set()
        with pytest.raises(RunCancelled):
            await handle.result()
        with pytest.raises(VerbRefused):
            await app.cancel("r", by="cid", reason="third")
        found = await layers(app)
        audits = [(row.actor, row.outcome) for row in app.store.audits("default", "r")]
    assert (found.who, found.why, len(found.accepted)) == ("ann", "first", 1)
    assert audits == [("ann", "done"), ("bob", "done"), ("cid", "refused")]


# -- bodies that do not listen ------------------------------------------------------------------------------------


@played
async def test_an_async_body_that_swallows_its_cancel_is_left_and_shown_and_sends_nothing_more(db):
    began, freed, refused = asyncio.Event(), asyncio.Event(), []

    @effect(on_unknown="hold", retry=QUICK, name="deaf")
    async def deaf(call: Call) -> str:
        began.set()
        while not freed.is_set():
            with suppress(asyncio.CancelledError):
                await freed.wait()
        try:
            with call.sending():
                target.requests.append("after the cancel")
        except CancelAccepted as error:
            refused.append(error)
            raise
        return "never"

    @workflow(name="listening")
    async def listening(run: Run) -> str:
        return await run.do(deaf())

    async with working(db, listening) as app:
        app.host.overdue.grace = GRACE
        await app.start(listening, id="r")
        await began.wait()
        await cancelled(app)
        await reaches(app, "r", RunState.HELD)
        (one,) = (await layers(app)).operations
        assert one.body is Body.RUNNING
        assert [seen.how for seen in one.told] == ["flagged", "task cancelled", "waited for no longer"]
        freed.set()

        async def over():
            (one,) = (await layers(app)).operations
            return one.body is Body.ENDED and one.state is OperationState.CANCELLED

        await until(over, "the body's end, and its proof that nothing was sent")
        await reaches(app, "r", RunState.CANCELLED)
    assert (target.requests, len(refused)) == ([], 1)


@played
async def test_a_thread_that_never_looks_is_left_and_shown_and_sends_nothing_more(db):
    began, freed, refused = threading.Event(), threading.Event(), []

    @effect(on_unknown="hold", retry=QUICK, name="blind")
    def blind(call: SyncCall) -> str:
        began.set()
        freed.wait(20)
        assert call.cancelled
        try:
            with call.sending():
                target.requests.append("after the cancel")
        except CancelAccepted as error:
            refused.append(error)
            raise
        return "never"

    @workflow(name="looking")
    async def looking(run: Run) -> str:
        return await run.do(blind())

    async with working(db, looking) as app:
        app.host.overdue.grace = GRACE
        await app.start(looking, id="r")
        await asyncio.to_thread(began.wait)
        await cancelled(app)
        await reaches(app, "r", RunState.HELD)
        (one,) = (await layers(app)).operations
        assert (one.body, [seen.how for seen in one.told]) == (Body.RUNNING, ["flagged", "waited for no longer"])
        freed.set()

        async def over():
            (one,) = (await layers(app)).operations
            return one.body is Body.ENDED

        await until(over, "the thread's end")
    assert (target.requests, len(refused)) == ([], 1)


@played
async def test_a_read_that_runs_is_cancelled_at_once_and_no_budget_is_charged(db):
    began = asyncio.Event()

    @read(name="slow")
    async def slow(call: Call) -> str:
        began.set()
        await asyncio.Event().wait()
        return "never"

    @workflow(name="reading")
    async def reading(run: Run) -> str:
        return await run.do(slow())

    async with working(db, reading) as app:
        handle = await app.start(reading, id="r")
        await began.wait()
        await cancelled(app)
        with pytest.raises(RunCancelled):
            await handle.result(within="3s")
        (one,) = (await layers(app)).steps
    assert (one.position, one.body) == ("/slow", Body.ENDED)
    assert [seen.how for seen in one.told] == ["flagged", "task cancelled"]


# -- hooks and bodies that end nothing ----------------------------------------------------------------------------


@played
async def test_an_effect_that_is_permitted_and_has_not_begun_does_not_begin(db, monkeypatch):
    as_it_was = Hands._sending

    def cancelled_just_before(hands: Hands, *args: object) -> object:
        run = app.store.find("default", "r")
        verbs.cancel(app, run, by="ann", reason="stop")
        app._workers[0]._lives[run.no].notice(app.store.load(run.no))
        return as_it_was(hands, *args)

    monkeypatch.setattr(Hands, "_sending", cancelled_just_before)
    async with working(db, shots) as app:
        handle = await app.start(shots, id="r")
        with pytest.raises(RunCancelled):
            await handle.result()
        (one,) = (await layers(app)).operations
    assert (one.state, one.body, target.requests) == (OperationState.CANCELLED, Body.NOT_BEGUN, [])


@pytest.mark.parametrize("swallows", [False, True])
def test_a_hook_that_hangs_is_bounded_and_the_workers_end_waits_for_none_that_ignores_it(db, monkeypatch, swallows):
    monkeypatch.setattr(sending, "CANCEL_WITHIN", 50_000)
    freed, ends = asyncio.Event(), []

    async def hang(call: Call, reference: str | None) -> str:
        while not freed.is_set():
            try:
                await freed.wait()
            except asyncio.CancelledError:
                ends.append("cancelled")
                if not swallows:
                    raise
        return "late"

    @effect(on_unknown="hold", retry=QUICK, name="hooked", cancel=hang)
    async def hooked(call: Call) -> str:
        return await target.take(call, "a")

    @workflow(name="hooking")
    async def hooking(run: Run) -> str:
        return await run.do(hooked())

    async def play():
        gate = Gate()
        target.plan("a", gate)
        async with working(db, hooking) as app:
            app.host.overdue.grace = GRACE
            handle = await app.start(hooking, id="r")
            await gate.reached.wait()
            await cancelled(app)
            await until(lambda: app._workers[0].host.errands.under_way, "the hook to be called")
            gate.opened.set()
            with pytest.raises(RunCancelled):
                await handle.result(within="5s")
            worker = app._workers[0]
        assert len(worker.abandoned) == swallows
        async with App(db, workflows=[hooking]) as reader:
            (one,) = (await layers(reader)).operations
        assert ("TimeoutError" in (one.provider[0].answer or "")) is not swallows
        freed.set()
        await until(lambda: not worker.abandoned, "the hook's end")

    asyncio.run(play())
    assert (ends, target.requests) == (["cancelled"], ["a"])


@played
async def test_the_workers_end_does_not_wait_for_a_body_that_swallows_its_cancel(db):
    began, freed = asyncio.Event(), asyncio.Event()

    @effect(on_unknown="hold", retry=QUICK, name="deaf")
    async def deaf(call: Call) -> str:
        began.set()
        while not freed.is_set():
            with suppress(asyncio.CancelledError):
                await freed.wait()
        return "late"

    @workflow(name="listening")
    async def listening(run: Run) -> str:
        return await run.do(deaf())

    async with App(db, workflows=[listening]) as app:
        async with app.worker() as worker:
            app.host.overdue.grace = GRACE
            await app.start(listening, id="r")
            await began.wait()
            await cancelled(app)
            await until(lambda: worker._lives[1].changed, "the worker to hear of it")
        (one,) = (await layers(app)).operations
        assert (one.body, one.state, len(worker.abandoned)) == (Body.RUNNING, OperationState.UNKNOWN, 1)
        freed.set()

        async def over():
            (one,) = (await layers(app)).operations
            return one.body is Body.ENDED

        await until(over, "the body's end")


@played
async def test_a_late_reply_of_a_stale_owner_settles_what_its_heir_has_asked_the_target_to_cancel(db):
    gate = Gate()
    target.plan("a", gate)
    async with working(db, shots) as app:
        await app.start(shots, id="r")
        await gate.reached.wait()
        expire(app)
        async with working(db, shots) as heir:
            await reaches(heir, "r", RunState.HELD)
            await cancelled(heir)
            await until(lambda: asked_to_cancel, "the target to be asked")

            async def held_again():
                found = await layers(heir)
                return found.accepted and (await heir.show("r")).run.state is RunState.HELD

            await until(held_again, "the run to be held with its cancel")
            (one,) = (await layers(heir)).operations
            assert (one.body, one.told) == (Body.LOST, ())
            gate.opened.set()
            await reaches(heir, "r", RunState.CANCELLED)
            found = await layers(heir)
    assert (found.operations[0].body, [one.position for one in found.stands]) == (Body.ENDED, ["shot"])
    assert (target.objects, asked_to_cancel) == (["a"], [("a", None)])
