"""Code that changes under runs in flight, and law 4: one operation, one key, one request (C01, C06, C19).

Whatever the change, the run is held under a name before any further effect; it is never guessed what was meant.
"""

import asyncio

import pytest

from fencepost.core.errors import RunHeld
from fencepost.core.states import RunState
from fencepost.effects.call import Call
from fencepost.effects.declare import effect
from fencepost.effects.promises import KeyHeader
from fencepost.runtime import verbs
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from tests.runtime.stage import QUICK, hold, keyed, once, played, reaches, target, verb, working


def lives(*bodies, name="flow", version=1):
    """One workflow of one name and version, in as many forms of its code as there are bodies."""
    return [workflow(name=name, version=version)(body) for body in bodies]


async def do(run: Run, name: str) -> str:
    return await run.do(keyed(name), item=name)


async def as_it_was(run: Run) -> str:
    await do(run, "a")
    await do(run, "b")
    await run.wait("go", str)
    return await do(run, "c")


async def removed(run: Run) -> str:
    await do(run, "a")
    await run.wait("go", str)
    return await do(run, "c")


async def inserted(run: Run) -> str:
    await do(run, "a")
    await do(run, "new")
    await do(run, "b")
    await run.wait("go", str)
    return await do(run, "c")


async def inserted_last(run: Run) -> str:
    await do(run, "a")
    await do(run, "b")
    await do(run, "new")
    await run.wait("go", str)
    return await do(run, "c")


async def renamed(run: Run) -> str:
    await do(run, "a")
    await run.do(once("b"), item="b")
    await run.wait("go", str)
    return await do(run, "c")


async def reordered(run: Run) -> str:
    await do(run, "b")
    await do(run, "a")
    await run.wait("go", str)
    return await do(run, "c")


async def with_other_arguments(run: Run) -> str:
    await do(run, "a")
    await run.do(keyed("b, as of now"), item="b")
    await run.wait("go", str)
    return await do(run, "c")


async def with_another_wait(run: Run) -> str:
    await do(run, "a")
    await do(run, "b")
    await run.wait("walk", str)
    return await do(run, "c")


async def cut_short(run: Run) -> str:
    return await do(run, "a")


CHANGED = [
    removed, inserted, inserted_last, renamed, reordered, with_other_arguments, with_another_wait, cut_short,
]  # fmt: skip


@pytest.mark.parametrize("now", CHANGED)
def test_code_that_was_changed_under_a_run_holds_it_before_any_further_effect(db, now):
    before, after, again = lives(as_it_was, now, as_it_was)

    async def play() -> None:
        async with working(db, before) as app:
            await app.start(before, id="r")
            await reaches(app, "r", RunState.WAITING)
        async with working(db, after) as app:
            await app.signal("r", "go", "on")
            with pytest.raises(RunHeld, match="HistoryMismatch"):
                await (await app.handle("r")).result()
            told = await hold(app, "r")
            assert told["detail"]
            assert target.requests == ["a", "b"]
        async with working(db, again) as app:
            await verb(app, verbs.resume, "r")
            assert await (await app.handle("r")).result() == "made c"

    asyncio.run(play())
    assert target.requests == target.objects == ["a", "b", "c"]


@played
async def test_new_runs_use_the_new_version_and_old_ones_keep_theirs(db):
    (old,), (new,) = lives(as_it_was), lives(cut_short, version=2)
    async with working(db, old) as app:
        await app.start(old, id="old")
        await reaches(app, "old", RunState.WAITING)
    async with working(db, old, new) as app:
        await (await app.start(new, id="new")).result()
        await app.signal("old", "go", "on")
        assert await (await app.handle("old")).result() == "made c"
    assert target.requests == ["a", "b", "a", "c"]


@played
async def test_a_worker_without_the_version_of_a_run_leaves_it_alone(db):
    (old,), (new,) = lives(as_it_was), lives(as_it_was, version=2)
    async with working(db, old) as app:
        await app.start(old, id="r")
        await reaches(app, "r", RunState.WAITING)
    async with working(db, new) as app:
        await app.signal("r", "go", "on")
        await asyncio.sleep(0.3)
        assert (await app.show("r")).run.state is RunState.WAITING
    assert target.requests == ["a", "b"]


