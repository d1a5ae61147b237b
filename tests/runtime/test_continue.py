"""A run that continues as a new turn: one id, an empty history for each turn, no key and no effect used twice."""

import asyncio

import pytest

from fencepost.core.errors import RunCancelled, RunHeld, VerbRefused
from fencepost.core.states import RunState
from fencepost.runtime import verbs
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from tests.runtime.stage import Gate, expire, hold, keyed, once, played, reaches, target, until, verb, working


@workflow()
async def counting(run: Run, number: int, last: int) -> int:
    await run.do(keyed(f"turn {number}"))
    if number < last:
        return run.continue_as(number + 1, last)
    return number


@workflow()
async def idle(run: Run, number: int, last: int) -> int:
    run.uuid()
    return number if number == last else run.continue_as(number + 1, last=last)


@workflow()
async def collecting(run: Run, got: list[str]) -> list[str]:
    """Each turn takes one signal."""
    got = [*got, await run.wait("item", str, many=True)]
    return got if len(got) == 3 else run.continue_as(got)


@workflow()
async def unknown_then_on(run: Run, number: int) -> int:
    async def lost() -> str:
        return await run.do(once("lost"))

    async def enough() -> str:
        return await run.wait("enough", str)

    if number == 0:
        await run.race(lost(), enough())
        return run.continue_as(1)
    return number


@workflow()
async def wrong(run: Run, number: int) -> int:
    return run.continue_as("not a number", 7)


@workflow()
async def drawing(run: Run, seen: list[str]) -> list[str]:
    seen = [*seen, str(run.uuid())]
    return seen if len(seen) == 3 else run.continue_as(seen)


@workflow()
async def parent_of_turns(run: Run) -> int:
    return await run.child(counting, 0, 2, id="child")


@played
async def test_each_turn_has_a_history_of_its_own_and_the_run_one_result(db: str) -> None:
    async with working(db, counting) as app:
        handle = await app.start(counting, 0, 3, id="run")
        assert await handle.result(within="20s") == 3
        history = await app.show("run")
        assert (history.run.turn, history.run.state) == (3, RunState.SUCCEEDED)
        assert [one.request for one in history.operations] == ['{"name":"turn 3"}']
        assert [run.id for run in await app.runs()] == ["run"]
        earlier = app.store.turn("default", "run", 1)
        assert earlier is not None
        assert earlier.state is RunState.CONTINUED
        keys = {app.store.load(app.store.turn("default", "run", turn).no).operations[0].key for turn in range(4)}
        assert len(keys) == 4
        again = await app.start(counting, 0, 3, id="run")
        assert await again.result(within="20s") == 3
    assert target.objects == ["turn 0", "turn 1", "turn 2", "turn 3"]


@played
async def test_ten_thousand_turns_leave_the_last_ones_history_small(db: str) -> None:
    turns = 10_000 if db.startswith("sqlite") else 500  # a server costs a network's time for each
    async with working(db, idle) as app:
        handle = await app.start(idle, 0, turns, id="run")
        assert await handle.result(within="100s") == turns
        history = await app.show("run")
        assert history.run.turn == turns
        assert (history.steps, history.operations, history.signals) == ([], [], [])


@played
async def test_signals_that_no_turn_has_taken_are_there_for_the_next_one_and_each_counts_once(db: str) -> None:
    async with working(db, collecting) as app:
        handle = await app.start(collecting, [], id="run")
        for name in ("a", "b", "a", "c"):
            await app.signal("run", "item", name, id=name)
        assert await handle.result(within="20s") == ["a", "b", "c"]


@played
async def test_a_turn_does_not_end_while_something_of_it_is_unknown(db: str) -> None:
    gate = Gate()
    target.plan("lost", gate)
    async with working(db, unknown_then_on) as app:
        handle = await app.start(unknown_then_on, 0, id="run")
        await gate.reached.wait()
        expire(app)
        await app.signal("run", "enough", "yes")
        async with working(db, unknown_then_on) as heir:
            await reaches(heir, "run", RunState.HELD)
            assert (await heir.show("run")).run.turn == 0
            await verb(heir, verbs.settle, "run", step="once", happened=False, override=True)
            assert (await (await heir.handle("run")).result(within="20s")) == 1
        gate.opened.set()
    del handle


@played
async def test_arguments_that_the_workflow_does_not_take_hold_the_run(db: str) -> None:
    async with working(db, wrong) as app:
        with pytest.raises(RunHeld, match="result refused"):
            await (await app.start(wrong, 0, id="run")).result(within="20s")
        assert (await hold(app, "run"))["reason"] == "result refused"


@played
async def test_no_two_turns_draw_the_same(db: str) -> None:
    async with working(db, drawing) as app:
        drawn = await (await app.start(drawing, [], id="run")).result(within="20s")
    assert len(set(drawn)) == 3


@played
async def test_a_child_that_continues_answers_its_parent_once_at_its_end(db: str) -> None:
    async with working(db, counting, parent_of_turns) as app:
        handle = await app.start(parent_of_turns, id="parent")
        assert await handle.result(within="20s") == 2
    assert target.objects == ["turn 0", "turn 1", "turn 2"]


@played
async def test_a_cancel_meets_the_turn_that_is_under_way(db: str) -> None:
    gate = Gate()
    target.plan("turn 1", gate)
    async with working(db, counting) as app:
        handle = await app.start(counting, 0, 5, id="run")
        await gate.reached.wait()
        await verb(app, verbs.cancel, "run")
        gate.opened.set()
        with pytest.raises(RunCancelled):
            await handle.result(within="20s")
        assert (await app.show("run")).run.turn == 1
    assert target.objects == ["turn 0", "turn 1"]


@played
async def test_whoever_takes_a_turn_over_repeats_nothing_of_the_earlier_ones(db: str) -> None:
    gate = Gate()
    target.plan("turn 1", gate)
    async with working(db, counting) as lost:
        await lost.start(counting, 0, 2, id="run")
        await gate.reached.wait()
        expire(lost)
        async with working(db, counting) as heir:
            assert await (await heir.handle("run")).result(within="20s") == 2
        gate.opened.set()
    await until(lambda: len(target.objects) >= 3, "the late request to land")
    assert sorted(target.objects) == ["turn 0", "turn 1", "turn 2"]


@played
async def test_only_the_last_turn_is_reopened_and_none_that_has_gone_on(db: str) -> None:
    async with working(db, counting) as app:
        handle = await app.start(counting, 0, 2, id="run")
        assert await handle.result(within="20s") == 2
        earlier = app.store.turn("default", "run", 1)
        assert earlier.state is RunState.CONTINUED
        for of_turns in (verbs.reopen, verbs.resume, verbs.compensate, verbs.terminate, verbs.cancel):
            with pytest.raises(VerbRefused):
                await asyncio.to_thread(of_turns, app, earlier, by="ada", reason="once more")
        assert (await app.reopen("run", by="ada", reason="once more")).turn == 2
        assert await (await app.handle("run")).result(within="20s") == 2
        assert not (await app.check()).found
    assert target.objects == ["turn 0", "turn 1", "turn 2"]
