"""Two workers claim from one line at once while a person lets a run of it go on: one of them is at work at a time."""

import asyncio
import threading

import pytest

from fencepost.core.states import RunState
from fencepost.runtime.ledger import Ledger
from tests.runtime.stage import Gate, keyed, played, reaches, target, until
from tests.services.fixtures import Place


@pytest.fixture(autouse=True)
def outside() -> None:
    target.reset()


class Paused:
    """A probe that stops a claim between what it has read and what it writes."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.goes_on = threading.Event()

    def __call__(self, point: str) -> None:
        if point == "before:run:ready:claim":
            self.reached.set()
            assert self.goes_on.wait(20)


@played
async def test_a_run_that_is_resumed_while_a_later_one_is_claimed_is_not_at_work_beside_it(postgres: Place) -> None:
    place = postgres.url()
    target.plan("first", "refuse")
    async with Ledger(place, effects=[keyed]) as ledger:
        await ledger.work()
        await ledger.enqueue(keyed("first"), operation="first", resource="account")
        await reaches(ledger.app, "first", RunState.FAILED)

    gates = {name: Gate() for name in ("first", "second")}
    for name, gate in gates.items():
        target.plan(name, gate)
    paused, slow = Paused(), Ledger(place, effects=[keyed])
    slow.app.probe = paused
    async with Ledger(place, effects=[keyed]) as quick, slow:
        second = await quick.enqueue(keyed("second"), operation="second", resource="account")
        await slow.work()
        assert await asyncio.to_thread(paused.reached.wait, 20), "it has found the second to be the first in line"
        await quick.app.resume("first", by="ann", reason="the account is open again")
        await quick.work()
        other = await quick.enqueue(keyed("other"), operation="other", resource="another")
        assert await other.result(within="20s") == "made other", "another line is not kept up"
        paused.goes_on.set()
        await until(lambda: "second" in target.requests, "the second to be at work")
        assert target.requests == ["other", "second"]
        gates["second"].opened.set()
        assert await second.result(within="20s") == "made second"
        gates["first"].opened.set()
        assert await (await quick.app.handle("first")).result(within="20s") == "made first"
    assert target.objects == ["other", "second", "first"]
