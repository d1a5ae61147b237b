"""A target that learns tokens from writes alone lets an old writer in: it says so, and is treated as unfenced."""

import asyncio
from dataclasses import dataclass, field

import pytest

from fencepost import Absent, App, Fenced, FenceRefused, Found, Misuse, Run, SyncCall, Unresolved, effect, workflow
from fencepost.core.guarantee import Rung, ladder
from fencepost.core.states import OperationState
from fencepost.targets import LargestSeen
from tests.polling import until


@dataclass
class Service:
    """Refuses what is below the largest token that a write has brought."""

    largest: int = 0
    written: list[int] = field(default_factory=list)

    def write(self, token: int) -> None:
        if token < self.largest:
            raise FenceRefused("too low")
        self.largest = token
        self.written.append(token)


def test_it_cannot_be_told_a_token():
    fence = LargestSeen("the printer")

    assert fence.weakness is not None
    with pytest.raises(Misuse, match="the printer cannot be told a token"):
        fence.raise_to("printer:1", 2)


def test_an_old_writer_who_comes_first_is_let_in_and_the_effect_happens_twice():
    service = Service()

    # The new owner holds token 2, looks up, and finds nothing; then both write.
    assert service.written == []
    service.write(1)
    service.write(2)

    assert service.written == [1, 2]


def test_the_engine_waits_out_the_span_as_if_there_were_no_fence(tmp_path):
    async def find(call, page: str) -> Found[str] | Absent:
        return Absent()

    sent = []

    @effect(fence=Fenced(LargestSeen("printer"), "printer:1"), reconcile=find, consistent=True, settle="1h")
    def put(call: SyncCall, page: str) -> str:
        sent.append(call.token("printer:1"))
        raise Unresolved("no reply")

    @workflow(version=1)
    async def write_down(run: Run, page: str) -> str:
        return await run.do(put(page))

    async def until_asked():
        async with App(f"sqlite:///{tmp_path}/ledger.db", workflows=[write_down]) as app, app.worker():
            await app.start(write_down, "page", id="run-1")

            def asked():
                run = app.store.find("default", "run-1")
                (operation,) = app.store.load(run.no).operations or [None]
                return operation if operation is not None and operation.lookups else None

            return await asyncio.to_thread(until, asked, "the look-up to be in the ledger")

    operation = asyncio.run(until_asked())
    assert ladder(put.contract) == (Rung.LOOKED_UP, Rung.HELD)
    assert operation.state is OperationState.UNKNOWN
    assert sent == [1]
