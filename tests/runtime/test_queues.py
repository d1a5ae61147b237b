"""Queues under real workers: limits that hold across workers, slots that nobody loses, and order."""

import asyncio
import json
from contextlib import AsyncExitStack, asynccontextmanager

import pytest

from fencepost.core.duration import SECOND
from fencepost.core.errors import DeclarationError, Misuse, RunInputMismatch
from fencepost.core.queue import Candidate, Queue, QueueStanding, Rate, chosen
from fencepost.core.states import RunState
from fencepost.runtime.app import App
from fencepost.runtime.run import Run
from fencepost.runtime.schedule import Schedule
from fencepost.runtime.workflow import workflow
from tests.runtime.stage import Clock, Gate, keyed, lose, once, played, reaches, target, until

MINUTE = 60 * SECOND


@workflow()
async def sends(run: Run, name: str) -> str:
    return await run.do(keyed(name))


@workflow(queue="mail")
async def mails(run: Run, name: str) -> str:
    return await run.do(keyed(name))


@workflow()
async def waits(run: Run, name: str) -> str:
    await run.do(keyed(name))
    return await run.wait("go", str)


@workflow()
async def breeds(run: Run, name: str) -> str:
    return await run.child(mails, name, id=f"{name} child")


@workflow()
async def risks(run: Run, name: str) -> str:
    return await run.do(once(name))


def app_of(db, *queues, **options):
    return App(db, workflows=[sends, mails, waits, breeds, risks], queues=queues, **options)


@asynccontextmanager
async def working(db, *queues, clock=None, **options):
    app = app_of(db, *queues, **({} if clock is None else {"lease": "90d"}), **options)
    app.clock = clock
    async with app, app.worker():
        yield app


async def steadily(condition, what):
    """Wait for the condition, and see that it is so a little later too."""
    await until(condition, what)
    await asyncio.sleep(0.3)
    assert condition(), what


@played
async def test_the_limit_holds_for_all_workers_together_and_a_slot_that_is_left_is_taken(db):
    gate = Gate()
    for number in range(9):
        target.plan(f"n{number}", gate)
    async with AsyncExitStack() as all_of_them:
        mail = Queue("mail", concurrency=3)
        apps = [await all_of_them.enter_async_context(working(db, mail)) for _ in range(3)]
        handles = [await apps[0].start(sends, f"n{number}", id=f"n{number}", queue="mail") for number in range(9)]
        free = await apps[0].start(sends, "free", id="free")  # outside of the queue nothing waits for it
        assert await free.result(within="20s") == "made free"
        await steadily(lambda: len(target.requests) - 1 == 3, "three in work")
        (standing,) = await apps[1].queues.list()
        assert (standing.name, standing.concurrency, standing.owned) == ("mail", 3, 3)
        gate.opened.set()
        assert [await one.result(within="20s") for one in handles] == [f"made n{number}" for number in range(9)]
        assert len(target.requests) == 10


@played
async def test_a_run_that_waits_holds_no_slot_and_takes_one_to_go_on(db):
    async with working(db, Queue("mail", concurrency=1)) as app:
        first = await app.start(waits, "a", id="a", queue="mail")
        await reaches(app, "a", RunState.WAITING)
        gate = Gate()
        target.plan("b", gate)
        second = await app.start(sends, "b", id="b", queue="mail")
        await gate.reached.wait()
        await app.signal("a", "go", "now")
        await asyncio.sleep(0.3)
        assert (await app.show("a")).run.state is RunState.WAITING
        gate.opened.set()
        assert await second.result(within="20s") == "made b"
        assert await first.result(within="20s") == "now"


@played
async def test_a_worker_that_dies_keeps_its_slot_until_it_is_taken_over(db):
    gate = Gate()
    target.plan("a", gate)
    mail = Queue("mail", concurrency=1)
    async with working(db, mail) as dead:
        await dead.start(sends, "a", id="a", queue="mail")
        await gate.reached.wait()
        async with working(db, mail) as heir:
            second = await heir.start(sends, "b", id="b", queue="mail")
            await asyncio.sleep(0.3)
            assert target.requests == ["a"]
            lose(dead)
            heir._wake()
            assert await (await heir.handle("a")).result(within="20s") == "made a"
            assert await second.result(within="20s") == "made b"
            assert (await heir.queues.list())[0].owned == 0
            gate.opened.set()
    assert target.objects.count("a") == 1


