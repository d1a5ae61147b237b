"""Writing kind by kind means the same as writing each group in its own order: random batches, both ways."""

import random
from collections.abc import Iterator
from typing import Any

import pytest

from fencepost.core.records import History, Run
from fencepost.core.states import RunState
from fencepost.store.api import Group
from fencepost.store.groups import keeps_order
from fencepost.store.moves import Move
from fencepost.store.open import open_store
from fencepost.store.postgres_connection import UNENCODABLE, PostgresError
from tests.services.fixtures import Place
from tests.store import build

STEPS = ("one", "two")
ENDINGS = (("wait", "waiting"), ("cancel", "cancelling"))
STATES = ("reserved", "dispatched", "unknown", "succeeded", "failed")


def random_move(draw: random.Random, run: Run, generation: int) -> Move:
    step, number = draw.choice(STEPS), draw.choice((1, 1, 2))
    rarely = int(draw.random() < 0.1)
    made = draw.choice(
        [
            build.new_operation(run, step, state=draw.choice(("reserved", "dispatched"))),
            build.new_attempt(run, step, number + 1),
            build.succeed(run, step),
            build.move_operation(run, "move", draw.choice(STATES), draw.choice(STATES), step),
            build.applied(run, step),
            build.dispatch_again(run, draw.choice(("reserved", "unknown")), number, step),
            build.settle(run, draw.choice(("applied", "not applied")), step, number),
            build.deliver(run, number, step),
            build.open_step(run, draw.choice(("a", "b"))),
            build.move_step(run, "finish", "open", "done", draw.choice(("a", "b"))),
            build.move_signal(run),
            *[build.move_run(run, *draw.choice(ENDINGS)) for _ in range(rarely)],
        ]
    )  # fmt: skip
    return made._replace(generation=generation)


def likely_group(draw: random.Random, run: Run) -> Group:
    """What an engine hands in: a result and the next intent, an attempt after a refusal; or anything at all."""
    step, other = draw.sample(STEPS, 2)
    usual: list[list[Move]] = [
        [build.new_operation(run, step)],
        [build.applied(run, step), build.settle(run, step=step), build.new_operation(run, other)],
        [build.move_operation(run, "lose", "dispatched", "unknown", step)],
        [
            build.move_operation(run, "release", "dispatched", "reserved", step),
            build.settle(run, "not applied", step),
            build.dispatch_again(run, "reserved", 2, step), build.new_attempt(run, step, 2),
        ],
        [build.open_step(run, "a"), build.move_run(run, "wait", "waiting")],
        [random_move(draw, run, draw.choice((1, 1, 1, 2))) for _ in range(draw.randint(1, 5))],
    ]  # fmt: skip
    moves = draw.choice(usual)
    return build.group(run, *moves, if_refused=[build.seen(run, step)])


