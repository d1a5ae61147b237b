"""A job on many runs: paused, killed, gone on with by two at once, and no run is ever done twice.

What was done is read from the audit, whose rows are written with what they tell, and not from the job itself.
"""

import asyncio
import subprocess
import sys
from collections import Counter

import pytest

from fencepost.core.bulk import BULK, BulkEvent, BulkOutcome, BulkState
from fencepost.core.errors import Misuse, VerbRefused
from fencepost.core.queue import Queue
from fencepost.core.states import RunState
from fencepost.core.transitions import IllegalTransition
from fencepost.runtime import bulking
from fencepost.runtime.app import App
from fencepost.runtime.bulk import Selection
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from tests.runtime.stage import Gate, once, played, reaches, target, until

COUNT = 6
READY = Selection(state="ready")
ANN = {"by": "ann", "reason": "all of them"}


@workflow()
async def waits(run: Run) -> str:
    return await run.wait("go", str)


@workflow(queue="mail")
async def mails(run: Run, name: str) -> str:
    return await run.do(once(name))


def app_of(db):
    return App(db, workflows=[waits, mails], queues=[Queue("mail", concurrency=1)])


async def many(app, count=COUNT):
    for number in range(count):
        await app.start(waits, id=f"r{number}")


async def cancelled(app):
    """How often each run was cancelled."""
    return Counter(row.run_id for row in await app.audit(verb="cancel", outcome="done", limit=100))


ONCE_EACH = {f"r{number}": 1 for number in range(COUNT)}


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("count", [1, 3, COUNT])
@played
async def test_a_job_whose_process_was_killed_is_gone_on_with_and_no_run_is_done_twice(db, when, count):
    async with app_of(db) as app:
        await many(app)
        child = await asyncio.to_thread(
            subprocess.run, [sys.executable, "-m", "tests.runtime.bulk_child", db, str(count), when], check=False
        )
        assert child.returncode == -9
        (job,) = await app.bulks()
        assert (job.state, job.done, job.refused) == (BulkState.RUNNING, count - (when == "before"), 0)
        assert sum((await cancelled(app)).values()) == job.done, "ticked off with the verb, or neither"

        rest = await app.resume_bulk(job.no, by="bob", reason="its process was killed")
        assert [one.refused for one in rest] == [None] * job.left
        assert await cancelled(app) == ONCE_EACH
        assert await app.bulks() == []
        (done,) = await app.bulks(every=True)
        assert (done.state, done.done, done.refused, done.left) == (BulkState.DONE, COUNT, 0, 0)
        assert (await app.verify_audit()).broken is None


@played
async def test_two_who_work_on_one_job_do_each_run_once(db):
    async with app_of(db) as app, app_of(db) as other:
        await many(app, 40)
        job = bulking.begin(app, "cancel", Selection(state="ready", limit=100), **ANN)
        assert bulking.begin(other, "cancel", Selection(state="ready", limit=100), **ANN).no == job.no, "the same click"
        # Each has read which runs are left before the other does the next one.
        doing = [bulking.carry_out(app, job, by="ann"), bulking.carry_out(other, job, by="bob")]
        both = [one for _ in range(10) for each in doing if (one := next(each, None)) is not None]
        for rest in await asyncio.gather(*(asyncio.to_thread(list, each) for each in doing)):
            both += rest
        assert Counter(one.run for one in both) == {f"r{number}": 1 for number in range(40)}
        assert [one.refused for one in both] == [None] * 40
        assert await cancelled(app) == {f"r{number}": 1 for number in range(40)}
        assert bulking.named(app, job.no).state is BulkState.DONE


@played
async def test_after_a_pause_nothing_is_done_until_somebody_resumes_and_the_same_click_is_refused(db):
    async with app_of(db) as app, app_of(db) as elsewhere:
        await many(app)
        job = bulking.begin(app, "cancel", READY, **ANN)
        doing = bulking.carry_out(app, job, by="ann")
        assert next(doing).run == "r5"
        for _ in range(2):  # the second click changes nothing, and leaves no row
            paused = await elsewhere.pause_bulk(job.no, by="bob", reason="wait")
        assert paused.state is BulkState.PAUSED
        assert list(doing) == []
        assert sum((await cancelled(app)).values()) == 1

        shown = Selection(shown={f"r{number}": 0 for number in reversed(range(COUNT))}, limit=COUNT)
        with pytest.raises(VerbRefused, match=f"bulk job {job.no} is the same, and is paused"):
            await app.bulk("cancel", shown, **ANN)
        assert len(await app.resume_bulk(job.no, by="bob", reason="go on")) == COUNT - 1
        assert await cancelled(app) == ONCE_EACH
        told = [(row.verb, row.actor, row.outcome) for row in await app.audit(run=f"bulk:{job.no}")]
        assert told == [("resume bulk", "bob", "done"), ("pause bulk", "bob", "done")]
        with pytest.raises(VerbRefused, match="is done"):
            await app.pause_bulk(job.no, by="bob", reason="too late")
        assert (await app.audit(run=f"bulk:{job.no}", outcome="refused"))[0].actor == "bob"
        with pytest.raises(Misuse, match="no bulk job 99"):
            await app.resume_bulk(99, by="bob", reason="which")


