"""A budget that is spent without an error in hand: the run is held, its operation failed, and both say why."""

import pytest

from fencepost import Absent, Call, Found, Retry, Run, effect, workflow
from fencepost.core.states import OperationState, RunState
from tests.runtime.stage import Gate, expire, hold, operation, played, reaches, working

gate: Gate


async def find(call: Call, name: str) -> Found[str] | Absent:
    return Absent()


@effect(reconcile=find, settle="1ms", attempt_timeout="50ms", retry=Retry(attempts=1, within="15m"))
async def only_once(call: Call, name: str) -> str:
    gate.reached.set()
    await gate.opened.wait()
    return name


@workflow()
async def one(run: Run, name: str) -> str:
    return await run.do(only_once(name))


@pytest.fixture(autouse=True)
def closed_gate() -> None:
    global gate  # noqa: PLW0603 - the body is declared once, the gate is of one loop
    gate = Gate()


@played
async def test_an_heir_that_may_not_try_again_says_so(db):
    async with working(db, one) as stale:
        await stale.start(one, "a", id="r")
        await gate.reached.wait()
        expire(stale)
        async with working(db, one) as heir:
            await reaches(heir, "r", RunState.HELD)
            assert (await hold(heir, "r"))["reason"] == "budget spent"
            spent = await operation(heir, "r", "only_once")
            assert spent.state is OperationState.FAILED
            assert "budget" in (spent.error or "")
        gate.opened.set()
