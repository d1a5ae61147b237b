"""Whoever is killed, and when: the world holds one object for each order that was committed, and none for another.

The orders that were committed are read from the caller's own table, the objects are counted at the world. What joins a
transaction at all is in `test_outbox`.
"""

import subprocess
import sys
from contextlib import ExitStack

import pytest

from fencepost.runtime.app import App
from fencepost.testing.world import Fault, World
from fencepost.testing.world.lines import Committed
from tests.polling import until
from tests.runtime.callers import make_table, names
from tests.runtime.outbox_child import ORDERS

TAKERS = [(0, "after commit"), (100, "before commit"), (200, "after commit"), (300, "before commit")]


def child(*arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "tests.runtime.outbox_child", *arguments], stdin=subprocess.PIPE)


def made(world: World) -> list[str]:
    """The names of the world's objects, in the order in which they were made."""
    lines = world.files.lines("tasks")
    return [write.value["name"] for line in lines if isinstance(line, Committed) for write in line.writes]


@pytest.fixture
def world(tmp_path):
    with World.start(tmp_path / "world") as world:
        world.configure("tasks", identity=["name"])
        yield world


def test_orders_whose_takers_and_publishers_are_killed_are_each_announced_once_and_in_order(db, world):
    with App(db, workflows=[]).sync as app:
        assert app.store
    make_table(db)
    # The first publisher is killed while its request is on its way.
    world.configure("tasks", faults=[Fault(do="wait", when="after", hold=True, name="on its way")])

    with ExitStack() as ended:
        lost = child("publish", db, world.tasks.url)
        takers = [child("take", db, world.tasks.url, str(first), when) for first, when in TAKERS]
        world.until_waiting("on its way", within="20s")
        lost.kill()
        for process in (lost, *takers):
            process.wait(30)
            process.stdin.close()
        world.configure("tasks", faults=[])
        world.release("on its way")
        for _ in range(2):
            publisher = child("publish", db, world.tasks.url)
            ended.callback(publisher.wait, 30)
            ended.callback(publisher.stdin.close)

        ordered = names(db)
        assert len(ordered) == 2 * ORDERS + 2 * (ORDERS - 1)
        until(lambda: len(made(world)) >= len(ordered), "every order to be announced", seconds_max=30)

    assert sorted(made(world)) == ordered
    assert world.counts()["tasks"].duplicates == 0
    for first, _ in TAKERS:
        for customer in range(2):
            mine = [int(name.split()[1]) for name in made(world)]
            mine = [number for number in mine if first <= number < first + ORDERS and number % 2 == customer]
            assert mine == sorted(mine)
