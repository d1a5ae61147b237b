"""A run that has ended moves again by a person's explicit word alone, from where it ended, and sends nothing twice.

Law 12, `protocol` C5 and F2. A conflict stands in the way until a person has put it right and said so.
"""

import asyncio

import pytest

from fencepost.core.contract import Retry
from fencepost.core.errors import RunCancelled, RunHeld, RunTerminated, VerbRefused
from fencepost.core.states import OperationState, RunState
from fencepost.effects.answers import Conflicting, Inconclusive
from fencepost.effects.call import Call
from fencepost.effects.declare import effect
from fencepost.runtime import verbs
from fencepost.runtime.checking import check
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from fencepost.store.api import Group
from fencepost.store.moves import Observe
from tests.runtime.stage import (
    Gate,
    asked,
    expire,
    find,
    keyed,
    once,
    operation,
    played,
    reaches,
    target,
    undo,
    until,
    verb,
    working,
)


@workflow()
async def two_steps(run: Run) -> str:
    await run.do(keyed("one"))
    return await run.do(once("two"))


@workflow()
async def one_wait(run: Run) -> str:
    await run.do(keyed("one"))
    return await run.wait("word", str)


@workflow()
async def by_asking(run: Run) -> str:
    await run.do(asked("a"))
    return await run.do(keyed("after"))


def rows(app, run_id="r"):
    return [(row.verb, row.outcome) for row in app.store.audits("default", run_id)]


def nothing_contradicts(app):
    assert check(app.store).found == []


@played
async def test_a_run_that_was_ended_by_hand_goes_on_from_where_it_was_and_sends_nothing_twice(db):
    target.plan("two", "lose")
    async with working(db, two_steps) as app:
        handle = await app.start(two_steps, id="r")
        await reaches(app, "r", RunState.HELD)
        await app.terminate("r", by="ann", reason="by mistake")
        with pytest.raises(RunTerminated):
            await handle.result()
        with pytest.raises(VerbRefused):
            await app.resume("r", by="ann", reason="that is not the verb")
        before = (await app.show("r")).run.generation
        reopened = await app.reopen("r", by="ann", reason="it was a mistake")
        assert (reopened.state, reopened.generation) == (RunState.READY, before + 1)
        await reaches(app, "r", RunState.HELD)
        await app.settle("r", "once", happened=True, by="ann", reason="it is there", result='"made two"')
        assert await (await app.handle("r")).result() == "made two"
        assert rows(app) == [("terminate", "done"), ("resume", "refused"), ("reopen", "done"), ("settle", "done")]
        nothing_contradicts(app)
    assert target.requests == ["one", "two"]


@played
async def test_five_clicks_reopen_once(db):
    async with working(db, one_wait) as app:
        await app.start(one_wait, id="r")
        await reaches(app, "r", RunState.WAITING)
        await verb(app, verbs.terminate, "r")
        version = (await app.show("r")).run.version
        clicks = [verb(app, verbs.reopen, "r", version=version) for _ in range(5)]
        outcomes = await asyncio.gather(*clicks, return_exceptions=True)
        assert sum(isinstance(one, VerbRefused) for one in outcomes) == 4
        assert sorted(rows(app)) == [("reopen", "done"), *[("reopen", "refused")] * 4, ("terminate", "done")]
        await reaches(app, "r", RunState.WAITING)
        await app.signal("r", "word", "go")
        assert await (await app.handle("r")).result() == "go"
        nothing_contradicts(app)
    assert target.requests == ["one"]


@played
async def test_a_run_that_succeeded_is_replayed_to_the_same_end_and_sends_nothing(db):
    async with working(db, two_steps) as app:
        handle = await app.start(two_steps, id="r")
        assert await handle.result() == "made two"
        await verb(app, verbs.reopen, "r")
        await reaches(app, "r", RunState.SUCCEEDED)
        assert await (await app.handle("r")).result() == "made two"
        nothing_contradicts(app)
    assert target.requests == ["one", "two"]


@played
async def test_a_run_that_was_cancelled_goes_on_cancelling_and_begins_nothing(db):
    async with working(db, one_wait) as app:
        await app.start(one_wait, id="r")
        await reaches(app, "r", RunState.WAITING)
        await verb(app, verbs.cancel, "r")
        await reaches(app, "r", RunState.CANCELLED)
        assert (await verb(app, verbs.reopen, "r")).state is RunState.CANCELLING
        await reaches(app, "r", RunState.CANCELLED)
        with pytest.raises(RunCancelled):
            await (await app.handle("r")).result()
        nothing_contradicts(app)
    assert target.requests == ["one"]


