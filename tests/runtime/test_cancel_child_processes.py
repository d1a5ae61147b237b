"""Bodies that wait for a child process: it is told of the cancel, and killed when the body's time is over."""

import asyncio
import os
import subprocess
import sys

import pytest

from fencepost.core.cancellation import Body
from fencepost.core.errors import RunCancelled
from fencepost.core.states import RunState
from fencepost.effects.call import Call, SyncCall
from fencepost.effects.declare import compute, effect
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from tests.runtime.stage import QUICK, played, reaches, until, working

GRACE = 0.2
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(60)"
WAITS = "import time; print('up', flush=True); time.sleep(60)"

began: list[int] = []


@pytest.fixture(autouse=True)
def nobody():
    began.clear()


def is_gone(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


@compute(name="convert")
async def convert(call: Call, program: str) -> str:
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", program, stdout=subprocess.PIPE)
    with call.child(process):
        await process.stdout.readline()
        began.append(process.pid)
        return str(await process.wait())


@effect(on_unknown="hold", retry=QUICK, name="upload")
def upload(call: SyncCall, program: str) -> str:
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as process, call.child(process):
        process.stdout.readline()
        began.append(process.pid)
        return str(process.wait())


@effect(on_unknown="hold", retry=QUICK, attempt_timeout="300ms", settle="0s", name="slow_upload")
async def slow_upload(call: Call) -> str:
    return await convert.body(call, DEAF)


@workflow(name="converting")
async def converting(run: Run, program: str) -> str:
    return await run.do(convert(program))


@workflow(name="uploading")
async def uploading(run: Run, program: str) -> str:
    return await run.do(upload(program))


@workflow(name="overdue")
async def overdue(run: Run) -> str:
    return await run.do(slow_upload())


@played
async def test_a_thread_that_waits_for_its_child_process_ends_with_it(db):
    async with working(db, uploading) as app:
        handle = await app.start(uploading, WAITS, id="r")
        await until(lambda: began, "the child process")
        await app.cancel("r", by="ann", reason="stop")
        with pytest.raises(RunCancelled):
            await handle.result(within="5s")
        (one,) = (await app.show("r")).cancellation.operations
    assert [seen.how for seen in one.told] == [f"child process {began[0]}: SIGTERM"]
    assert one.body is Body.ENDED
    assert is_gone(began[0])


@played
async def test_one_that_ignores_sigterm_is_killed_when_its_bodys_time_is_over(db):
    async with working(db, uploading) as app:
        app.host.overdue.grace = GRACE
        handle = await app.start(uploading, DEAF, id="r")
        await until(lambda: began, "the child process")
        await app.cancel("r", by="ann", reason="stop")
        await reaches(app, "r", RunState.CANCELLED, RunState.HELD)
        await until(lambda: is_gone(began[0]), "the child process to be gone")

        async def ended():
            (one,) = (await app.show("r")).cancellation.operations
            return one if one.body is Body.ENDED else None

        one = await until(ended, "the thread's end")
        assert handle.id == "r"
    hows = [seen.how for seen in one.told]
    assert hows[:2] == [f"child process {began[0]}: SIGTERM", f"child process {began[0]}: SIGKILL"]


@played
async def test_an_async_computation_and_its_child_process_end_at_once(db):
    async with working(db, converting) as app:
        handle = await app.start(converting, WAITS, id="r")
        await until(lambda: began, "the child process")
        await app.cancel("r", by="ann", reason="stop")
        with pytest.raises(RunCancelled):
            await handle.result(within="5s")
        await until(lambda: is_gone(began[0]), "the child process to be gone")
        (one,) = (await app.show("r")).cancellation.steps
    assert one.told[0].how == f"child process {began[0]}: SIGTERM"


@played
async def test_a_body_whose_own_time_is_over_takes_its_child_process_with_it(db):
    async with working(db, overdue) as app:
        await app.start(overdue, id="r")
        await reaches(app, "r", RunState.HELD)
        await until(lambda: is_gone(began[0]), "the child process to be gone")


@played
async def test_a_child_process_that_ended_is_not_signalled(db):
    async with working(db, uploading) as app:
        handle = await app.start(uploading, "print('up')", id="r")
        assert await handle.result() == "0"
