"""C30: the provider forgets the key before the retry comes."""

import pytest

from fencepost.core.contract import Retry
from fencepost.core.duration import MINUTE
from fencepost.core.errors import DeclarationError
from fencepost.core.states import RunState
from fencepost.effects.answers import Absent, Found
from fencepost.effects.call import Call
from fencepost.effects.declare import effect
from fencepost.effects.promises import KeyHeader, Stands
from fencepost.runtime.app import App
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from tests.runtime.stage import Clock, hold, played, reaches, target, working

QUARTER = KeyHeader("Idempotency-Key", window="15m")
SLOWLY = Retry(attempts=3, within=10 * MINUTE, first_delay=5 * MINUTE)


@effect(send_key=QUARTER, retry=SLOWLY, compensate=Stands("it is meant to stay"))
async def capture(call: Call, name: str) -> str:
    return await target.take(call, name, honours_keys=True)


async def find(call: Call, name: str) -> Found[str] | Absent:
    return target.look(name)


@effect(send_key=QUARTER, reconcile=find, settle="1s", retry=SLOWLY, compensate=Stands("it is meant to stay"))
async def capture_and_look(call: Call, name: str) -> str:
    return await target.take(call, name, honours_keys=True)


@effect(send_key=QUARTER, retry=Retry(attempts=9, within=20 * MINUTE), compensate=Stands("it is meant to stay"))
async def too_patient(call: Call, name: str) -> str:
    return await target.take(call, name, honours_keys=True)


@workflow()
async def captures(run: Run) -> str:
    return await run.do(capture("a"))


@workflow()
async def captures_and_looks(run: Run) -> str:
    return await run.do(capture_and_look("a"))


@workflow()
async def captures_patiently(run: Run) -> str:
    return await run.do(too_patient("a"))


@played
async def test_a_key_that_may_be_forgotten_is_not_sent_again_and_a_person_is_asked(db):
    clock = Clock()
    target.plan("a", "lose")
    async with working(db, captures, clock=clock) as app:
        await app.start(captures, id="r")
        await reaches(app, "r", RunState.WAITING)
    clock.offset = 20 * MINUTE
    target.keys.clear()
    async with working(db, captures, clock=clock) as app:
        await reaches(app, "r", RunState.HELD)
        assert (await hold(app, "r"))["reason"] == "unknown outcome, and the key's promise has run out"
        assert (target.requests, target.objects) == (["a"], ["a"])


@played
async def test_inside_its_window_the_same_key_is_sent_again(db):
    clock = Clock()
    target.plan("a", "lose")
    async with working(db, captures, clock=clock) as app:
        await app.start(captures, id="r")
        await reaches(app, "r", RunState.WAITING)
    clock.offset = 6 * MINUTE
    async with working(db, captures, clock=clock) as app:
        assert await (await app.handle("r")).result(within="20s") == "made a"
        assert (target.requests, target.objects) == (["a", "a"], ["a"])


@played
async def test_where_it_can_be_asked_the_next_rung_is_taken(db):
    clock = Clock()
    target.plan("a", "lose")
    target.answers.append(RuntimeError("the look-up is out of order, as long as the key still holds"))
    async with working(db, captures_and_looks, clock=clock) as app:
        await app.start(captures_and_looks, id="r")
        await reaches(app, "r", RunState.WAITING)
    clock.offset = 20 * MINUTE
    target.keys.clear()
    async with working(db, captures_and_looks, clock=clock) as app:
        assert await (await app.handle("r")).result(within="20s") == "made a"
        assert (target.requests, target.objects) == (["a"], ["a"])
        assert target.looked == 2


@played
async def test_a_retry_window_beyond_the_key_s_is_refused_at_the_start(db):
    async with App(db, workflows=[captures_patiently]) as app:
        with pytest.raises(DeclarationError, match="retry window beyond key window"):
            await app.start(captures_patiently, id="r")
        assert target.requests == []
