"""An app whose one effect no cancel ends: what a worker must be able to end without."""

import asyncio
from contextlib import suppress
from pathlib import Path

from fencepost.effects.call import Call
from fencepost.effects.declare import Stands, effect
from fencepost.runtime.app import App
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow


@effect(on_unknown="hold", attempt_timeout="200ms", settle="0s", compensate=Stands("nobody was there"))
async def ring_on(call: Call, gate: str) -> str:
    """Say that it has begun, and stop for nobody."""
    Path(gate).touch()  # noqa: ASYNC240 - the test is another process
    while True:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0.01)


@workflow(version=1)
async def ring_for_ever(run: Run, gate: str) -> str:
    return await run.do(ring_on(gate))


app = App("sqlite:///deaf.db", workflows=[ring_for_ever])
