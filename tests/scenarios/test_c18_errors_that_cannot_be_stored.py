"""C18: a step commits its effect and raises an error that nothing could serialise; its name and text are kept."""

import json
import socket
import subprocess
import sys

from fencepost.core.states import RunState
from fencepost.effects.call import Call, SyncCall
from fencepost.effects.declare import compute, effect
from fencepost.effects.promises import Stands
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from tests.runtime.stage import QUICK, KeyHeader, hold, operation, played, reaches, target, working


class Unstorable(Exception):
    """No pickle brings this back: two required arguments, and an open socket."""

    def __init__(self, code, connection):
        super().__init__(f"refused with {code} – “nein”")
        self.connection = connection


def raise_unstorable():
    one, other = socket.socketpair()
    with one, other:
        raise Unstorable(17, one)


@effect(send_key=KeyHeader("Idempotency-Key", window="15m"), retry=QUICK, compensate=Stands("it is meant to stay"))
async def keyed_and_raises(call: Call, name: str) -> str:
    made = await target.take(call, name, honours_keys=True)
    if call.attempt == 1:
        raise_unstorable()
    return made


@effect(on_unknown="hold", retry=QUICK, compensate=Stands("it is meant to stay"))
async def once_and_raises(call: Call, name: str) -> str:
    await target.take(call, name)
    raise_unstorable()
    return name


@compute()
def raises(call: SyncCall) -> str:
    raise_unstorable()
    return ""


@workflow()
async def keyed_run(run: Run) -> str:
    return await run.do(keyed_and_raises("a"))


@workflow()
async def held_run(run: Run) -> str:
    return await run.do(once_and_raises("a"))


@workflow()
async def failing_run(run: Run) -> str:
    return await run.do(raises())


READER = """
import json, sys
from fencepost.runtime.app import App
app = App(sys.argv[1], workflows=[])
run = app.store.find("default", "r")
history = app.store.load(run.no)
print(json.dumps([run.state, run.error, *[one.error for one in (*history.operations, *history.steps)]]))
"""


def read_elsewhere(db):
    """What another process, which lacks the class, reads of the run."""
    done = subprocess.run([sys.executable, "-c", READER, db], capture_output=True, text=True, check=True, timeout=60)
    return json.loads(done.stdout)


def is_kept_whole(text):
    kept = json.loads(text)
    assert kept["class"].endswith("test_c18_errors_that_cannot_be_stored.Unstorable")
    assert kept["message"] == "refused with 17 – “nein”"
    assert "raise_unstorable" in kept["traceback"]


@played
async def test_what_was_raised_after_the_effect_is_unresolved_and_the_effect_happens_once(db):
    async with working(db, keyed_run) as app:
        handle = await app.start(keyed_run, id="r")
        assert await handle.result(within="20s") == "made a"
        assert (target.requests, target.objects) == (["a", "a"], ["a"])
        first = (await operation(app, "r", "keyed_and_raises")).observations[0]
        assert "Unstorable" in first.evidence
        assert "refused with 17 – “nein”" in first.evidence


@played
async def test_where_nothing_can_be_asked_the_run_is_held_and_readable_elsewhere(db):
    async with working(db, held_run) as app:
        await app.start(held_run, id="r")
        await reaches(app, "r", RunState.HELD)
        assert (target.requests, target.objects) == (["a"], ["a"])
        assert (await hold(app, "r"))["step"] == "once_and_raises"
    state, _, error = read_elsewhere(db)
    assert state == "held"
    is_kept_whole(error)


@played
async def test_an_error_of_code_fails_the_run_with_its_own_name_and_not_with_one_of_serialisation(db):
    async with working(db, failing_run) as app:
        await app.start(failing_run, id="r")
        await reaches(app, "r", RunState.FAILED)
    state, run_error, error = read_elsewhere(db)
    assert state == "failed"
    is_kept_whole(error)
    assert "Unstorable: refused with 17" in run_error
