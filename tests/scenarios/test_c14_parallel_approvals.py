"""C14: two approvals wait side by side; whichever way they are answered, each answer reaches its own call."""

import random

import pytest

from fencepost.core.approval import Approval
from fencepost.core.errors import VerbRefused
from fencepost.core.states import RunState
from fencepost.runtime.app import App
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from tests.runtime.stage import keyed, once, played, reaches, target, until

INTERLEAVINGS = 100


@workflow()
async def side_by_side(run: Run, name: str) -> list[str]:
    async def asked(bound) -> str:
        answer = await run.wait("approve", Approval, allows=bound, within="1h")
        return await run.do(bound, approval=answer) if answer.approved else "rejected"

    return [*await run.gather(asked(once(f"pay 10 {name}")), asked(keyed(f"delete 5 {name}")))]


@played
async def test_the_approved_call_is_done_once_and_the_rejected_one_never_in_a_hundred_interleavings(db):
    """Both orders, and a restart of the worker between the answers, before both, or not at all."""
    draw = random.Random(14)
    async with App(db, workflows=[side_by_side]) as app:
        names = [f"r{number}" for number in range(INTERLEAVINGS)]
        for name in names:
            await app.start(side_by_side, name, id=name)
        async with app.worker():
            for name in names:
                await reaches(app, name, RunState.WAITING)
        answers = {name: [(once(f"pay 10 {name}"), True), (keyed(f"delete 5 {name}"), False)] for name in names}
        for both in answers.values():
            draw.shuffle(both)
        restarted = {name for name in names if draw.random() < 0.5}

        async def answer(name, place):
            bound, approved = answers[name][place]
            digest = bound.digest(name)
            return await app.approve(name, "approve", by="ann", approved=approved, digest=digest)

        first = {name: await answer(name, 0) for name in names}
        second = {name: await answer(name, 1) for name in names if name not in restarted}
        async with app.worker():
            await until(lambda: _applied(app, restarted), "the first answers to be applied")
        async with app.worker():
            second |= {name: await answer(name, 1) for name in restarted}
            for name in names:
                handle = await app.handle(name)
                assert await handle.result(within="20s") == [f"made pay 10 {name}", "rejected"]
        assert all(first[name].id != second[name].id for name in names)
    assert sorted(target.objects) == sorted(f"pay 10 {name}" for name in names)
    assert sorted(target.requests) == sorted(target.objects)


async def _applied(app, names):
    return all([any(one.state == "applied" for one in (await app.show(name)).signals) for name in names])


@played
async def test_an_answer_with_an_unknown_digest_is_rejected_with_a_reason(db):
    async with App(db, workflows=[side_by_side]) as app:
        await app.start(side_by_side, "r", id="r")
        async with app.worker():
            await reaches(app, "r", RunState.WAITING)
        digest = once("pay 11 r").digest("r")
        with pytest.raises(VerbRefused, match="what waits is not what was shown"):
            await app.approve("r", "approve", by="ann", digest=digest)
        with pytest.raises(VerbRefused, match="other call"):
            await app.signal("r", "approve", {"approved": True, "digest": digest}, sender="ann")
        rows = app.store.audits("default", "r")
        assert [(row.verb, row.outcome) for row in rows] == [("approve", "refused"), ("signal", "refused")]
    assert target.requests == []