@pytest.fixture
def pair(dialect: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Two ledgers under one clock; the second is only ever written group by group."""
    if dialect == "sqlite":
        folder = request.getfixturevalue("tmp_path")
        urls = [str(folder / name) for name in ("fast.db", "slow.db")]
    else:
        server = request.getfixturevalue("postgres_server")
        urls = [Place(server).url() for _ in range(2)]
    stores: list[Any] = [open_store(url, clock=lambda: build.NOW) for url in urls]
    slow = stores[1]._writer
    monkeypatch.setattr(slow, "write_fast" if dialect == "sqlite" else "steps", lambda groups: refuse(dialect))
    for store in stores:
        store.take_lease(build.lease())
    yield stores
    for store in stores:
        store.close()


def refuse(dialect: str) -> None:
    """How a writer says that it cannot write everything at once."""
    if dialect == "postgres":
        raise PostgresError(UNENCODABLE, "group by group")


def loaded(store: Any, run: Run) -> History:
    """Without the numbers of observations: a sequence does not count back when a commit is refused."""
    history = store.load(run.no)
    for operation in history.operations:
        for seen in operation.observations:
            seen.no = 0
    return history


@pytest.mark.parametrize("seed", range(4))
def test_both_ways_answer_and_store_the_same(seed: int, pair: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    draw = random.Random(seed)
    fast, slow = pair
    fell_back = 0
    kind = type(fast._writer)
    write_each = kind.write_each

    def counted(writer: Any, *batch: Any) -> Any:
        nonlocal fell_back
        fell_back += writer is fast._writer
        return write_each(writer, *batch)

    monkeypatch.setattr(kind, "write_each", counted)
    for batch_number in range(150):
        runs = []
        for place in range(3):
            for store in (fast, slow):
                run, _ = store.start_run(build.new_run(f"run-{batch_number}-{place}", lease="lease-1"))
                store.signal("default", run.id, build.signal())
            runs.append(run)
        for _ in range(3):
            groups = [likely_group(draw, draw.choice(runs)) for _ in range(draw.randint(1, 4))]
            assert fast.commit(groups, patience=1) == slow.commit(groups, patience=1), (seed, batch_number, groups)
            for run in runs:
                assert loaded(fast, run) == loaded(slow, run), (seed, batch_number, groups)
    assert 50 < fell_back < 440, "both ways were taken"


RUN = Run(1, "default", "run-1", "approve", 1, "{}", "print", RunState.RUNNING, 1, 0, 0, 0, lease="lease-1")

ENGINE_GROUPS: dict[str, list[Move]] = {
    "an intent": [build.new_operation(RUN)],
    "two intents of a gather": [build.new_operation(RUN, "one"), build.new_operation(RUN, "two")],
    "a result and the next intent": [build.succeed(RUN), build.new_operation(RUN, "next")],
    "a refusal and the next attempt": [
        build.move_operation(RUN, "release", "dispatched", "reserved"), build.settle(RUN, "not applied"),
        build.dispatch_again(RUN, "reserved", 2), build.new_attempt(RUN, number=2),
    ],
    "a settled attempt before its operation": [build.settle(RUN), build.applied(RUN)],
    "a later attempt before its operation": [build.settle(RUN, number=2), build.applied(RUN)],
    "a signal that closes a wait": [build.move_signal(RUN), build.move_step(RUN, "finish", "open", "done")],
    "a wait": [build.open_step(RUN), build.move_run(RUN, "wait", "waiting")],
    "a step closed, another opened": [build.move_step(RUN, "finish", "open", "done"), build.open_step(RUN, "b")],
    "the last result": [build.applied(RUN), build.settle(RUN), build.move_run(RUN, "succeed", "succeeded")],
}  # fmt: skip

OTHER_GROUPS: dict[str, list[Move]] = {
    "an operation moved after it was inserted": [build.new_operation(RUN), build.applied(RUN)],
    "an operation moved after it was dispatched": [build.dispatch_again(RUN, "reserved", 1), build.applied(RUN)],
    "an attempt settled after it was inserted": [build.new_attempt(RUN), build.settle(RUN, number=2)],
    "a first attempt settled after it was inserted": [build.new_operation(RUN), build.settle(RUN)],
    "an operation that succeeds after it was inserted": [build.new_operation(RUN), build.succeed(RUN)],
    "an operation moved after its attempt was inserted": [build.new_attempt(RUN), build.applied(RUN)],
    "a step moved after it was opened": [build.open_step(RUN), build.move_step(RUN, "finish", "open", "done")],
    "anything after the run was moved": [build.move_run(RUN, "wait", "waiting"), build.settle(RUN)],
    "the run moved twice": [build.move_run(RUN, "wait", "waiting"), build.move_run(RUN, "wait", "waiting")],
}


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize("name", ENGINE_GROUPS)
def test_the_groups_that_an_engine_makes_are_written_kind_by_kind(name: str, at_once: bool) -> None:
    assert keeps_order(ENGINE_GROUPS[name], at_once=at_once)


@pytest.mark.parametrize("name", OTHER_GROUPS)
def test_groups_whose_own_order_matters_are_written_in_it(name: str) -> None:
    assert not keeps_order(OTHER_GROUPS[name])
