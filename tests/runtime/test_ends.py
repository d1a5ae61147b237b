"""A run waits for the end of another one that is no child of it: before, after, in the same moment, or never."""

import asyncio

import pytest

from fencepost import App, RunFailed, RunNotFound, WaitExpired
from fencepost.core.errors import RunHeld
from fencepost.core.states import RunState
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from tests.runtime.stage import Clock, Gate, once, played, reaches, target, until, working

MINUTE = 60_000_000


@workflow()
async def other(run: Run, name: str) -> dict[str, str]:
    made = await run.do(once(name))
    if name == "bad":
        raise ValueError("it went badly")
    return {"made": made}


@workflow()
async def paging(run: Run, page: int) -> int:
    word = await run.wait(f"page {page}", str)
    return run.continue_as(page + 1) if word == "more" else page


@workflow()
async def waiting(run: Run, id: str) -> str:
    try:
        ended = await run.ended(id, within="1h")
    except RunNotFound as unknown:
        return unknown.message
    except WaitExpired:
        return "too long"
    return f"{ended.id} {ended.state}: {ended.result} {ended.error}"


@workflow()
async def waiting_twice(run: Run, id: str) -> list[str]:
    return [(await run.ended(id)).state.value for _ in range(2)]


@workflow()
async def waiting_beside(run: Run, id: str) -> str:
    ended, made = await run.gather(run.ended(id), run.do(once("beside")))
    return f"{ended.state}, {made}"


@workflow()
async def waiting_for_itself(run: Run) -> str:
    return (await run.ended(run.id)).state.value


async def open_wait(app, run="w"):
    return [one for one in (await app.show(run)).steps if one.kind == "wait" and one.state == "open"]


@pytest.mark.parametrize("name", ["good", "bad"])
def test_an_end_wakes_whoever_waits_for_it(db, name):
    @played
    async def play() -> None:
        gate = Gate()
        target.plan(name, gate)
        async with working(db, other, waiting) as app:
            await app.start(other, name, id="o")
            handles = [await app.start(waiting, "o", id=f"w{number}") for number in range(3)]
            for number in range(3):
                await until(lambda number=number: open_wait(app, f"w{number}"), "the wait")
                await reaches(app, f"w{number}", RunState.WAITING)
            gate.opened.set()
            said = {await handle.result(within="20s") for handle in handles}
        ends = {
            "good": "o succeeded: {'made': 'made good'} None",
            "bad": "o failed: None ValueError: it went badly",
        }
        assert said == {ends[name]}

    play()


@played
async def test_an_end_that_was_before_the_wait_is_told_at_once(db):
    async with working(db, other, waiting, waiting_twice) as app:
        await (await app.start(other, "good", id="o")).result(within="20s")
        handle = await app.start(waiting, "o", id="w")
        assert await handle.result(within="20s") == "o succeeded: {'made': 'made good'} None"
        twice = await app.start(waiting_twice, "o", id="w2")
        assert await twice.result(within="20s") == ["succeeded", "succeeded"]
        assert (await app.check()).found == []


@played
async def test_a_run_that_is_held_has_not_ended_and_one_that_a_person_ends_has(db):
    target.plan("good", "lose")
    async with working(db, other, waiting) as app:
        await app.start(other, "good", id="o")
        handle = await app.start(waiting, "o", id="w")
        await reaches(app, "o", RunState.HELD)
        await until(lambda: open_wait(app), "the wait")
        await reaches(app, "w", RunState.WAITING)
        await app.terminate("o", by="ann", reason="enough")
        assert await handle.result(within="20s") == "o terminated: None None"


@played
async def test_an_id_that_no_run_has_is_named(db):
    async with working(db, waiting) as app:
        handle = await app.start(waiting, "nobody", id="w")
        assert await handle.result(within="20s") == "no run has the id 'nobody'"


@played
async def test_a_wait_for_an_end_runs_out_like_any_other(db):
    clock = Clock()
    async with working(db, waiting, paging, clock=clock) as app:
        await app.start(paging, 1, id="o")
        handle = await app.start(waiting, "o", id="w")
        await until(lambda: open_wait(app), "the wait")
        await reaches(app, "w", RunState.WAITING)
        clock.offset += 61 * MINUTE
        app._wake()
        assert await handle.result(within="20s") == "too long"


@played
async def test_a_run_in_turns_ends_with_its_last_turn(db):
    async with working(db, waiting, paging) as app:
        await app.start(paging, 1, id="o")
        handle = await app.start(waiting, "o", id="w")
        await until(lambda: open_wait(app), "the wait")
        await app.signal("o", "page 1", "more")
        await until(lambda: _is_at_turn(app, 1), "the next turn")
        await reaches(app, "w", RunState.WAITING)
        await app.signal("o", "page 2", "enough")
        assert await handle.result(within="20s") == "o succeeded: 2 None"


async def _is_at_turn(app, turn):
    return (await app.show("o")).run.turn == turn


@played
async def test_an_end_is_heard_by_a_run_that_is_kept_in_memory_by_something_else(db):
    gate, beside = Gate(), Gate()
    target.plan("good", gate)
    target.plan("beside", beside)
    async with working(db, other, waiting_beside) as app:
        await app.start(other, "good", id="o")
        handle = await app.start(waiting_beside, "o", id="w")
        await until(lambda: open_wait(app), "the wait")
        await beside.reached.wait()
        gate.opened.set()
        await until(lambda: _told(app), "the end to be heard while the effect is on its way")
        beside.opened.set()
        assert await handle.result(within="20s") == "succeeded, made beside"
    assert sorted(target.requests) == ["beside", "good"]


async def _told(app):
    return (await app.show("w")).signals


@played
async def test_a_run_does_not_wait_for_itself(db):
    async with working(db, waiting_for_itself) as app:
        handle = await app.start(waiting_for_itself, id="w")
        with pytest.raises((RunFailed, RunHeld), match="its own end"):
            await handle.result(within="20s")


@played
async def test_ends_and_waits_that_meet_in_the_same_moment_lose_nobody(db):
    """Two apps on one ledger: many runs end while as many begin to wait for them."""
    async with working(db, other, waiting) as one, App(db, workflows=[other, waiting]) as two, two.worker():
        for number in range(20):
            first, second = (one, two) if number % 2 else (two, one)
            await asyncio.gather(
                first.start(other, f"n{number}", id=f"o{number}"), second.start(waiting, f"o{number}", id=f"w{number}")
            )
        for number in range(20):
            said = await (await one.handle(f"w{number}")).result(within="20s")
            assert said in (f"o{number} succeeded: {{'made': 'made n{number}'}} None", f"no run has the id 'o{number}'")
        assert (await one.check()).found == []