@played
async def test_what_has_moved_since_it_was_seen_is_refused_and_told_with_the_job(db):
    async with app_of(db) as app:
        await many(app)
        job = bulking.begin(app, "cancel", READY, **ANN)
        await app.terminate("r3", by="bob", reason="by itself")
        each = list(bulking.carry_out(app, job, by="ann"))
        assert [one.run for one in each if one.refused] == ["r3"]
        kept = app.store.bulk_runs(job.no, every=True, after=-1, limit=100)
        assert [one.run.id for one in kept if one.outcome is BulkOutcome.REFUSED] == ["r3"]
        assert "has changed since you looked" in next(one.says for one in kept if one.says)
        assert (await app.bulks(every=True))[0].refused == 1


@played
async def test_runs_that_are_resumed_together_keep_the_limits_of_their_queue(db):
    async with app_of(db) as app:
        async with app.worker():
            for number in range(4):
                target.plan(f"m{number}", *["busy"] * 3)
                await app.start(mails, f"m{number}", id=f"m{number}")
                await reaches(app, f"m{number}", RunState.HELD)
        assert len(await app.bulk("retry", Selection(state="held"), step="once", item=None, **ANN)) == 4
        gates = [Gate() for _ in range(4)]
        for number, gate in enumerate(gates):
            target.plan(f"m{number}", gate)
        async with app.worker():
            for count in range(1, 5):
                await until(lambda: len(target.requests) == count, "the next one")  # noqa: B023 - asked within the turn
                assert [(one.name, one.owned) for one in await app.queues.list()] == [("mail", 1)]
                for gate in gates:
                    if gate.reached.is_set():
                        gate.opened.set()
            await asyncio.gather(*(reaches(app, f"m{number}", RunState.SUCCEEDED) for number in range(4)))


@pytest.mark.parametrize("paused", [False, True])
@played
async def test_runs_that_are_compensated_together_keep_the_slots_of_their_queue_and_come_first_for_them(db, paused):
    names = [f"m{number}" for number in range(4)]
    async with app_of(db) as app, app.worker():
        for name in names:
            await app.start(mails, name, id=name)
            await reaches(app, name, RunState.SUCCEEDED)
    gates = {name: Gate() for name in names}
    for name, gate in gates.items():
        target.plan(f"undo {name}", gate)
    target.requests.clear()
    async with app_of(db) as app:
        for number in range(3):  # a queue that is full of others, which were there before
            await app.start(mails, f"behind {number}", id=f"behind {number}")
        if paused:
            await app.queues.pause("mail", by="ann", reason="what it sends is wrong")
        assert len(await app.bulk("compensate", Selection(state="succeeded"), **ANN)) == 4
        async with app.worker():
            for count in range(1, 5):
                await until(lambda: len(target.requests) == count, "the next one")  # noqa: B023 - asked within the turn
                assert [(one.name, one.owned) for one in await app.queues.list()] == [("mail", 1)]
                assert len(target.requests) == count
                assert all(name.startswith("undo") for name in target.requests)
                for gate in gates.values():
                    if gate.reached.is_set():
                        gate.opened.set()
            await asyncio.gather(*(reaches(app, name, RunState.COMPENSATED) for name in names))
            if paused:
                assert len(target.requests) == 4
                await app.queues.resume("mail", by="ann", reason="it is mended")
            await asyncio.gather(*(reaches(app, f"behind {number}", RunState.SUCCEEDED) for number in range(3)))
    assert sorted(target.objects) == sorted([*names, *(f"undo {n}" for n in names), *(f"behind {n}" for n in range(3))])


def test_what_can_happen_to_a_job_is_in_the_table():
    for state in BulkState:
        for event in BulkEvent:
            if not BULK.allows(state, event):
                with pytest.raises(IllegalTransition):
                    BULK.after(state, event)
    assert BULK.after(BulkState.PAUSED, BulkEvent.RESUME) is BulkState.RUNNING
    assert not BULK.allows(BulkState.PAUSED, BulkEvent.FINISH), "what is paused is left as it is"
