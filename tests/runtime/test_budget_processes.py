"""A budget of time is counted from the first intent, however many workers die in it, and whatever each has tried.

Counted at the world. Each worker is a process of its own that is killed, and lives some minutes later than the one
before by the store's clock.
"""

import json
import subprocess
import sys

import pytest

from fencepost.core.recovery import HoldReason
from fencepost.core.states import RunState
from fencepost.testing.world import Fault, World
from tests.polling import until
from tests.runtime.budget_child import app_at, counting, ordering


@pytest.fixture
def world(tmp_path):
    with World.start(tmp_path / "world") as world:
        yield world


def held_at(ordinal, **more):
    """What strikes the request of that number: it is not worked on, and its sender hears nothing for long."""
    return Fault(do="answer", status=500, hold=True, name=f"number {ordinal}", ordinal=ordinal, **more)


def dies(db, world, *, minutes, at):
    """A worker that is killed while its request, the one of that number, is held by the world."""
    command = [sys.executable, "-m", "tests.runtime.budget_child", db, world.tasks.url, str(minutes)]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as worker:
        try:
            world.until_waiting(f"number {at}", within="30s")
        finally:
            worker.kill()


def rests(db, world, minutes):
    """How the run is left by a worker that lives so late, and what it is held for."""
    with app_at(db, world.tasks.url, minutes).sync as app, app.worker():
        until(lambda: app.show("r").run.state in (RunState.HELD, RunState.SUCCEEDED), "an end", seconds_max=30)
        run = app.show("r").run
        return run.state, json.loads(run.hold or "{}").get("reason")


@pytest.mark.parametrize(
    ("minutes", "left", "requests"),
    [
        (9, (RunState.SUCCEEDED, None), 3),
        (11, (RunState.HELD, HoldReason.BUDGET_SPENT), 2),
    ],
)
def test_an_effects_time_goes_on_while_its_workers_die(db, world, minutes, left, requests):
    world.configure("tasks", faults=[held_at(1), held_at(2)])
    with app_at(db, world.tasks.url, 0).sync as app:
        app.start(ordering, world.tasks.url, id="r")
    dies(db, world, minutes=0, at=1)
    dies(db, world, minutes=6, at=2)
    assert rests(db, world, minutes) == left
    seen = world.counts()["tasks"]
    assert (seen.requests, seen.keys) == (requests, 1)


@pytest.mark.parametrize(("minutes", "left"), [(9, (RunState.SUCCEEDED, None)), (11, (RunState.HELD, "budget spent"))])
def test_a_reads_time_goes_on_while_its_workers_die(db, world, minutes, left):
    """Each has a refusal before it dies in its next question; the last one has another refusal."""
    refused = [Fault(do="answer", status=503, method="GET", ordinal=number) for number in (1, 3, 5)]
    world.configure("tasks", faults=[*refused, held_at(2, method="GET"), held_at(4, method="GET")])
    with app_at(db, world.tasks.url, 0).sync as app:
        app.start(counting, world.tasks.url, id="r")
    dies(db, world, minutes=0, at=2)
    dies(db, world, minutes=6, at=4)
    assert rests(db, world, minutes) == left
    asked = len(world.files.requests("tasks"))
    assert asked == (6 if left[1] is None else 5)
