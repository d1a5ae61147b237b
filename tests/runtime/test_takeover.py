"""Taking over: who may, how often the target is asked, and what a worker does that loses its lease or its ledger.

What a former owner's reports do is in `test_stale_owner`; real processes are lost in tests/processes and tests/zombies.
"""

import asyncio
import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, closing, suppress

import pytest

from fencepost.core.contract import Retry
from fencepost.core.duration import SECOND
from fencepost.core.errors import DeclarationError, LeaseLost
from fencepost.core.states import OperationState, RunState
from fencepost.effects.call import Call
from fencepost.effects.declare import compute, effect
from fencepost.effects.promises import KeyHeader
from fencepost.runtime import verbs
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from tests.runtime.stage import (
    QUICK,
    Clock,
    Gate,
    expire,
    find,
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


@effect(reconcile=find, attempt_timeout="20s", settle="1s", retry=QUICK)
async def asked_later(call: Call, name: str) -> str:
    """An effect on the looked-up rung whose first attempt is still under way when it is taken over."""
    return await target.take(call, name)


@workflow()
async def asks(run: Run, name: str) -> str:
    return await run.do(asked_later(name))


@effect(send_key=KeyHeader("Idempotency-Key", window="15m"), retry=Retry(attempts=9, within="1m", first_delay="2ms"))
async def steady(call: Call, name: str) -> str:
    """A keyed effect that outlives several workers."""
    return await target.take(call, name, honours_keys=True)


@workflow()
async def two(run: Run) -> str:
    first = await run.do(keyed("a"))
    return f"{first}, {await run.do(keyed('b'), item='b')}"


# -- margins ----------------------------------------------------------------------------------------------------------


@played
async def test_a_margin_below_that_of_a_living_worker_is_refused_with_both_numbers(db):
    async with working(db, two, margin="2s"):
        with pytest.raises(DeclarationError, match=r"a margin of 1s is below the 2s of a worker on the same ledger"):
            async with working(db, two, margin="1s"):
                pass


@played
async def test_a_larger_margin_beside_a_smaller_one_is_allowed_and_waited_for_by_all(db):
    async with working(db, two, margin="1s") as small, working(db, two, margin="2s"):
        found = sorted(lease.margin for lease in small.store.leases())
        assert found == [1 * SECOND, 2 * SECOND]


@played
async def test_a_dead_worker_with_a_larger_margin_keeps_nobody_out(db):
    clock = Clock()
    async with working(db, two, margin="2s", clock=clock):
        clock.offset += 3_600 * SECOND
        async with working(db, two, margin="1s", clock=clock) as heir:
            assert await (await heir.start(two, id="r")).result() == "made a, made b"


# -- recoverers -------------------------------------------------------------------------------------------------------


@played
async def test_two_recoverers_ask_once(db):
    gate = Gate()
    target.plan("a", gate)
    async with working(db, asks) as stale:
        await stale.start(asks, "a", id="r")
        await gate.reached.wait()
        target.objects.append("a")  # it was applied, and the reply is not back yet
        expire(stale)
        async with working(db, asks) as one, working(db, asks) as other:
            await reaches(one, "r", RunState.SUCCEEDED)
            assert one._workers[0].claimed + other._workers[0].claimed == 1
            assert (target.looked, (await operation(one, "r", "asked_later")).lookups) == (1, 1)
            gate.opened.set()
    assert target.requests == ["a"]


@played
async def test_many_recoverers_take_each_run_once(db):
    gates = {f"n{number}": Gate() for number in range(20)}
    for name, gate in gates.items():
        target.plan(name, gate)
    async with working(db, asks) as stale:
        for name in gates:
            await stale.start(asks, name, id=name)
        for name, gate in gates.items():
            await gate.reached.wait()
            target.objects.append(name)
        expire(stale)
        heirs = [working(db, asks) for _ in range(4)]
        apps = [await heir.__aenter__() for heir in heirs]
        for name in gates:
            await reaches(apps[0], name, RunState.SUCCEEDED)
        assert sum(app._workers[0].claimed for app in apps) == target.looked == len(gates)
        for gate in gates.values():
            gate.opened.set()
        for heir in heirs:
            await heir.__aexit__(None, None, None)


# -- losing it --------------------------------------------------------------------------------------------------------


@played
async def test_who_loses_its_lease_begins_nothing_more_and_still_takes_in_the_reply(db):
    gate = Gate()
    target.plan("a", gate)
    async with working(db, two) as app:
        await app.start(two, id="r")
        await gate.reached.wait()
        app.host.lease.give_up("it was told so")
        with pytest.raises(LeaseLost):
            app.host.lease.check()
        gate.opened.set()
        await reaches(app, "r", RunState.SUCCEEDED)  # in its next life, under a lease of its own
        first, second = (await app.show("r")).operations
        assert [attempt.outcome for attempt in first.attempts] == ["applied"]
        assert first.attempts[0].lease != second.attempts[0].lease
    assert target.requests == ["a", "b"]


@played
async def test_who_cannot_write_to_the_ledger_sends_nothing_more_and_keeps_the_reply_until_it_can(tmp_path):
    gate = Gate()
    target.plan("a", gate)
    file = tmp_path / "ledger.db"  # one that another process keeps locked
    async with working(f"sqlite:///{file}", two, lease="600ms", margin="100ms") as app:
        await app.start(two, id="r")
        await gate.reached.wait()
        with closing(sqlite3.connect(file, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            await until(lambda: not may_send(app), "the end of its permission")
            gate.opened.set()
            await until(lambda: app.host.journal._waiting or target.objects == ["a"], "the reply")
            for _ in range(50):
                await asyncio.sleep(0)
            assert target.requests == ["a"]
            other.execute("ROLLBACK")
        await reaches(app, "r", RunState.SUCCEEDED)
        assert [one.outcome for one in (await operation(app, "r", "keyed")).attempts] == ["applied"]
    assert target.requests == target.objects == ["a", "b"]


def may_send(app):
    """Whether a send may start under the app's lease now."""
    with suppress(LeaseLost):
        app.host.lease.check()
        return True
    return False


# -- a loop that stands still -----------------------------------------------------------------------------------------

LEASE = 0.6


def stand_still():
    """Keep this thread, the loop's, for three leases."""
    threading.Event().wait(3 * LEASE)


@compute(attempt_timeout="10s")
async def blocks(call: Call) -> str:
    """Blocks, and sends nothing."""
    stand_still()
    return "done"


@effect(on_unknown="hold", retry=QUICK, attempt_timeout="10s")
async def blocks_and_sends(call: Call, name: str) -> str:
    """Blocks before it sends."""
    stand_still()
    return await target.take(call, name)


@workflow()
async def computing(run: Run) -> str:
    await run.do(blocks())
    return await run.do(once("a"))


@workflow()
async def sending(run: Run) -> str:
    return await run.do(blocks_and_sends("a"))


@pytest.mark.parametrize("flow", [computing, sending])
def test_a_step_that_blocks_its_loop_loses_no_lease(db, flow):
    """C04: renewal does not depend on the step's loop, as long as the step is within its timeout."""

    async def owner() -> None:
        async with working(db, flow, lease="600ms", margin="100ms") as app:
            lease = app.host.lease
            handle = await app.start(flow, id="r")
            assert await handle.result(within="30s") == "made a"
            assert app.host.lease is lease
            assert not lease.lost
            [found] = (await app.show("r")).operations
            assert len(found.attempts) == 1

    def heir() -> None:
        async def wait() -> None:
            async with working(db, flow, lease="20s", margin="100ms") as app:
                await until(over.is_set, "the owner to have done it")
                assert app._workers[0].claimed == 0

        asyncio.run(wait())

    over = threading.Event()
    with ThreadPoolExecutor(1) as threads:
        going = threads.submit(heir)
        try:
            asyncio.run(owner())
        finally:
            over.set()
        going.result()
    assert target.requests == ["a"]


@played
async def test_a_late_completion_of_who_could_not_renew_is_refused_and_the_effect_stands_once(db):
    """C04: its renewing thread has died."""
    gate = Gate()
    target.plan("a", gate)
    async with working(db, two, lease="600ms", margin="100ms") as app:
        app.host.lease._stopping.set()
        app.host.lease._thread.join()
        await app.start(two, id="r")
        await gate.reached.wait()
        async with working(db, two, margin="100ms") as heir:
            await reaches(heir, "r", RunState.SUCCEEDED)
            gate.opened.set()

            async def refused():
                return [seen for seen in (await operation(heir, "r", "keyed")).observations if not seen.current]

            [late] = await until(refused, "the late completion")
            assert late.says == "applied"
            assert (await operation(heir, "r", "keyed")).conflict is False
    assert target.objects == ["a", "b"]


# -- who brings its workers down --------------------------------------------------------------------------------------


@played
async def test_a_run_with_which_three_workers_were_lost_is_held_and_a_person_lets_it_try_anew(db):
    gates = [Gate() for _ in range(4)]
    target.plan("a", *gates)
    async with AsyncExitStack() as workers:
        app = await workers.enter_async_context(working(db, one_of))
        await app.start(one_of, "a", id="r")
        for gate in gates[:3]:
            await gate.reached.wait()
            expire(app)
            app = await workers.enter_async_context(working(db, one_of))
        await reaches(app, "r", RunState.HELD)
        held = await hold(app, "r")
        assert (held["reason"], "3 workers in a row" in held["detail"]) == ("WorkersLost", True)
        assert (await operation(app, "r", "steady")).state is OperationState.UNKNOWN
        await verb(app, verbs.resume, "r")
        await until(gates[3].reached.is_set, "a fourth sending")
        assert (await app.show("r")).run.takeovers == 0
        for gate in gates:
            gate.opened.set()
        await reaches(app, "r", RunState.SUCCEEDED)
    assert target.objects == ["a"]


@played
async def test_a_worker_lives_one_suspect_at_a_time(db):
    names = ("a", "b", "c")
    gates = {name: [Gate(), Gate(), Gate()] for name in names}
    for name in names:
        target.plan(name, *gates[name])
    async with AsyncExitStack() as workers:
        app = await workers.enter_async_context(working(db, one_of))
        for name in names:
            await app.start(one_of, name, id=name)
        for turn in (0, 1):
            for name in names:
                await gates[name][turn].reached.wait()
            expire(app)
            app = await workers.enter_async_context(working(db, one_of))
        for number in (1, 2, 3):
            begun = await until(lambda: begun_at_last(gates, number), "the next suspect")  # noqa: B023 - called at once
            assert len(begun) == number, "one at a time"
            for name in begun:
                gates[name][2].opened.set()
        for name in names:
            await reaches(app, name, RunState.SUCCEEDED)
            for gate in gates[name]:
                gate.opened.set()
    assert sorted(target.objects) == list(names)


def begun_at_last(gates, number):
    """The runs that have come to their third sending, once they are so many."""
    begun = [name for name, of_name in gates.items() if of_name[2].reached.is_set()]
    return begun if len(begun) >= number else None


@workflow()
async def one_of(run: Run, name: str) -> str:
    return await run.do(steady(name))
