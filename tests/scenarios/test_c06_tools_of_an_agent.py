"""C06: an agent plans again and asks for a tool that succeeded, under another call id; it is one refund all the same.

Counted at the world: objects by order, and keys. What tells two calls apart is what they are about, never their ids.
"""

import json
import subprocess
import sys
from collections import Counter
from contextlib import ExitStack

import pytest

from fencepost.core.states import RunState
from fencepost.testing.world import Fault, World
from tests.effects.answers_of_models import model_server, refusal
from tests.polling import until
from tests.scenarios.agent_child import agent, app_at, spelling


@pytest.fixture
def world(tmp_path):
    with World.start(tmp_path / "world") as world:
        world.configure("tasks", identity=["name"])
        yield world


@pytest.fixture
def model():
    with model_server() as server:
        yield server


@pytest.fixture
def worker(db, world, model):
    with ExitStack() as ended:

        def start():
            command = [sys.executable, "-m", "tests.scenarios.agent_child", db, world.tasks.url, model.url]
            process = subprocess.Popen(command, stdin=subprocess.PIPE)
            ended.callback(process.wait, 30)
            ended.callback(process.stdin.close)
            ended.callback(lambda: process.poll() is not None or process.kill())
            return process

        yield start


def turn(*calls, says=""):
    """A model's answer: each call an id and the text of its arguments."""
    asked = ", ".join(f'{{"id": "{call}", "arguments": {arguments}}}' for call, arguments in calls)
    return f'{{"calls": [{asked}], "says": {json.dumps(says)}}}'


def made(world):
    """How many refunds each order got."""
    return Counter(one["name"] for one in world.files.objects("tasks"))


SEVEN, EIGHT = '{"order": 7, "amount": "100.00"}', '{"order": 8, "amount": "20.00"}'
AGAIN = (
    SEVEN,
    '{"amount": "100.00", "order": 7}',
    '{"order": 7, "amount": 100}',
    '{"order": 7, "amount": "100"}',
    '{"order": 7, "amount": 100.0, "why": ""}',
)
"""The same refund in every spelling that a model may find for it."""


def test_a_refund_asked_for_again_is_the_recorded_one_however_it_is_spelled_and_another_order_is_another_one(
    db, world, model, worker
):
    """The model fails once after the first refund, and its ids are never the same."""
    again = [turn((f"call_{number}", spelled)) for number, spelled in enumerate(AGAIN, 2)]
    model.answers(
        turn(("call_1", SEVEN)), refusal("503 Later"), *again, turn(("call_8", EIGHT), ("call_9", SEVEN)),
        turn(says="done"),
    )  # fmt: skip
    with app_at(db, world.tasks.url, model.url).sync as app:
        handle = app.start(agent, id="r")
        worker()
        says, _, ids = handle.result(within="30s").partition(": ")
        *first, eight, seven = ids.split(", ")
        assert (says, len({*first, seven}), seven != eight) == ("done", 1, True)
        assert [one.item for one in app.show("r").operations] == ["order 7", "order 8"]
        assert app.check().found == []
    assert made(world) == {"order 7": 1, "order 8": 1}
    assert world.counts()["tasks"].keys == 2
    assert len(model.requests) == 1 + 1 + len(AGAIN) + 2, "each turn once, and the one failure"


def test_a_request_that_differs_for_the_ledger_is_refused_and_never_a_second_refund(db, world, model, worker):
    with app_at(db, world.tasks.url, model.url).sync as app:
        app.start(spelling, id="r")
        worker()
        until(lambda: app.show("r").run.state is RunState.HELD, "the run to be held", seconds_max=30)
        assert json.loads(app.show("r").run.hold)["reason"] == "RepeatedEffect"
    assert made(world) == {"order 7": 1}


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_turn_with_parallel_calls_that_is_killed_in_the_middle_makes_each_refund_once(
    db, world, model, worker, moment
):
    """Two of the refunds are made, the others are on their way when the worker dies; two calls are one refund."""
    calls = [(f"call_{number}", f'{{"order": {number % 5}, "amount": {number % 5 + 1}}}') for number in range(6)]
    model.answers(turn(*calls), turn(*((f"again_{name}", said) for name, said in calls)), turn(says="done"))
    held = [Fault(do="wait", when=moment, hold=True, name="on its way", body=f"order {one}") for one in (2, 3, 4)]
    world.configure("tasks", faults=held)
    with app_at(db, world.tasks.url, model.url).sync as app:
        handle = app.start(agent, id="r")
        lost = worker()
        world.until_waiting("on its way", 3, within="20s")
        until(lambda: len(made(world)) >= 2, "the other two to be made", seconds_max=20)
        lost.kill()
        lost.wait(30)
        world.configure("tasks", faults=[])
        world.release("on its way")
        worker()
        assert handle.result(within="30s").startswith("done: ")
        assert app.check().found == []
        assert [one.state for one in app.show("r").operations] == ["succeeded"] * 5
    assert made(world) == {f"order {one}": 1 for one in range(5)}
    assert world.counts()["tasks"].keys == 5
    assert len(model.requests) == 3, "an answer that is stored is not asked for again"