@played
async def test_each_key_has_its_own_limit(db):
    gates = {name: Gate() for name in ("x1", "x2", "y1", "none")}
    for name, gate in gates.items():
        target.plan(name, gate)
    async with working(db, Queue("mail", per_key=1)) as app:
        for name, key in (("x1", "x"), ("x2", "x"), ("y1", "y"), ("none", None)):
            await app.start(sends, name, id=name, queue="mail", queue_key=key)
        await steadily(lambda: sorted(target.requests) == ["none", "x1", "y1"], "one of each key, and the one without")
        gates["x1"].opened.set()
        await gates["x2"].reached.wait()
        for gate in gates.values():
            gate.opened.set()
        await reaches(app, "x2", RunState.SUCCEEDED)


@played
async def test_no_more_begin_than_the_rate_allows_and_the_next_when_it_does(db):
    clock = Clock()
    async with working(db, Queue("mail", rate=Rate(2, "1m")), clock=clock) as app:
        for number in range(5):
            await app.start(sends, f"n{number}", id=f"n{number}", queue="mail")
        for allowed in (2, 4, 5):
            await steadily(lambda allowed=allowed: len(target.requests) == allowed, f"{allowed} to have begun")
            clock.offset += 61 * SECOND


@played
async def test_the_highest_priority_comes_first_and_a_delay_is_waited_out(db):
    clock, gate = Clock(), Gate()
    target.plan("first", gate)
    async with working(db, Queue("mail", concurrency=1), clock=clock) as app:
        await app.start(sends, "first", id="first", queue="mail")
        await gate.reached.wait()
        await app.start(sends, "later", id="later", queue="mail", priority=9, delay="1h")
        for name, priority in (("low", -1), ("plain", 0), ("high", 5)):
            await app.start(sends, name, id=name, queue="mail", priority=priority)
        alone = await app.start(sends, "alone", id="alone", delay="1h")
        gate.opened.set()
        await steadily(lambda: target.requests == ["first", "high", "plain", "low"], "those without a delay, in order")
        clock.offset += 60 * MINUTE
        assert await alone.result(within="20s") == "made alone"
        await reaches(app, "later", RunState.SUCCEEDED)


@played
async def test_of_several_starts_of_the_same_thing_one_counts_until_it_has_ended(db):
    gate = Gate()
    target.plan("x", gate)
    async with working(db, Queue("mail")) as app:
        first = await app.start(sends, "x", id="a", queue="mail", dedup="rebuild x")
        again = await app.start(sends, "x", id="b", queue="mail", dedup="rebuild x")
        assert (first.id, again.id) == ("a", "a")
        many = await asyncio.gather(
            *(app.start(sends, "y", id=f"y{number}", queue="mail", dedup="y") for number in range(20))
        )
        assert len({one.id for one in many}) == 1
        with pytest.raises(RunInputMismatch):
            await app.start(sends, "other", id="c", queue="mail", dedup="rebuild x")
        gate.opened.set()
        await first.result(within="20s")
        after = await app.start(sends, "x", id="d", queue="mail", dedup="rebuild x")
        assert after.id == "d"
        await after.result(within="20s")
        assert target.requests.count("x") == 2


@played
async def test_a_paused_queue_begins_nothing_and_a_cancel_goes_through(db):
    async with working(db, Queue("mail")) as app:
        await app.start(sends, "warm", id="warm", queue="mail")
        await reaches(app, "warm", RunState.SUCCEEDED)
        paused = await app.queues.pause("mail", by="ann", reason="the relay is down")
        assert paused == await app.queues.pause("mail", by="bob", reason="again")
        one = await app.start(sends, "a", id="a", queue="mail")
        await app.start(sends, "b", id="b", queue="mail")
        await app.cancel("b", by="ann", reason="never mind")
        await reaches(app, "b", RunState.CANCELLED)
        assert target.requests == ["warm"]
        await app.queues.resume("mail", by="ann", reason="it is up")
        await app.queues.resume("mail", by="bob", reason="again")
        assert await one.result(within="20s") == "made a"
        rows = await app.audit(run="queue:mail")
        assert [(row.verb, row.actor) for row in rows] == [("resume queue", "ann"), ("pause queue", "ann")]
        with pytest.raises(Misuse, match="no queue 'post'"):
            await app.queues.pause("post", by="ann", reason="x")
        assert not (await app.check()).found


