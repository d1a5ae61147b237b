"""Runs that wait cost rows: no place in a worker, no lease of their own, no thread; and every one of them goes on."""

import asyncio
import threading
from datetime import timedelta

from fencepost.core.approval import Approval
from fencepost.core.states import LeaseState, RunState
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from tests.runtime.stage import keyed, once, played, target, until, working

WAITING = 500


@workflow()
async def waits_for(run: Run, what: str) -> str:
    if what == "a signal":
        return await run.wait("go", str)
    if what == "an approval":
        await run.wait("go", Approval, allows=once("a"))
    if what == "the time":
        await run.sleep(timedelta(days=300))
    if what == "a run":
        return await run.child(waits_for, "a signal", id=f"child of {run.id}")
    return "done"


@workflow()
async def busy(run: Run) -> str:
    return await run.do(keyed("beside them"))


def threads():
    """Those that are there, without asyncio's pool, which has a bound of its own."""
    return {one for one in threading.enumerate() if not one.name.startswith("asyncio_")}


@played
async def test_five_hundred_waits_are_five_hundred_rows_and_nothing_else(db):
    kinds = ["a signal", "an approval", "the time", "a run"]
    async with working(db, waits_for, busy) as app:
        assert await (await app.start(busy, id="first")).result() == "made beside them"
        before, leases = threads(), app.store.leases()
        for start in range(0, WAITING, 50):
            await asyncio.gather(*(app.start(waits_for, kinds[no % 4], id=f"w{no}") for no in range(start, start + 50)))
        children = WAITING // 4

        async def all_wait():
            return len(await app.runs(state=RunState.WAITING, limit=1_000)) == WAITING + children

        await until(all_wait, "all of them to wait")
        (worker,) = app._workers
        await until(lambda: not worker._lives, "the worker to have left them")
        assert [one.lease for one in await app.runs(state=RunState.WAITING, limit=1_000) if one.lease] == []
        assert [one.id for one in app.store.leases()] == [one.id for one in leases]
        assert [one.state for one in app.store.leases()] == [LeaseState.LIVE]
        begun = [one.name for one in threads() - before]
        assert begun in ([], ["fencepost-journal"]), "the journal's one writer begins when it is needed"
        await app.signal("w0", "go", "on")
        assert await (await app.handle("w0")).result(within="20s") == "on"
    assert target.requests == ["beside them"]
