"""A target that learns tokens from writes alone lets an old writer in: it says so, and is treated as unfenced."""

import asyncio
from dataclasses import dataclass, field

import pytest

from fencepost import Absent, App, Fenced, FenceRefused, Found, Misuse, Run, SyncCall, Unresolved, effect, workflow
from fencepost.core.guarantee import Rung, ladder
from fencepost.targets import LargestSeen


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
    service, asked = Service(), asyncio.Event()

    async def find(call, page: str) -> Found[str] | Absent:
        asked.set()
        return Absent()

    @effect(fence=Fenced(LargestSeen("printer"), "printer:1"), reconcile=find, consistent=True, settle="1h")
    def put(call: SyncCall, page: str) -> str:
        if service.written or call.token("printer:1") != 1:
            raise AssertionError("sent again while the first may still come")
        raise Unresolved("no reply")

    @workflow(version=1)
    async def write_down(run: Run, page: str) -> str:
        return await run.do(put(page))

    async def a_moment():
        async with App(f"sqlite:///{tmp_path}/ledger.db", workflows=[write_down]) as app, app.worker():
            handle = await app.start(write_down, "page", id="run-1")
            await asyncio.wait_for(asked.wait(), 20)
            for _ in range(100):
                await asyncio.sleep(0)
            run = app.store.find("default", handle.id)
            return app.store.load(run.no).operations[0]

    operation = asyncio.run(a_moment())
    assert ladder(put.contract) == (Rung.LOOKED_UP, Rung.HELD)
    assert len(operation.attempts) == 1
    assert operation.state == "unknown"
