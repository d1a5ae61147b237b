"""C05: a step's time-out moves nothing on while the remote job that it started goes on; the next question finds it."""

import asyncio

from fencepost.core.contract import Retry
from fencepost.core.states import OperationState, RunState
from fencepost.effects.answers import Absent, Conflicting, Found
from fencepost.effects.call import Call
from fencepost.effects.declare import effect
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from tests.runtime.stage import Gate, operation, played, reaches, target, undo, until, working


class Jobs:
    """A remote system that works on after its caller has given up."""

    def __init__(self):
        self.reset()

    def reset(self):
        self.started = 0
        self.gate = Gate()
        self.working = set()

    def start(self, name, key):
        self.started += 1
        work = asyncio.create_task(self._work(name, key))
        self.working.add(work)
        work.add_done_callback(self.working.discard)

    async def _work(self, name, key):
        await self.gate.wait()
        target.commit(name, key, honours_keys=False)


jobs = Jobs()


async def status(call: Call, name: str) -> Found[str] | Absent | Conflicting:
    """Asks for what was committed under the operation's own name."""
    return target.look(name)


@effect(
    reconcile=status, attempt_timeout="100ms", settle="2s", compensate=undo,
    retry=Retry(attempts=3, within="1m", first_delay="2ms", longest_delay="10ms"),
)  # fmt: skip
async def run_job(call: Call, name: str) -> str:
    """Starts the job, and waits for longer than it may."""
    jobs.start(name, call.key)
    await asyncio.Event().wait()
    return "never"


@workflow()
async def nightly(run: Run) -> str:
    return await run.do(run_job("a"))


@played
async def test_one_job_is_started_and_its_end_is_found(db):
    jobs.reset()
    async with working(db, nightly) as app:
        await app.start(nightly, id="r")

        async def is_unknown():
            return (await operation(app, "r", "run_job")).state is OperationState.UNKNOWN

        await until(lambda: bool(jobs.started), "the job to begin")
        await until(is_unknown, "the time-out")
        jobs.gate.opened.set()
        await reaches(app, "r", RunState.SUCCEEDED)
        found = await operation(app, "r", "run_job")
        assert (found.state, len(found.attempts)) == (OperationState.SUCCEEDED, 1)
    assert (jobs.started, target.objects) == (1, ["a"])
