"""Things side by side: gathers, races, sleeps and time limits, while effects are in flight and across lives."""

import asyncio

import pytest

from fencepost.core.errors import RunFailed, RunHeld, StepFailed, WaitExpired
from fencepost.core.states import OperationState, RunState, SignalState, StepState
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from tests.runtime.stage import (
    Gate,
    asked,
    expire,
    keyed,
    once,
    operation,
    played,
    reaches,
    target,
    until,
    working,
)  # fmt: skip


@workflow()
async def gathering(run: Run) -> list[str]:
    return list(await run.gather(*(run.do(keyed(name), item=name) for name in "abc")))


@workflow()
async def timing_out(run: Run) -> str:
    first, value = await run.race(run.do(once("slow")), run.sleep("50ms"))
    return await run.do(keyed("after")) if first == 1 else str(value)


@workflow()
async def limited(run: Run) -> str:
    async def answer() -> str:
        try:
            return await run.wait("word", str, within="50ms")
        except WaitExpired:
            return "nobody"

    said, _ = await run.gather(answer(), run.do(once("slow")))
    return said


@workflow()
async def approving(run: Run) -> list[str]:
    async def with_approval() -> str:
        answers = [await run.wait(f"question {number}", str) for number in range(5)]
        return await run.do(once(f"b {'-'.join(answers)}"))

    return list(await run.gather(run.do(keyed("a")), with_approval()))


@played
async def test_a_gather_does_its_branches_once_each_and_returns_in_their_order(db):
    gates = {name: Gate() for name in "abc"}
    for name, gate in gates.items():
        target.plan(name, gate)
    async with working(db, gathering) as app:
        handle = await app.start(gathering, id="r")
        for name in "cab":
            await gates[name].reached.wait()
        for name in "cab":
            gates[name].opened.set()
            await asyncio.sleep(0)
        assert await handle.result() == ["made a", "made b", "made c"]
    assert sorted(target.requests) == ["a", "b", "c"]


@played
async def test_a_gather_settles_every_branch_before_it_raises_the_first_error(db):
    gate = Gate()
    target.plan("a", "refuse")
    target.plan("b", gate)
    target.plan("c", "refuse")
    seen = []

    @workflow(name="catching")
    async def catching(run: Run) -> None:
        try:
            await run.gather(*(run.do(keyed(name), item=name) for name in "abc"))
        except StepFailed as error:
            seen.append((error.ids["step"], [other.ids["step"] for other in error.others]))
            raise

    async with working(db, catching) as app:
        handle = await app.start(catching, id="r")
        await gate.reached.wait()
        assert await handle.state() is RunState.RUNNING
        gate.opened.set()
        with pytest.raises(RunFailed):
            await handle.result()
        assert (await operation(app, "r", "keyed", "b")).state is OperationState.SUCCEEDED
    assert seen == [("keyed[a]", ["keyed[c]"])]


@played
async def test_a_sleep_wins_a_race_against_an_effect_that_is_in_flight(db):
    gate, after = Gate(), Gate()
    target.plan("slow", gate)
    target.plan("after", after)
    async with working(db, timing_out) as app:
        handle = await app.start(timing_out, id="r")
        await gate.reached.wait()
        await asyncio.wait_for(after.reached.wait(), 10)
        after.opened.set()
        gate.opened.set()
        assert await handle.result() == "made after"
        assert (await operation(app, "r", "once")).state is OperationState.SUCCEEDED
    assert target.requests == ["slow", "after"]


@played
async def test_a_run_does_not_end_before_its_races_loser_is_known(db):
    gate = Gate()
    target.plan("slow", gate)
    async with working(db, timing_out) as app:
        handle = await app.start(timing_out, id="r")

        async def went_on():
            return "after" in target.requests

        await until(went_on, "the run to go on")
        with pytest.raises(TimeoutError):
            await handle.result(within="200ms")
        gate.opened.set()
        assert await handle.result() == "made after"


@played
async def test_a_races_loser_that_turns_out_unknown_holds_the_run_at_its_end(db):
    target.plan("slow", "lose")
    gate = Gate()
    target.plan("after", gate)

    @workflow(name="losing")
    async def losing(run: Run) -> str:
        await run.race(run.do(once("slow")), run.wait("go", str))
        return "done"

    lost = Gate()
    target.script["slow"].clear()
    target.plan("slow", lost)
    async with working(db, losing) as app:
        await app.start(losing, id="r")
        await lost.reached.wait()
        expire(app)
        async with working(db, losing) as heir:
            await heir.signal("r", "go", "on")
            with pytest.raises(RunHeld):
                await (await heir.handle("r")).result()
            lost.opened.set()
            await reaches(heir, "r", RunState.SUCCEEDED)


