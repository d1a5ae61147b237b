"""Whoever is killed around a job: the target got one job and one token, and the report on it is taken in once.

Counted at the world: requests, objects, and how many different bodies came under a key.
"""

import json
import subprocess
import sys
from contextlib import ExitStack, suppress

import pytest

from fencepost import CallbackRefused
from fencepost.core.states import RunState
from fencepost.testing.world import Fault, World
from tests.polling import until
from tests.runtime.job_child import app_at, filming


@pytest.fixture
def world(tmp_path):
    with World.start(tmp_path / "world") as world:
        world.configure("tasks", identity=["name"])
        yield world


@pytest.fixture
def worker(db, world):
    with ExitStack() as ended:

        def start():
            process = subprocess.Popen(
                [sys.executable, "-m", "tests.runtime.job_child", db, world.tasks.url], stdin=subprocess.PIPE
            )
            ended.callback(process.wait, 30)
            ended.callback(process.stdin.close)
            ended.callback(lambda: process.poll() is not None or process.kill())
            return process

        yield start


def token_in(world) -> str:
    """The token that reached the world with the job."""
    [body, *_] = [json.loads(one.body) for one in world.files.requests("tasks") if "token" in (one.body or "")]
    return str(body["token"])


def told(world):
    """The world's counts: requests, objects, and the most bodies under one key."""
    seen = world.counts()["tasks"]
    return seen.requests, seen.objects, max(seen.bodies_per_key.values())


@pytest.mark.parametrize("reported", ["before anybody is back", "once it waits"])
def test_a_worker_that_is_killed_as_it_hands_a_job_over_hands_over_one_under_one_token(db, world, worker, reported):
    world.configure("tasks", faults=[Fault(do="wait", when="after", hold=True, name="on its way")])
    with app_at(db, world.tasks.url).sync as app:
        handle = app.start(filming, "a film", id="r")
        lost = worker()
        world.until_waiting("on its way", within="20s")
        lost.kill()
        lost.wait(30)
        world.configure("tasks", faults=[])
        world.release("on its way")
        token = token_in(world)
        if reported == "before anybody is back":
            assert app.callback(token, {"name": "a film"}).state == "kept"
        worker()
        if reported == "once it waits":
            until(lambda: _wait(app), "the wait for the report", seconds_max=30)
            assert app.callback(token, {"name": "a film"}).state in ("kept", "applied")
        assert handle.result(within="30s") == "a film"
        assert [operation.state for operation in app.show("r").operations] == ["succeeded", "succeeded"]
    requests, objects, bodies = told(world)
    assert (requests, objects, bodies) == (3, 2, 1)


def test_workers_that_are_killed_while_reports_come_take_one_in(db, world, worker):
    with app_at(db, world.tasks.url).sync as app:
        handle = app.start(filming, "a film", id="r")
        first = worker()
        until(lambda: _wait(app), "the wait for the report", seconds_max=30)
        token = token_in(world)
        assert app.heartbeat(token, progress={"frames": 1})
        first.kill()
        first.wait(30)
        second = worker()
        for number in range(20):
            with suppress(CallbackRefused):
                app.callback(token, {"name": "a film" if number % 2 == 0 else "another"})
            if number == 1:
                second.kill()
        second.wait(30)
        worker()
        assert handle.result(within="30s") == "a film"
        assert [signal.state for signal in app.show("r").signals] == ["applied"]
        assert len([row for row in app.audit(run="r") if row.outcome == "refused"]) == 10
        assert app.check().found == []
    requests, objects, bodies = told(world)
    assert (objects, bodies) == (2, 1)
    assert requests in (2, 3)  # the publication may have been on its way when the second worker was killed


def _wait(app):
    found = app.show("r")
    return found.run.state is RunState.WAITING and any(step.kind == "wait" for step in found.steps)
