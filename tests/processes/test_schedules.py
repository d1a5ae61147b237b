"""Schedules under SIGKILL: whoever dies in the middle of a firing, each instant is started once.

Counted at the world: one effect an instant.
"""

import asyncio
from collections import Counter

import pytest

from fencepost.core.duration import MINUTE
from fencepost.core.schedule import instant_in
from fencepost.core.states import RunState
from fencepost.store.api import RunFilter
from fencepost.store.open import wall_clock
from tests.polling import until
from tests.processes import child
from tests.processes.harness import arrange
from tests.processes.stage import DOOMED, Stage

MINUTES = 6
SCHEDULES = 3


@pytest.fixture
def stage(outside, nursery, tmp_path):
    arrange(outside)
    with Stage(outside, nursery, tmp_path / "stage") as stage:
        yield stage


def declare_in_the_past(stage, names):
    """Have a worker declare them some minutes ago, and end."""
    app = child.make_app(stage._told("20s", "200ms") | {"schedules": names})
    app.clock = lambda: wall_clock() - MINUTES * MINUTE

    async def live() -> None:
        async with app, app.worker():
            pass

    asyncio.run(live())


def name_of(run):
    return run.id.split(":")[1]


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_worker_killed_while_it_fires_and_two_that_go_on_start_each_instant_once(stage, when):
    names = [f"{when}-{number}" for number in range(SCHEDULES)]
    declare_in_the_past(stage, names)
    # Starts are counted through all schedules: this one is in the middle of the second.
    point = f"{when}:run:nothing:release#{MINUTES + MINUTES // 2}"
    stage.child(schedules=names, kill_at=point, lease=DOOMED).died()
    left = Counter(map(name_of, stage.app.store.runs(RunFilter("default", limit=1_000))))

    heirs = [stage.child(schedules=names) for _ in range(2)]
    for heir in heirs:
        heir.said("begun")

    def over():
        runs = stage.app.store.runs(RunFilter("default", limit=1_000))
        plans = stage.app.store.schedules("default")
        decided = all(plan.next_at > stage.app.store.now() for plan in plans)
        return decided and all(run.state is RunState.SUCCEEDED for run in runs) and runs

    runs = until(over, "every instant to be started and to end", seconds_max=60, seconds_between=0.05)
    for heir in heirs:
        assert heir.ended() == 0

    # A commit is whole or was never made.
    assert len(left) == (1 if when == "before" else 2)
    assert all(number >= MINUTES for number in left.values()), left
    instants = Counter(map(name_of, runs))
    assert all(number >= MINUTES for number in instants.values()), instants
    assert len(instants) == SCHEDULES
    assert {stage.count(run.id).objects["alpha"] for run in runs} == {1}
    assert all(instant_in(run.id).second == 0 for run in runs)
