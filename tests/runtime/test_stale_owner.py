"""An owner that has lost its run: what it saw is kept, may settle what its heir does not know, and starts nothing.

Leases run out here by the store's verbs; a worker that lost its lease begins a new life.
"""

import asyncio

import pytest

from fencepost.core.contract import Contract
from fencepost.core.states import OperationState, Outcome, RunState
from fencepost.runtime import verbs
from fencepost.runtime.late import Report, take_in
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from fencepost.store.moves import MoveRun
from tests.runtime.stage import (
    Gate,
    expire,
    keyed,
    lose,
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
async def one(run: Run, name: str) -> str:
    first = await run.do(once(name))
    return f"{first}, {await run.do(keyed('after'))}"


@workflow()
async def pair(run: Run) -> str:
    await run.gather(run.do(once("quick"), item="quick"), run.do(once("slow"), item="slow"))
    return await run.do(keyed("after"))


@workflow()
async def by_key(run: Run) -> str:
    return await run.do(keyed("a"))


async def settled(app, step, item=None):
    async def known():
        return (await operation(app, "r", step, item)).state is OperationState.SUCCEEDED

    await until(known, f"{step} to be known")


@played
async def test_the_reply_of_a_stale_owner_settles_the_unknown_and_lifts_the_hold(db):
    gate = Gate()
    target.plan("a", gate)
    async with working(db, one) as stale:
        await stale.start(one, "a", id="r")
        await gate.reached.wait()
        expire(stale)
        async with working(db, one) as heir:
            await reaches(heir, "r", RunState.HELD)
            before = (await heir.show("r")).run.generation
            gate.opened.set()
            await reaches(heir, "r", RunState.SUCCEEDED)
            history = await heir.show("r")
            assert history.run.generation > before
            replies = [seen for seen in history.operations[0].observations if seen.kind == "reply"]
            assert [(seen.says, seen.current) for seen in replies] == [("applied", False)]
    assert target.requests == ["a", "after"]


@played
async def test_a_reply_that_comes_between_its_heirs_decision_to_hold_and_the_hold_lets_the_run_go_on(db):
    gate, said = Gate(), []
    target.plan("a", gate)
    async with working(db, one) as stale:
        await stale.start(one, "a", id="r")
        await gate.reached.wait()
        run = (await stale.show("r")).run
        reply = Report(run.no, "once", 1, Outcome.APPLIED, "200", run.generation, result='"made a"')
        async with working(db, one) as heir:
            submit = heir.host.journal.submit

            def in_between(group, when_done=None):
                if not said and any(isinstance(move, MoveRun) and move.to == RunState.HELD for move in group.moves):
                    said.append(take_in(heir.store, reply, Contract("once")).run.state)
                return submit(group, when_done)

            heir.host.journal.submit = in_between
            expire(stale)
            await reaches(heir, "r", RunState.SUCCEEDED)
            assert said == [RunState.RUNNING], "it came before the hold"
            gate.opened.set()
    assert target.requests == ["a", "after"]


@played
async def test_a_stale_owner_begins_nothing_after_its_reply(db):
    gate = Gate()
    target.plan("a", gate)
    async with working(db, one) as stale:
        await stale.start(one, "a", id="r")
        await gate.reached.wait()
        expire(stale)
        async with working(db, one) as heir:
            await reaches(heir, "r", RunState.HELD)
            await verb(heir, verbs.terminate, "r")
            gate.opened.set()
            await settled(heir, "once")
            assert (await heir.show("r")).run.state is RunState.TERMINATED
            assert not stale._workers[0]._lives
    assert target.requests == ["a"]


@played
async def test_everything_that_a_stale_owner_saw_is_kept_also_what_came_after_its_first_refusal(db):
    quick, slow = Gate(), Gate()
    target.plan("quick", quick)
    target.plan("slow", slow)
    async with working(db, pair) as stale:
        await stale.start(pair, id="r")
        await quick.reached.wait()
        await slow.reached.wait()
        expire(stale)
        async with working(db, pair) as heir:
            await reaches(heir, "r", RunState.HELD)
            quick.opened.set()
            slow.opened.set()
            await reaches(heir, "r", RunState.SUCCEEDED)
            for one_of in (await heir.show("r")).operations[:2]:
                assert [seen.says for seen in one_of.observations if seen.kind == "reply"] == ["applied"]
    assert sorted(target.requests) == ["after", "quick", "slow"]


@played
async def test_a_reply_that_contradicts_what_a_person_said_is_a_conflict_and_held(db):
    gate = Gate()
    target.plan("a", gate)
    async with working(db, one) as stale:
        await stale.start(one, "a", id="r")
        await gate.reached.wait()
        expire(stale)
        async with working(db, one) as heir:
            await reaches(heir, "r", RunState.HELD)
            await verb(heir, verbs.settle, "r", step="once", happened=False, override=True)
            await reaches(heir, "r", RunState.SUCCEEDED)
            gate.opened.set()

            async def flagged():
                return (await operation(heir, "r", "once")).conflict

            await until(flagged, "the contradiction to be flagged")
            assert (await heir.show("r")).run.state is RunState.SUCCEEDED
    assert target.requests == ["a", "a", "after"]


@played
async def test_a_contradiction_stops_a_run_that_still_goes_on(db):
    gate, next_one = Gate(), Gate()
    target.plan("a", gate)
    target.plan("after", next_one)
    async with working(db, one) as stale:
        await stale.start(one, "a", id="r")
        await gate.reached.wait()
        expire(stale)
        async with working(db, one) as heir:
            await reaches(heir, "r", RunState.HELD)
            await verb(heir, verbs.settle, "r", step="once", happened=False, override=True)
            await next_one.reached.wait()
            gate.opened.set()
            await reaches(heir, "r", RunState.HELD)
            next_one.opened.set()
            await settled(heir, "keyed")
            assert (await heir.show("r")).run.state is RunState.HELD


@played
async def test_an_heir_sends_again_under_the_key_and_the_late_reply_changes_nothing(db):
    gate = Gate()
    target.plan("a", gate)
    async with working(db, by_key) as stale:
        await stale.start(by_key, id="r")
        await gate.reached.wait()
        expire(stale)
        async with working(db, by_key) as heir:
            await reaches(heir, "r", RunState.SUCCEEDED)
            gate.opened.set()

            async def heard():
                return any(seen.kind == "reply" for seen in (await operation(heir, "r", "keyed")).observations)

            await until(heard, "the late reply")
            assert (await heir.show("r")).run.state is RunState.SUCCEEDED
    assert (target.requests, target.objects) == (["a", "a"], ["a"])


@played
async def test_a_worker_that_lost_its_lease_begins_a_new_life_and_works_on(db):
    gate = Gate()
    target.plan("a", gate)
    async with working(db, one, lease="600ms", margin="100ms") as app:
        await app.start(one, "a", id="r")
        await gate.reached.wait()
        first = app.host.lease
        lose(app)
        gate.opened.set()
        second = await app.start(one, "b", id="second")
        await until(lambda: app.host.lease is not first, "a new lease")
        assert await second.result() == "made b, made after"
        await reaches(app, "r", RunState.SUCCEEDED)
        assert [lease.id for lease in app.store.leases()] == [app.host.lease.id]
    assert sorted(target.requests) == ["a", "after", "after", "b"]


@played
async def test_a_lease_that_is_found_expired_by_its_own_worker_ends_that_life_at_once(db):
    async with working(db, one) as app:
        gate = Gate()
        target.plan("a", gate)
        await app.start(one, "a", id="r")
        await gate.reached.wait()
        first = app.host.lease
        first._stopping.set()  # its own thread will not hear of it
        first._thread.join()
        lose(app)
        await until(lambda: first.lost, "the worker to notice")
        gate.opened.set()
        await until(lambda: app.host.lease is not first, "a new lease")
        await reaches(app, "r", RunState.SUCCEEDED)


@played
async def test_a_worker_that_is_told_to_stop_finishes_what_is_in_flight_and_hands_the_rest_back(db):
    gate = Gate()
    target.plan("a", gate)
    async with working(db, one) as app:
        await app.start(one, "a", id="r")
        await gate.reached.wait()
        app._workers[0].stop()
        gate.opened.set()
    async with working(db, one) as app:
        assert await (await app.handle("r")).result() == "made a, made after"
        assert (await operation(app, "r", "once")).attempts[0].outcome.value == "applied"
    assert target.requests == ["a", "after"]


@played
async def test_an_app_may_work_again_after_it_has_stopped(db):
    from fencepost.runtime.app import App

    async with App(db, workflows=[one]) as app:
        for name in ("x", "y"):
            async with app.worker():
                assert await (await app.start(one, name, id=name)).result() == f"made {name}, made after"


@pytest.mark.parametrize("times", [1, 2])
def test_an_heir_of_an_heir_finds_what_the_first_owner_left(db, times):
    async def play() -> None:
        gates = [Gate() for _ in range(times)]
        target.plan("a", *gates)
        apps = []
        for gate in gates:
            context = working(db, by_key)
            app = await context.__aenter__()
            apps.append((app, context))
            if len(apps) == 1:
                await app.start(by_key, id="r")
            await gate.reached.wait()
            expire(app)
        async with working(db, by_key) as heir:
            await reaches(heir, "r", RunState.SUCCEEDED)
            assert len((await operation(heir, "r", "keyed")).attempts) == times + 1
        for gate in gates:
            gate.opened.set()
        for _, context in apps:
            await context.__aexit__(None, None, None)

    asyncio.run(play())
    assert target.objects == ["a"]
