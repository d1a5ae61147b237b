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
from tests import polling
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


@effect(on_unknown="hold", retry=QUICK, name="tidy_up")
async def tidy_up(call: Call) -> str:
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", "print('up')")
    with call.child(process):
        await process.wait()
        began.append(process.pid)
        await until(lambda: call.cancelled, "the cancel")
        return "tidy"


@effect(on_unknown="hold", retry=QUICK, name="tidy_up_on_a_thread")
def tidy_up_on_a_thread(call: SyncCall) -> str:
    with subprocess.Popen([sys.executable, "-c", "print('up')"]) as process, call.child(process):
        process.wait()
        began.append(process.pid)
        polling.until(lambda: call.cancelled, "the cancel")
        return "tidy"


@workflow(name="tidying")
async def tidying(run: Run, thread: bool) -> str:
    return await run.do(tidy_up_on_a_thread() if thread else tidy_up())


@pytest.mark.parametrize("thread", [False, True])
@played
async def test_a_child_process_that_ended_is_not_signalled(db, thread):
    async with working(db, tidying) as app:
        handle = await app.start(tidying, thread, id="r")
        await until(lambda: began, "the child process to have ended")
        await app.cancel("r", by="ann", reason="stop")
        with pytest.raises(RunCancelled):
            await handle.result(within="5s")
        (one,) = (await app.show("r")).cancellation.operations
    assert [seen.how for seen in one.told] == ["flagged"]


POSTS = """
import signal, socket, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("up", flush=True)
while True:
    socket.create_connection(("127.0.0.1", PORT)).close()
    time.sleep(0.002)
"""


@played
async def test_one_that_goes_on_sending_sends_nothing_more_once_it_was_killed(db):
    arrived: list[float] = []

    async def take(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        arrived.append(asyncio.get_running_loop().time())
        writer.close()

    server = await asyncio.start_server(take, "127.0.0.1", 0)
    async with server, working(db, uploading) as app:
        app.host.overdue.grace = GRACE
        program = POSTS.replace("PORT", str(server.sockets[0].getsockname()[1]))
        await app.start(uploading, program, id="r")
        await until(lambda: len(arrived) > 2, "it to send")
        await app.cancel("r", by="ann", reason="stop")
        told = len(arrived)
        await until(lambda: len(arrived) > told, "it to send on after SIGTERM, which nothing here guards")
        await until(lambda: is_gone(began[0]), "the child process to be gone")
        await asyncio.sleep(0.05)  # what was in the server's queue
        killed = len(arrived)
        await asyncio.sleep(0.3)
        assert len(arrived) == killed
        await reaches(app, "r", RunState.CANCELLED, RunState.HELD)
