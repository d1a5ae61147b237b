"""C29: a result, an argument, an error's message or a signal that is larger than what the ledger keeps."""

import json

import pytest

from fencepost.core.errors import ValueRefused
from fencepost.core.states import RunState
from fencepost.effects.call import Call
from fencepost.effects.declare import effect
from fencepost.effects.promises import Stands
from fencepost.effects.values import MIB, VALUE_MAX
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from tests.runtime.stage import QUICK, KeyHeader, hold, keyed, operation, played, reaches, target, working

TOO_BIG = "x" * (VALUE_MAX + 1)


@effect(send_key=KeyHeader("Idempotency-Key", window="15m"), retry=QUICK, compensate=Stands("it is meant to stay"))
async def returns_much(call: Call, name: str) -> str:
    await target.take(call, name, honours_keys=True)
    return TOO_BIG


@effect(on_unknown="hold", retry=QUICK, compensate=Stands("it is meant to stay"))
async def complains_at_length(call: Call, name: str) -> str:
    await target.take(call, name)
    raise RuntimeError(TOO_BIG)


@workflow()
async def big_result(run: Run) -> str:
    return await run.do(returns_much("a"))


@workflow()
async def big_argument(run: Run) -> str:
    return await run.do(keyed(TOO_BIG))


@workflow()
async def big_error(run: Run) -> str:
    return await run.do(complains_at_length("a"))


@workflow()
async def waiting(run: Run) -> str:
    return await run.wait("word", str)


@played
async def test_a_result_too_big_to_keep_holds_the_run_and_is_not_fetched_again(db):
    async with working(db, big_result) as app:
        handle = await app.start(big_result, id="r")
        await reaches(app, "r", RunState.HELD)
        held = await hold(app, "r")
        assert (held["reason"], held["step"]) == ("result missing", "returns_much")
        assert f"{VALUE_MAX + 3}" in held["detail"]
        assert f"{VALUE_MAX}" in held["detail"]
        done = await operation(app, "r", "returns_much")
        assert (done.state, len(done.attempts)) == ("succeeded", 1)
        assert (target.requests, target.objects) == (["a"], ["a"])
        await app.settle("r", step="returns_much", happened=True, result='"short"', by="ann", reason="read it there")
        assert await handle.result(within="20s") == "short"
        assert target.requests == ["a"]


@played
async def test_an_argument_too_big_to_keep_is_refused_before_anything_is_sent(db):
    async with working(db, big_argument) as app:
        await app.start(big_argument, id="r")
        await reaches(app, "r", RunState.HELD)
        held = await hold(app, "r")
        assert held["reason"] == "ValueRefused"
        assert f"{VALUE_MAX}" in held["detail"]
        assert target.requests == []


@played
async def test_a_message_too_long_to_keep_is_cut_and_changes_nothing_else(db):
    async with working(db, big_error) as app:
        await app.start(big_error, id="r")
        await reaches(app, "r", RunState.HELD)
        kept = json.loads((await operation(app, "r", "complains_at_length")).error)
        assert kept["class"] == "RuntimeError"
        assert 0 < len(kept["message"]) < MIB
        assert (target.requests, target.objects) == (["a"], ["a"])


@played
async def test_a_signal_too_big_to_keep_is_refused_to_its_sender(db):
    async with working(db, waiting) as app:
        handle = await app.start(waiting, id="r")
        with pytest.raises(ValueRefused, match=str(MIB)):
            await app.signal("r", "word", TOO_BIG, id="s1")
        await app.signal("r", "word", "short", id="s2")
        assert await handle.result(within="20s") == "short"
