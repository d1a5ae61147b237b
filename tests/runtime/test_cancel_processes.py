"""Workers are killed between the layers of a cancel: the layers stay, and the target is asked again only if unanswered.

Counted at the world: one task at most, whatever was said of it, and no request that began after the cancel.
"""

import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fencepost.core.cancellation import Body, Cancellation
from fencepost.core.states import OperationState, RunState
from fencepost.runtime import verbs
from fencepost.runtime.app import App
from fencepost.testing.world import Fault, World
from tests.polling import until
from tests.runtime.cancel_child import app_at, order

HELD = Fault(do="wait", when="after", hold=True, name="create", path="/tasks")
UNSEEN = Fault(do="wait", when="before", hold=True, name="look-up", method="GET", path="/tasks")
"""The heir's look-up, until it has asked the target to stop: it does both at once, and who knows first asks no more."""


@pytest.fixture
def world(tmp_path) -> Iterator[World]:
    with World.start(tmp_path / "world") as world:
        yield world


@pytest.fixture
def app(db, world) -> Iterator[Any]:
    with app_at(db, world.tasks.url).sync as app:
        assert app.store
        yield app


@pytest.fixture
def worker(db, world) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    begun: list[subprocess.Popen[bytes]] = []

    def begin(*point: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "tests.runtime.cancel_child", db, world.tasks.url, *point]
        begun.append(subprocess.Popen(command, stdin=subprocess.PIPE))
        return begun[-1]

    yield begin
    for process in begun:
        process.stdin.close()
        process.wait(30)


def layers(app: App) -> Cancellation:
    run = app.store.find("default", "r")
    found = app.store.load(run.no).cancellation
    assert found is not None
    return found


def reaches(app: App, state: RunState) -> None:
    until(lambda: app.store.find("default", "r").state is state, f"the run to be {state}", seconds_max=30)


def cancel(app: App) -> None:
    verbs.cancel(app, app.store.find("default", "r"), by="ann", reason="stop")


def asked(world: World) -> int:
    """How often the target was asked to cancel."""
    return sum(line.path.endswith("/cancel") for line in world.files.requests("tasks"))


def made(world: World) -> list[str]:
    """The names that were ever posted: what began."""
    return [line.body for line in world.files.requests("tasks") if line.method == "POST" and line.path == "/tasks"]


@pytest.mark.parametrize(
    ("point", "asks"),
    [
        ("before the hook", 1),  # its intent was written down and it was not asked: the heir asks
        ("in the hook", 2),  # asked, and nobody wrote the answer down: the heir asks once more
        ("after the answer", 1),  # its answer is in the ledger: nobody asks again
    ],
)
def test_the_layers_of_a_lost_worker_stay_and_its_heir_goes_on_from_them(app, world, worker, point, asks):
    world.configure("tasks", faults=[HELD])
    first = worker(point)
    app.start(order, "a", id="r")
    world.until_waiting("create")
    cancel(app)
    if point == "after the answer":
        until(lambda: layers(app).operations[0].provider and layers(app).operations[0].provider[0].answer, "the answer")
        first.kill()
    assert first.wait(30) == -9
    before = layers(app)
    (one,) = before.operations
    assert (len(before.accepted), [seen.how for seen in one.told], len(one.provider)) == (1, ["flagged"], 1)
    assert one.state is OperationState.DISPATCHED
    world.configure("tasks", faults=[UNSEEN])
    world.release("create")
    worker()
    world.until_waiting("look-up")
    until(lambda: asked(world) == asks, "the target to be asked")
    world.release("look-up")
    reaches(app, RunState.CANCELLED)
    until(lambda: all(one.answered_at for one in layers(app).operations[0].provider[-1:]), "the heir's answer")
    after = layers(app)
    (one,) = after.operations
    assert after.accepted[0] == before.accepted[0]
    assert one.told == before.operations[0].told
    assert len(after.accepted) == 2
    assert len({seen.lease for seen in after.accepted}) == 2
    assert (one.state, one.looked_up, one.body) == (OperationState.SUCCEEDED, "found", Body.LOST)
    assert one.reference == "task-1"
    assert (asked(world), len(made(world)), world.counts()["tasks"].duplicates) == (asks, 1, 0)
    assert [standing.reference for standing in after.stands] == ["task-1"]


def test_a_worker_that_is_killed_before_it_heard_leaves_the_request_to_its_heir(app, world, worker):
    world.configure("tasks", faults=[HELD])
    first = worker()
    app.start(order, "a", id="r")
    world.until_waiting("create")
    first.kill()
    first.wait(30)
    cancel(app)
    assert layers(app).accepted == ()
    world.configure("tasks", faults=[UNSEEN])
    world.release("create")
    worker()
    world.until_waiting("look-up")
    until(lambda: asked(world) == 1, "the target to be asked")
    world.release("look-up")
    reaches(app, RunState.CANCELLED)
    found = layers(app)
    assert (len(found.accepted), found.operations[0].told) == (1, ())
    assert (len(made(world)), asked(world)) == (1, 1)