@played
async def test_a_child_and_a_scheduled_run_are_in_the_queue_of_their_workflow(db):
    app = app_of(db, Queue("mail", concurrency=1), schedules=[Schedule("s", mails, "s", cron="0 3 * * *", zone="UTC")])
    async with app, app.worker():
        handle = await app.start(breeds, "x", id="x")
        assert await handle.result(within="20s") == "made x"
        plan = await app.schedules.fire("s", by="ann", reason="now")
        own = await app.start(mails, "y", id="y")
        assert await own.result(within="20s") == "made y"
        runs = {run.id: run.queue for run in await app.runs()}
        assert runs == {"x": None, "x child": "mail", plan.last_run_id: "mail", "y": "mail"}


@played
async def test_a_worker_that_declares_no_queue_works_on_what_others_have_put_there(db):
    async with app_of(db, Queue("mail", concurrency=1)) as other:
        handle = await other.start(sends, "a", id="a", queue="mail")
        async with working(db):
            assert await handle.result(within="20s") == "made a"


@played
async def test_a_start_that_cannot_be_meant_is_refused(db):
    async with app_of(db, Queue("mail")) as app:
        for wrong in (
            {"queue": "post"},
            {"priority": 1},
            {"dedup": "x"},
            {"queue_key": "x"},
            {"queue": "mail", "priority": 1.5},
        ):
            with pytest.raises(Misuse):
                await app.start(sends, "a", id="a", **wrong)
        assert await app.runs() == []
    for wrong in ({"concurrency": 0}, {"per_key": True}):
        with pytest.raises(DeclarationError):
            Queue("mail", **wrong)
    with pytest.raises(DeclarationError):
        Rate(0, "1m")
    with pytest.raises(DeclarationError, match="two queues"):
        app_of(db, Queue("mail"), Queue("mail"))


@played
async def test_a_line_stays_locked_behind_an_unknown_operation_of_a_run_that_was_ended_by_hand(db):
    from fencepost.runtime.ledger import Ledger

    target.plan("one", "lose")
    async with Ledger(db, effects=[once]) as ledger:
        await ledger.work()
        await ledger.enqueue(once("one"), operation="one", resource="acct")
        await reaches(ledger.app, "one", RunState.HELD)
        second = await ledger.enqueue(once("two"), operation="two", resource="acct")
        await ledger.app.terminate("one", by="ann", reason="away with it")
        await asyncio.sleep(0.3)
        assert target.requests == ["one"]
        run = (await ledger.app.show("two")).run
        assert ledger.app.store.ahead_of(run) == ("one", "terminated")
        # The way out: say what became of it.
        (operation,) = (await ledger.app.show("one")).operations
        await ledger.app.settle(
            "one",
            operation.step,
            happened=True,
            result=json.dumps("made one"),
            reference="1",
            by="ann",
            reason="seen there",
        )
        assert await second.result(within="20s") == "made two"


def standing(**changes):
    plain = QueueStanding("mail", None, None, None, None, None, None, None, 0, 0, 0, None)
    return plain._replace(**changes)


def candidates(*keys, fresh=True, state="ready"):
    return [Candidate(number, 1, state, 0, 0, key, fresh, 0) for number, key in enumerate(keys)]


@pytest.mark.parametrize(
    ("queue", "due", "taken"),
    [
        (standing(), candidates(None, None), 2),
        (standing(concurrency=3, owned=1), candidates(None, None, None), 2),
        (standing(concurrency=3, owned=5), candidates(None), 0),
        (standing(concurrency=1, owned=1), candidates(None, state="cancelling"), 1),
        (standing(per_key=2), candidates("a", "a", "a", "b", None, None), 5),
        (standing(rate=3, rate_within=1, begun=1), candidates(None, None, None), 2),
        (standing(rate=1, rate_within=1, begun=1), candidates(None, fresh=False), 1),
        (standing(paused_at=1), candidates(None, fresh=False), 0),
        (standing(concurrency=1, owned=1), candidates(None, state="compensating"), 0),
        (standing(concurrency=3, owned=1), candidates(None, None, None, state="compensating"), 2),
        (standing(per_key=1), candidates("a", "a", state="compensating"), 1),
        (standing(paused_at=1, concurrency=1), candidates(None, None, state="compensating"), 1),
        (standing(rate=1, rate_within=1, begun=1), candidates(None, state="compensating"), 1),
    ],
)
def test_what_is_chosen_among_those_that_are_due(queue, due, taken):
    assert len(chosen(queue, due)) == taken
