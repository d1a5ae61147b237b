"""Each log line says which run and operation it concerns, on one line, and gives no secret away."""

import asyncio
import io
import json
import logging

import pytest

from fencepost.core.trace import KEY_CHARACTERS, Ids
from fencepost.effects.call import Call, SyncCall
from fencepost.effects.concerned import about
from fencepost.effects.declare import compute, effect
from fencepost.effects.hidden import hidden
from fencepost.effects.promises import KeyHeader, Stands
from fencepost.runtime.execution import Execution
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from fencepost.telemetry import Concerned, JsonLines
from tests.runtime.stage import keyed, operation, played, until, working

OWN = logging.getLogger("invoices")
KEY = {"send_key": KeyHeader("Idempotency-Key", window="24h"), "compensate": Stands("it is a test")}


@effect(**KEY)
async def speak(call: Call, name: str) -> str:
    OWN.warning("speaking of %s", name)
    return name


@effect(**KEY)
def speak_plainly(call: SyncCall, name: str) -> str:
    OWN.warning("plainly of %s", name)
    return name


@compute(version=1)
async def ponder(call: Call, name: str) -> str:
    OWN.warning("pondering")
    return name


@workflow(version=1)
async def talk(run: Run, name: str) -> str:
    await run.do(speak(name), item="1")
    await run.do(speak_plainly(name))
    return await run.do(ponder(name))


@workflow(version=1)
async def trip(run: Run, name: str) -> str:
    await run.do(keyed(name), item="1")
    return await run.do(keyed(name + "!"), item="2")


@pytest.fixture
def lines():
    """The JSON lines that are written meanwhile, as objects; and as text."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    handler.addFilter(Concerned())
    loggers = [OWN, logging.getLogger("fencepost")]
    for one in loggers:
        one.addHandler(handler)
    yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    for one in loggers:
        one.removeHandler(handler)


@played
async def test_what_bodies_log_says_run_step_attempt_and_operation_in_tasks_and_on_threads(db, lines):
    async with working(db, talk) as app:
        await asyncio.gather(*[(await app.start(talk, name, id=f"run {name}")).result() for name in "ab"])
        keys = {name: (await operation(app, f"run {name}", "speak", "1")).key for name in "ab"}
    said = lines()
    assert len(said) == 6
    for name in "ab":
        run, ids = f"run {name}", Ids("default", f"run {name}")
        spoke, plainly, pondered = [one for one in said if one["run"] == run]
        assert spoke["message"] == f"speaking of {name}"
        assert (spoke["step"], spoke["attempt"], spoke["generation"]) == ("speak[1]", 1, 1)
        assert spoke["operation"] == keys[name][:KEY_CHARACTERS]
        assert (spoke["trace"], spoke["span"]) == (ids.trace, ids.attempt("speak[1]", 1))
        assert plainly["step"] == "speak_plainly"
        assert pondered["step"] == "/ponder"
        assert "operation" not in pondered


@played
async def test_what_the_engine_logs_of_a_run_says_which_and_no_step_that_is_over(db, lines, monkeypatch):
    lived = Execution.live

    async def breaks_afterwards(self):
        await lived(self)
        raise RuntimeError("this process is broken")

    monkeypatch.setattr(Execution, "live", breaks_afterwards)
    async with working(db, trip) as app:
        await app.start(trip, "a", id="r")
        await until(lambda: any("broken" in one["message"] for one in lines()), "the line")
        logging.getLogger("fencepost").warning("about nothing")
    *_, about_it, about_nothing = [one for one in lines() if one["logger"].startswith("fencepost")]
    assert about_it["message"].startswith("run r is held: ")
    assert (about_it["run"], about_it["trace"], "step" in about_it) == ("r", Ids("default", "r").trace, False)
    assert "run" not in about_nothing


@played
async def test_a_line_about_another_run_is_not_said_to_be_about_this_one(db, lines):
    async with working(db, talk) as app:
        await (await app.start(talk, "a", id="r")).result()
        run = (await app.show("r")).run
    about(run).run(OWN.warning, "of another", extra={"run": "other"})
    about(run).run(OWN.warning, "of this")
    other, this = lines()[-2:]
    assert (other["run"], "trace" in other) == ("other", False)
    assert (this["run"], this["namespace"]) == ("r", "default")


def test_hostile_text_stays_on_its_line_and_reaches_no_terminal(lines):
    hostile = "a\nb\r\x1b[2J\u202e\u2028 日本 \ud800"
    OWN.warning("saw %s", hostile, extra={"run": hostile})
    [said] = lines()
    assert said["message"] == f"saw {hostile}"
    assert said["run"] == hostile
    line = JsonLines().format(logging.makeLogRecord({"msg": hostile, "run": hostile}))
    assert line.isascii()
    assert line.isprintable()


def test_no_secret_is_in_a_line_nor_in_its_traceback(lines):
    hidden.know("hunter2-hunter2", "password")
    try:
        int("no entry with hunter2-hunter2")
    except ValueError:
        OWN.exception("hunter2-hunter2 was refused", extra={"run": "hunter2-hunter2"})
    [said] = lines()
    assert "hunter2" not in json.dumps(said)
    assert "[secret password]" in said["message"]
    assert "ValueError" in said["error"]


def test_a_line_whose_arguments_do_not_fit_is_written_all_the_same_and_a_long_one_is_cut(lines):
    broken = logging.makeLogRecord({"msg": "%d", "args": ("text",)})
    assert "its arguments could not be written" in json.loads(JsonLines().format(broken))["message"]
    OWN.warning("x" * 100_000)
    [long] = lines()
    assert long["message"].endswith("characters more)")
    assert len(long["message"]) < 20_000