@played
async def test_a_run_that_moves_or_that_failed_is_not_reopened(db):
    async with working(db, one_wait) as app:
        await app.start(one_wait, id="r")
        await reaches(app, "r", RunState.WAITING)
        for arguments, said in (({}, "waiting"), ({"reason": " "}, "who does it and why"), ({"version": 0}, "changed")):
            with pytest.raises(Exception, match=said):
                await verb(app, verbs.reopen, "r", **arguments)
        assert rows(app) == [("reopen", "refused")] * 3
        assert (await app.show("r")).run.state is RunState.WAITING


# -- conflicts --------------------------------------------------------------------------------------------------------


async def found_twice(app):
    target.plan("a", "lose")
    target.answers.append(Conflicting(2))
    handle = await app.start(by_asking, id="r")
    with pytest.raises(RunHeld, match="conflicting evidence"):
        await handle.result()
    return handle


@played
async def test_a_conflict_that_was_put_right_is_settled_and_its_run_goes_on_by_itself(db):
    async with working(db, by_asking) as app:
        await found_twice(app)
        with pytest.raises(VerbRefused, match="contradicts itself"):
            await app.settle("r", "asked", happened=True, by="ann", reason="one of the two", result='"made a"')
        await app.settle_conflict("r", "asked", happened=True, by="ann", reason="removed one", result='"made a"')
        assert await (await app.handle("r")).result() == "made after"
        settled = await operation(app, "r", "asked")
        assert (settled.conflict, settled.state) == (False, OperationState.SUCCEEDED)
        assert [one.outcome.value for one in settled.attempts] == ["applied"]
        assert rows(app) == [("settle", "refused"), ("settle conflict", "done")]
        nothing_contradicts(app)
    assert target.requests == ["a", "after"]


@played
async def test_a_conflict_of_which_nothing_stands_is_sent_again_under_its_budget(db):
    async with working(db, by_asking) as app:
        await found_twice(app)
        target.objects.clear()

        async def believed():
            try:
                await verb(app, verbs.settle_conflict, "r", step="asked", happened=False)
            except VerbRefused as refused:
                return "may still land" not in refused.message
            return True

        await until(believed, "the old request to be dead")
        assert await (await app.handle("r")).result() == "made after"
        nothing_contradicts(app)
    assert target.requests == ["a", "a", "after"]


@played
async def test_five_clicks_settle_a_conflict_once(db):
    async with working(db, by_asking) as app:
        await found_twice(app)
        clicks = [
            verb(app, verbs.settle_conflict, "r", step="asked", happened=True, result='"made a"') for _ in range(5)
        ]
        outcomes = await asyncio.gather(*clicks, return_exceptions=True)
        assert sum(isinstance(one, VerbRefused) for one in outcomes) == 4
        assert sorted(rows(app)) == [("settle conflict", "done"), *[("settle conflict", "refused")] * 4]


@workflow()
async def one_blind(run: Run) -> str:
    await run.do(once("a"))
    return await run.do(keyed("after"))


async def spoken_too_late(stale, heir_of):
    """An ended run with a reply that contradicts what a person said while its owner was away."""
    gate = Gate()
    target.plan("a", gate)
    await stale.start(one_blind, id="r")
    await gate.reached.wait()
    expire(stale)
    await reaches(heir_of, "r", RunState.HELD)
    return gate


@played
async def test_a_conflict_of_a_finished_run_blocks_its_reopening_until_it_is_settled(db):
    async with working(db, one_blind) as stale, working(db, one_blind) as heir:
        gate = await spoken_too_late(stale, heir)
        await verb(heir, verbs.settle, "r", step="once", happened=False, override=True)
        await reaches(heir, "r", RunState.SUCCEEDED)
        gate.opened.set()

        async def flagged():
            return (await operation(heir, "r", "once")).conflict

        await until(flagged, "the contradiction to be flagged")
        nothing_contradicts(heir)
        with pytest.raises(VerbRefused, match="contradicts itself"):
            await verb(heir, verbs.reopen, "r")
        with pytest.raises(VerbRefused, match="proved to have been applied"):
            await verb(heir, verbs.settle_conflict, "r", step="once", happened=False, override=True)
        await verb(heir, verbs.settle_conflict, "r", step="once", happened=True)
        assert (await heir.show("r")).run.state is RunState.SUCCEEDED
        assert not (await operation(heir, "r", "once")).conflict
        with pytest.raises(VerbRefused, match="in no conflict"):
            await verb(heir, verbs.settle_conflict, "r", step="once", happened=True)
        await verb(heir, verbs.reopen, "r")
        await reaches(heir, "r", RunState.SUCCEEDED)
        nothing_contradicts(heir)
    assert target.requests == ["a", "a", "after"]


