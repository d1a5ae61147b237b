"""C17: a run whose process was killed goes on in another one with the same state, or what cannot be kept was refused.

Counted at the world: one object and one key for each effect, whichever process sent it, and what each of them found
changed in the state that it read. Every kind that is kept or refused is listed in `tests/effects/test_values`.
"""

import os
import subprocess
import sys
from contextlib import ExitStack
from decimal import Decimal

import pytest

from fencepost.core.errors import ValueRefused
from fencepost.testing.world import Fault, World
from tests.scenarios.state_child import app_at, carries, carries_anything, changes, made_here


@pytest.fixture
def world(tmp_path):
    with World.start(tmp_path / "world") as world:
        yield world


@pytest.fixture
def worker(db, world):
    """Starts workers, each with a seed of its own for the order of its sets."""
    with ExitStack() as ended:

        def start(seed):
            command = [sys.executable, "-m", "tests.scenarios.state_child", db, world.tasks.url]
            process = subprocess.Popen(command, stdin=subprocess.PIPE, env={**os.environ, "PYTHONHASHSEED": seed})
            ended.callback(process.wait, 30)
            ended.callback(process.stdin.close)
            ended.callback(lambda: process.poll() is not None or process.kill())
            return process

        yield start


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("sending", [0, 1])
def test_a_run_goes_on_in_another_process_with_the_same_state_and_sends_nothing_twice(
    db, world, worker, moment, sending
):
    """Its process dies while the request is at the world: not made yet, or made and not answered."""
    world.configure("tasks", faults=[Fault(do="wait", when=moment, hold=True, name="on its way", skip=sending)])
    with app_at(db, world.tasks.url).sync as app:
        handle = app.start(carries, made_here(), id="r")
        lost = worker("1")
        world.until_waiting("on its way", within="20s")
        lost.kill()
        lost.wait(30)
        world.configure("tasks", faults=[])
        world.release("on its way")
        worker("2")
        assert changes(handle.result(within="30s")) == []
        history = app.show("r")
        assert history.run.generation > 1, "it was taken over"
        assert app.check().found == []
        keys = {one.key for one in history.operations}
    objects = world.files.objects("tasks")
    assert [one["changed"] for one in objects] == [[], []]
    counted = world.counts()["tasks"]
    assert (counted.objects, counted.keys, len(keys)) == (2, 2, 2)
    assert counted.requests == 3, "the one that was on its way came once more, under its key"


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ({"rate": float("nan")}, "given.rate"),
        ({"lines": ["good", "\ud800"]}, "given.lines[1]"),
        ({"amount": Decimal(1)}, "given.amount"),
        ({"pair": (1, 2)}, "given.pair"),
        ({"data": b"\xff"}, "given.data"),
    ],
    ids=["not a number", "lone surrogate", "decimal without a type", "tuple without a type", "bytes without a form"],
)  # fmt: skip
def test_what_would_come_back_as_something_else_is_refused_at_the_start_with_its_path(db, world, value, path):
    with app_at(db, world.tasks.url).sync as app:
        with pytest.raises(ValueRefused) as refused:
            app.start(carries_anything, value, id="r")
        assert refused.value.ids["path"].endswith(path)
        assert app.runs() == []
