"""A run that a person ends tells its bodies as a cancelled one does, whichever process ended it; nobody waits."""

import asyncio
import json
import subprocess
import sys
import threading
import time
from contextlib import suppress

import pytest

from fencepost.core.errors import CancelAccepted
from fencepost.core.records import BODY_ENDED, BODY_TOLD
from fencepost.core.states import OperationState, RunState
from fencepost.effects.call import Call, SyncCall
from fencepost.effects.declare import compute, effect, read
from fencepost.runtime.app import App
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from tests.polling import until as polled
from tests.runtime.stage import QUICK, Gate, keyed, played, reaches, target, until, working

GRACE = 0.1


class Seen:
    """What a body has noticed: that it began, how it ended, and what became of a send after it was told."""

    def __init__(self) -> None:
        self.began = threading.Event()
        self.freed = asyncio.Event()
        self.ends: list[str] = []


seen = Seen()


@pytest.fixture(autouse=True)
def forgetful():
    seen.__init__()


async def until_told(call: Call) -> str:
    """What a body does that looks after itself: it waits, and sends once more when it was told."""
    seen.began.set()
    try:
        await seen.freed.wait()
    except asyncio.CancelledError:
        assert call.cancelled
        try:
            with call.sending():
                target.requests.append("after the end")
        except CancelAccepted as error:
            seen.ends.append(error.message)
        raise
    return "late"


@effect(on_unknown="hold", retry=QUICK)
async def waits(call: Call) -> str:
    return await until_told(call)


@effect(on_unknown="hold", retry=QUICK)
async def takes_back(call: Call, result: str | None, reference: str | None) -> str:
    return await until_told(call)


@effect(on_unknown="hold", retry=QUICK, compensate=takes_back)
async def taken_back(call: Call) -> str:
    return "made"


@effect(on_unknown="hold", retry=QUICK)
def works(call: SyncCall) -> str:
    seen.began.set()
    polled(lambda: call.cancelled, "the end")
    try:
        with call.sending():
            target.requests.append("after the end")
    except CancelAccepted as error:
        seen.ends.append(error.message)
        raise
    return "late"


@read()
async def looks(call: Call) -> str:
    return await until_told(call)


@compute()
def converts(call: SyncCall) -> int:
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    with subprocess.Popen(command) as process, call.child(process):
        seen.began.set()
        code = process.wait()
        seen.ends.append(f"signal {-code}")
        return code


@workflow()
async def sends(run: Run) -> str:
    return await run.do(waits())


@workflow()
async def sends_from_a_thread(run: Run) -> str:
    return await run.do(works())


@workflow()
async def reads(run: Run) -> str:
    return await run.do(looks())


@workflow()
async def computes(run: Run) -> int:
    return await run.do(converts())


@workflow()
async def keyed_alone(run: Run) -> str:
    return await run.do(keyed("a"))


@workflow()
async def goes_back(run: Run) -> str:
    await run.do(taken_back())
    await run.compensate(reason="not wanted")
    return "back"


CODE = (sends, sends_from_a_thread, reads, computes, goes_back)
SAYS = "the run was ended by a person: nothing more is sent"
BODIES = [
    (sends, "waits", [SAYS]),
    (sends_from_a_thread, "works", [SAYS]),
    (reads, "/looks", [SAYS]),
    (computes, "/converts", ["signal 15"]),
    (goes_back, "compensate taken_back", [SAYS]),
]


async def told(app: App, position: str) -> list[str]:
    history = await app.show("r")
    of_it = next((one.observations for one in history.operations if one.position == position), None)
    found = of_it or [one for one in history.observations if json.loads(one.evidence).get("position") == position]
    assert not any(one.current for one in found if one.kind in (BODY_TOLD, BODY_ENDED)), "of an owner that was"
    return [str(json.loads(one.evidence)["how"]) for one in found if one.kind in (BODY_TOLD, BODY_ENDED)]


@pytest.mark.parametrize(("code", "position", "ends"), BODIES, ids=[one[1] for one in BODIES])
@played
async def test_every_kind_of_body_is_told_and_sends_nothing_more(db, code, position, ends):
    async with working(db, *CODE) as app:
        app.host.overdue.grace = GRACE
        await app.start(code, id="r")
        await asyncio.to_thread(seen.began.wait, 20)
        async with App(db, workflows=CODE) as elsewhere:
            ended = await elsewhere.terminate("r", by="ann", reason="it is wrong")
            assert ended.state is RunState.TERMINATED
        await until(lambda: seen.ends, "the body to end")

        async def written():
            return len(await told(app, position)) > 1

        await until(written, "what became of the body")
        how = (await told(app, position))[0]
        assert how == "flagged" or how.endswith("SIGTERM")
        assert (await app.show("r")).run.state is RunState.TERMINATED
    assert (seen.ends, target.requests) == (ends, [])


@effect(on_unknown="hold", retry=QUICK)
async def deaf(call: Call) -> str:
    seen.began.set()
    while not seen.freed.is_set():
        with suppress(asyncio.CancelledError):
            await seen.freed.wait()
    return "late"


@workflow()
async def listens(run: Run) -> str:
    return await run.do(deaf())


@played
async def test_a_body_that_swallows_it_holds_up_neither_the_worker_nor_a_reopened_run(db):
    async with App(db, workflows=[listens, sends]) as app, app.worker() as worker:
        app.host.overdue.grace = GRACE
        await app.start(listens, id="r")
        await asyncio.to_thread(seen.began.wait, 20)
        await app.terminate("r", by="ann", reason="it is wrong")
        await until(lambda: worker.abandoned, "the body to be left")
        assert (await app.show("r")).run.state is RunState.TERMINATED
        await app.reopen("r", by="ann", reason="by mistake")
        await reaches(app, "r", RunState.HELD)
        seen.freed.set()

        async def known():
            return (await app.show("r")).operations[0].state is OperationState.SUCCEEDED

        await until(known, "what it says late")


@played
async def test_what_is_not_ended_is_told_nothing_and_a_second_end_tells_the_life_after_a_reopen(db):
    gate = Gate()
    target.plan("a", gate)
    async with working(db, keyed_alone, reads) as app:
        app.host.overdue.grace = GRACE
        await app.start(reads, id="r")
        other = await app.start(keyed_alone, id="other")
        await gate.reached.wait()
        for times in (1, 2):
            await until(seen.began.is_set, "a body")
            seen.began.clear()
            await app.terminate("r", by="ann", reason="it is wrong")
            await until(lambda: len(seen.ends) == times, "the body to end")  # noqa: B023 - asked within the turn
            if times == 1:
                await app.reopen("r", by="ann", reason="once more")
        assert (await app.show("other")).run.state is RunState.RUNNING
        gate.opened.set()
        assert await other.result() == "made a"
    assert target.requests == ["a"]


@played
async def test_runs_that_nobody_ends_cost_at_most_a_few_questions_a_second(db, monkeypatch):
    async with working(db, keyed_alone) as app:
        asked: list[list[int]] = []
        as_it_was = app.store.ended_by_hand
        monkeypatch.setattr(app.store, "ended_by_hand", lambda runs: asked.append(list(runs)) or as_it_was(runs))
        began = time.monotonic()
        for number in range(50):
            await (await app.start(keyed_alone, id=f"r{number}")).result()
        assert len(asked) <= 2 + 4 * (time.monotonic() - began)
        assert [] not in asked
