"""A signal for a run in flight is loaded from a server on a thread; what the run does meanwhile is not forgotten."""

import asyncio
import threading
from typing import Any

from fencepost.core.states import RunState
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from tests.runtime.stage import Gate, keyed, once, played, reaches, target, until, working
from tests.services.fixtures import Place


@workflow()
async def either(run: Run) -> str:
    async def asks() -> str:
        return await run.do(once(await run.wait("word", str)))

    return (await run.gather(run.do(keyed("long")), asks()))[1]


@played
async def test_a_run_that_is_given_up_while_its_signal_is_loaded_takes_it_once_in_its_next_life(
    postgres: Place, monkeypatch
):
    target.reset()
    gate, loading, go_on = Gate(), threading.Event(), threading.Event()
    target.plan("long", gate)
    async with working(postgres.url(), either) as app:
        handle = await app.start(either, id="r")
        await gate.reached.wait()
        load = app.store.load

        def slow(number: int) -> Any:
            found = load(number)
            if found.signals:  # and not before the signal is kept, to see whether it fits
                loading.set()
                assert go_on.wait(20)
            return found

        with monkeypatch.context() as patch:
            patch.setattr(app.store, "load", slow)
            await app.signal("r", "word", "yes", id="s")
            await until(loading.is_set, "the signal to be loaded")
        result = asyncio.create_task(handle.result(within="20s"))
        gate.opened.set()
        await until(lambda: app.store.find("default", "r").lease is None, "the run to be given up")
        go_on.set()
        assert await result == "made yes"
        await reaches(app, "r", RunState.SUCCEEDED)
        (signal,) = (await app.show("r")).signals
    assert signal.state == "applied"
    assert sorted(target.requests) == ["long", "yes"]
