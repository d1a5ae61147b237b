"""An approval is one run's and one turn's: a child's is given to the child, and the next turn's call needs its own."""

import pytest

from fencepost.core.approval import Approval, Refusal, Right
from fencepost.core.errors import ApprovalRefused, VerbRefused
from fencepost.core.states import RunState, SignalState
from fencepost.effects.call import Call
from fencepost.effects.declare import read
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from tests.runtime.stage import once, played, reaches, target, until, working


@workflow()
async def paying_in_turns(run: Run, number: int) -> int:
    """The same call in each turn, for which the same name is waited."""
    call = once("rent")
    answer = await run.wait("ok", Approval, allows=call)
    await run.do(call, approval=answer)
    return number if number == 1 else run.continue_as(number + 1)


@workflow()
async def paying_when_told(run: Run, number: int) -> int:
    """The second turn opens its wait for the approval only after a signal."""
    call = once("rent")
    if number == 1:
        await run.wait("go", str)
    answer = await run.wait("ok", Approval, allows=call)
    await run.do(call, approval=answer)
    return number if number == 1 else run.continue_as(number + 1)


@workflow()
async def handing_on(run: Run, given: Approval | None) -> str:
    """The second turn brings the approval of the first."""
    if given is None:
        call = once("rent")
        answer = await run.wait("ok", Approval, allows=call)
        await run.do(call, approval=answer)
        return run.continue_as(answer)
    return await refusal_of(run, given)


@workflow()
async def child_that_asks(run: Run, given: Approval | None) -> str:
    if given is not None:
        return await refusal_of(run, given)
    call = once("rent")
    answer = await run.wait("ok", Approval, allows=call)
    return await run.do(call, approval=answer)


@workflow()
async def parent_that_waits(run: Run) -> str:
    return await run.child(child_that_asks, None, id="child")


@workflow()
async def parent_that_has_it(run: Run) -> str:
    answer = await run.wait("ok", Approval, allows=once("rent"))
    return await run.child(child_that_asks, answer, id="child")


async def refusal_of(run: Run, given: Approval) -> str:
    try:
        return await run.do(once("rent"), approval=given)
    except ApprovalRefused as refused:
        return refused.refusal


async def begun(app, run_id):
    return app.store.find("default", run_id) is not None


async def in_turn(app, number):
    """The run waits in this turn."""

    async def waits():
        run = (await app.show("run")).run
        return (run.turn, run.state) == (number, RunState.WAITING)

    await until(waits, f"turn {number} to wait")


@played
async def test_each_turn_needs_an_approval_of_its_own_for_the_same_call_by_the_same_person(db: str) -> None:
    async with working(db, paying_in_turns) as app:
        handle = await app.start(paying_in_turns, 0, id="run")
        await in_turn(app, 0)
        first = await app.approve("run", "ok", by="ann")
        await in_turn(app, 1)
        assert target.requests == ["rent"]
        with pytest.raises(VerbRefused, match="what waits is not what was shown"):
            await app.approve("run", "ok", by="bob", digest=once("rent").digest("run"))
        second = await app.approve("run", "ok", by="ann", digest=once("rent").digest("run", turn=1))
        assert second.id != first.id
        assert await handle.result(within="20s") == 1
    assert target.requests == ["rent", "rent"]


@played
async def test_a_late_answer_to_a_turn_that_is_over_is_refused_by_the_next_ones_wait(db: str) -> None:
    async with working(db, paying_when_told) as app:
        handle = await app.start(paying_when_told, 0, id="run")
        await in_turn(app, 0)
        await app.approve("run", "ok", by="ann")
        await in_turn(app, 1)
        late = await app.approve("run", "ok", by="bob", digest=once("rent").digest("run"))
        assert late.state is SignalState.KEPT
        await app.signal("run", "go", "on")

        async def refused():
            return SignalState.REFUSED in {one.state for one in (await app.show("run")).signals}

        await until(refused, "the late answer to be refused")
        assert target.requests == ["rent"]
        await app.approve("run", "ok", by="ann")
        assert await handle.result(within="20s") == 1


@played
async def test_a_turn_cannot_use_what_was_approved_in_the_one_before(db: str) -> None:
    async with working(db, handing_on) as app:
        handle = await app.start(handing_on, None, id="run")
        await in_turn(app, 0)
        await app.approve("run", "ok", by="ann")
        assert await handle.result(within="20s") == Refusal.NOT_OF_THIS_RUN
    assert target.requests == ["rent"]


@played
async def test_a_child_waits_for_an_approval_that_is_given_to_it(db: str) -> None:
    async with working(db, parent_that_waits, child_that_asks) as app:
        handle = await app.start(parent_that_waits, id="run")
        await until(lambda: begun(app, "child"), "the child to begin")
        await reaches(app, "child", RunState.WAITING)
        with pytest.raises(VerbRefused, match="nothing waits for an approval"):
            await app.approve("run", "ok", by="ann")
        await app.approve("child", "ok", by="ann")
        await handle.result(within="20s")
    assert target.requests == ["rent"]


@played
async def test_a_child_cannot_use_its_parents_approval(db: str) -> None:
    async with working(db, parent_that_has_it, child_that_asks) as app:
        handle = await app.start(parent_that_has_it, id="run")
        await reaches(app, "run", RunState.WAITING)
        await app.approve("run", "ok", by="ann")
        assert await handle.result(within="20s") == Refusal.NOT_OF_THIS_RUN
    assert target.requests == []


@read()
async def may(call: Call, right: Right) -> bool:
    asked.append((right.run, right.role, right.who))
    return right.who != "bob"


@workflow()
async def child_with_rights(run: Run) -> str:
    call = once("rent")
    return await run.do(call, approval=await run.wait("ok", Approval, allows=call, authorise=may))


@workflow()
async def parent_for_somebody(run: Run) -> str:
    return await run.child(child_with_rights, id="child")


asked: list[tuple[str, str, str]] = []


@pytest.mark.parametrize("principal", ["bob", "eva"])
@played
async def test_a_child_acts_for_whom_its_parent_acts_and_their_right_is_asked_for(db, principal):
    asked.clear()
    async with working(db, parent_for_somebody, child_with_rights) as app:
        await app.start(parent_for_somebody, id="r", on_behalf_of=principal)
        await until(lambda: begun(app, "child"), "the child to begin")
        await reaches(app, "child", RunState.WAITING)
        await app.approve("child", "ok", by="ann")
        await reaches(app, "r", RunState.FAILED if principal == "bob" else RunState.SUCCEEDED)
    assert asked == [("child", "approver", "ann"), ("child", "principal", principal)]
    assert target.requests == ([] if principal == "bob" else ["rent"])