@played
async def test_a_late_reply_whose_bearer_died_before_it_raised_the_flag_is_a_conflict_for_whoever_reads_it(db):
    async with working(db, one_blind) as app:
        target.plan("a", "busy")
        await app.start(one_blind, id="r")
        await reaches(app, "r", RunState.SUCCEEDED)
        run = (await app.show("r")).run
        seen = Observe(run.no, "once", "", 1, "reply", "applied", "{}", None, 1, 0, None, app.store.now())
        app.store.commit([Group(run.no, run.generation, observations=[seen])], patience=5)
        assert (await operation(app, "r", "once")).conflict
        nothing_contradicts(app)
        with pytest.raises(VerbRefused, match="contradicts itself"):
            await verb(app, verbs.reopen, "r")
        await verb(app, verbs.settle_conflict, "r", step="once", happened=True)
        assert not (await operation(app, "r", "once")).conflict
        await verb(app, verbs.reopen, "r")
        await reaches(app, "r", RunState.SUCCEEDED)
        nothing_contradicts(app)
    assert target.requests == ["a", "after"]


# -- asking now -------------------------------------------------------------------------------------------------------


@effect(
    reconcile=find, attempt_timeout="40ms", settle="10ms", compensate=undo, name="patiently",
    retry=Retry(attempts=3, within="20h", first_delay="2h", longest_delay="2h"),
)  # fmt: skip
async def patiently(call: Call, name: str) -> str:
    """One whose look-ups are hours apart."""
    return await target.take(call, name)


@workflow()
async def patient(run: Run) -> str:
    return await run.do(patiently("a"))


@played
async def test_a_person_does_not_wait_for_the_next_look_up(db):
    async with working(db, patient) as app:
        target.plan("a", "lose")
        target.answers.append(Inconclusive("busy"))
        await app.start(patient, id="r")
        await reaches(app, "r", RunState.WAITING)
        assert (await app.show("r")).run.wake_at > app.store.now()
        assert (await app.reconcile("r", by="ann", reason="it is well again")).state is RunState.READY
        assert await (await app.handle("r")).result() == "made a"
        assert target.looked == 2
        nothing_contradicts(app)
    assert target.requests == ["a"]


@played
async def test_a_look_up_that_gave_up_is_asked_once_more(db):
    async with working(db, by_asking) as app:
        target.plan("a", "lose")
        target.answers.extend([ValueError("down")] * 5)
        await app.start(by_asking, id="r")
        await reaches(app, "r", RunState.HELD)
        looked, before = target.looked, (await app.show("r")).run.generation
        await app.reconcile("r", by="ann", reason="the search is well again")
        assert await (await app.handle("r")).result() == "made after"
        assert (target.looked, (await app.show("r")).run.generation > before) == (looked + 1, True)
        with pytest.raises(VerbRefused, match="nothing unknown"):
            await app.reconcile("r", by="ann", reason="once more")
        assert rows(app) == [("reconcile", "done"), ("reconcile", "refused")]
        nothing_contradicts(app)
    assert target.requests == ["a", "after"]


@played
async def test_a_step_that_is_known_is_not_asked_about(db):
    target.plan("two", "lose")
    async with working(db, two_steps) as app:
        await app.start(two_steps, id="r")
        await reaches(app, "r", RunState.HELD)
        for step, said in (("keyed", "nothing unknown"), ("elsewhere", "no operation")):
            with pytest.raises(Exception, match=said):
                await app.reconcile("r", step, by="ann", reason="to be sure")
        assert rows(app) == [("reconcile", "refused")] * 2
        assert (await app.reconcile("r", "once", by="ann", reason="to be sure")).state is RunState.READY
        await reaches(app, "r", RunState.HELD)