@played
async def test_a_step_whose_code_is_gone_while_it_is_unknown_is_not_taken_for_another(db):
    async def sending(run: Run) -> str:
        return await run.do(once("a"))

    async def sending_another(run: Run) -> str:
        return await run.do(keyed("b"))

    before, after = lives(sending, sending_another)
    target.plan("a", "lose")
    async with working(db, before) as app:
        await app.start(before, id="r")
        await reaches(app, "r", RunState.HELD)
    async with working(db, after) as app:
        await verb(app, verbs.resume, "r")
        await reaches(app, "r", RunState.HELD)
        assert (await hold(app, "r"))["reason"] == "HistoryMismatch"
    assert target.requests == ["a"]


@played
async def test_another_contract_version_of_an_unknown_effect_is_refused_before_sending(db):
    def charge(version):
        @effect(name="charge", version=version, send_key=KeyHeader("K", window="24h"), retry=QUICK)
        async def charge(call: Call, name: str) -> str:
            return await target.take(call, name, honours_keys=True)

        @workflow(name="charging")
        async def charging(run: Run) -> str:
            return await run.do(charge("a"))

        return charging

    target.plan("a", "lose", "lose", "lose")
    old, new = charge(1), charge(2)
    async with working(db, old) as app:
        await app.start(old, id="r")
        await reaches(app, "r", RunState.HELD)
    sent = len(target.requests)
    async with working(db, new) as app:
        await verb(app, verbs.resume, "r")
        await reaches(app, "r", RunState.HELD)
        assert "version" in (await hold(app, "r"))["detail"]
    assert len(target.requests) == sent


# -- law 4 ------------------------------------------------------------------------------------------------------------


@played
async def test_an_effect_asked_for_twice_without_an_item_holds_the_run_before_the_second(db):
    async def twice(run: Run) -> str:
        await run.do(keyed("a"))
        return await run.do(keyed("a"))

    (flow,) = lives(twice)
    async with working(db, flow) as app:
        with pytest.raises(RunHeld, match="RepeatedEffect"):
            await (await app.start(flow, id="r")).result()
    assert target.requests == ["a"]


@played
async def test_an_item_met_again_with_the_same_request_returns_the_recorded_result(db):
    async def agent(run: Run) -> list[str]:
        return [await run.do(keyed("refund 7"), item="7"), await run.do(keyed("refund 7"), item="7"),
                await run.do(keyed("refund 8"), item="8")]  # fmt: skip

    (flow,) = lives(agent)
    async with working(db, flow) as app:
        assert await (await app.start(flow, id="r")).result() == ["made refund 7", "made refund 7", "made refund 8"]
    assert target.requests == ["refund 7", "refund 8"]


@played
async def test_an_item_met_again_with_another_request_holds_the_run(db):
    async def agent(run: Run) -> None:
        await run.do(keyed("refund 7: 100.00"), item="7")
        await run.do(keyed("refund 7: 100"), item="7")

    (flow,) = lives(agent)
    async with working(db, flow) as app:
        with pytest.raises(RunHeld, match="RepeatedEffect"):
            await (await app.start(flow, id="r")).result()
    assert target.requests == ["refund 7: 100.00"]


@played
async def test_what_is_sent_again_is_the_stored_request_whatever_the_code_did_to_its_arguments(db):
    sent = []

    @effect(send_key=KeyHeader("K", window="24h"), retry=QUICK, name="post")
    async def post(call: Call, lines: list[str]) -> str:
        lines.append(f"attempt {call.attempt}")  # a body that spoils its own arguments
        sent.append(list(lines))
        if call.attempt == 1:
            raise OSError("lost")
        return "done"

    @workflow(name="posting")
    async def posting(run: Run) -> str:
        return await run.do(post(["x"]))

    async with working(db, posting) as app:
        await (await app.start(posting, id="r")).result()
    assert sent == [["x", "attempt 1"], ["x", "attempt 2"]]