@played
async def test_a_time_limit_is_kept_while_an_effect_is_in_flight(db):
    gate = Gate()
    target.plan("slow", gate)
    async with working(db, limited) as app:
        handle = await app.start(limited, id="r")
        await gate.reached.wait()

        async def expired():
            return [step.state for step in (await app.show("r")).steps] == [StepState.FAILED]

        gate.opened.set()
        assert await handle.result() == "nobody"
        assert await expired()


@played
async def test_a_finished_sibling_is_not_repeated_while_the_other_waits_for_people(db):
    async with working(db, approving) as app:
        await app.start(approving, id="r")
        await reaches(app, "r", RunState.WAITING)
    for number in range(5):
        async with working(db, approving) as app:
            await app.signal("r", f"question {number}", str(number))
            if number < 4:
                await reaches(app, "r", RunState.WAITING)
            else:
                assert await (await app.handle("r")).result() == ["made a", "made b 0-1-2-3-4"]
            assert len((await operation(app, "r", "keyed")).attempts) == 1
    assert target.requests == ["a", "b 0-1-2-3-4"]


@played
async def test_a_race_is_won_by_the_same_branch_in_every_life(db):
    @workflow(name="racing")
    async def racing(run: Run) -> str:
        first, value = await run.race(run.wait("x", str), run.wait("y", str))
        await run.wait("then", str)
        return f"{first} {value}"

    async with working(db, racing) as app:
        await app.start(racing, id="r")
        await reaches(app, "r", RunState.WAITING)
        await app.signal("r", "y", "why")

        async def won():
            return [step.name for step in (await app.show("r")).steps if step.state is StepState.DONE] == ["y"]

        await until(won, "the race")
        await app.signal("r", "then", "on")
        assert await (await app.handle("r")).result() == "1 why"


@played
async def test_two_looked_up_effects_side_by_side_are_each_settled_once(db):
    target.plan("a", "lose")
    target.plan("b", "drop")

    @workflow(name="both")
    async def both(run: Run) -> list[str]:
        return list(await run.gather(run.do(asked("a"), item="a"), run.do(asked("b"), item="b")))

    async with working(db, both) as app:
        assert await (await app.start(both, id="r")).result() == ["made a", "made b"]
    assert sorted(target.objects) == ["a", "b"]
    assert sorted(target.requests) == ["a", "b", "b"]


# -- what is known waits for nobody -----------------------------------------------------------------------------------


@workflow()
async def beside_a_slow_one(run: Run) -> list[str]:
    return list(await run.gather(run.do(asked("quick")), run.do(once("slow"))))


@workflow()
async def heard_beside_a_slow_one(run: Run) -> list[str]:
    return list(await run.gather(run.wait("word", str), run.do(once("slow"))))


@workflow()
async def asks_beside_a_slow_one(run: Run) -> list[str]:
    async def then_waits() -> str:
        return await run.do(asked("quick")) + await run.wait("word", str)

    return list(await run.gather(then_waits(), run.do(once("slow"))))


@played
async def test_a_result_is_in_the_ledger_while_a_branch_beside_it_is_in_flight(db):
    gate = Gate()
    target.plan("slow", gate)
    async with working(db, beside_a_slow_one) as app:
        handle = await app.start(beside_a_slow_one, id="r")
        await gate.reached.wait()

        async def known() -> bool:
            return (await operation(app, "r", "asked")).state is OperationState.SUCCEEDED

        await until(known, "the quick one's result to be in the ledger")
        assert (await operation(app, "r", "once")).state is OperationState.DISPATCHED
        gate.opened.set()
        assert await handle.result() == ["made quick", "made slow"]


@played
async def test_a_signal_that_was_taken_is_written_down_while_a_branch_beside_it_is_in_flight(db):
    gate = Gate()
    target.plan("slow", gate)
    async with working(db, heard_beside_a_slow_one) as app:
        handle = await app.start(heard_beside_a_slow_one, id="r")
        await gate.reached.wait()
        await app.signal("r", "word", "hello", id="s")

        async def applied() -> bool:
            (signal,) = (await app.show("r")).signals
            return signal.state is SignalState.APPLIED

        await until(applied, "the signal to be applied in the ledger")
        gate.opened.set()
        assert await handle.result() == ["hello", "made slow"]


@played
async def test_what_is_waited_for_is_a_row_while_a_branch_beside_it_is_in_flight(db):
    gate = Gate()
    target.plan("slow", gate)
    async with working(db, asks_beside_a_slow_one) as app:
        handle = await app.start(asks_beside_a_slow_one, id="r")
        await gate.reached.wait()

        async def is_open() -> bool:
            return any(step.kind == "wait" and step.state is StepState.OPEN for step in (await app.show("r")).steps)

        await until(is_open, "the wait to be in the ledger")
        gate.opened.set()
        await app.signal("r", "word", "hello", id="s")
        assert await handle.result() == ["made quickhello", "made slow"]
