"""An app whose one effect keeps the working loop from moving, until somebody reads what it has to say."""

from pathlib import Path

from fencepost.effects.call import Call
from fencepost.effects.declare import effect
from fencepost.effects.promises import KeyHeader, Stands
from fencepost.runtime.app import App
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow


@effect(
    send_key=KeyHeader("Idempotency-Key", window="24h"), attempt_timeout="1s", compensate=Stands("it is only a word")
)
async def clog(call: Call, pipe: str) -> None:
    """Write into a pipe that nobody reads: the whole loop waits, and no cancel ends that."""
    Path(pipe).write_text("said")  # noqa: ASYNC240 - that it blocks is the point


@workflow(version=1)
async def talk(run: Run, pipe: str) -> None:
    await run.do(clog(pipe))


app = App("sqlite:///clogged.db", workflows=[talk], lease="1200ms", margin="200ms")
