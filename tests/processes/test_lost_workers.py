"""Workers that are lost for good: by a run that ends its own process, and under a name that somebody else takes over.

Real processes, a real SIGKILL; a supervisor starts another one for each that is gone.
"""

import json

import pytest

from fencepost.core.states import LeaseState, RunState
from fencepost.store.api import RunFilter
from fencepost.testing.world import Fault
from tests.polling import until
from tests.processes.harness import arrange
from tests.processes.lethal import deliveries, ordinary, poison
from tests.processes.stage import DOOMED, Stage
from tests.processes.stories import alpha, plain

NEIGHBOURS = 20
WORKERS = 3


@pytest.fixture
def stage(outside, nursery, tmp_path):
    arrange(outside)
    with Stage(outside, nursery, tmp_path / "stage") as stage:
        yield stage


def hold_until_lost(name):
    """The target commits the run's effect and keeps the reply."""
    return Fault(do="wait", when="after", hold=True, name="lost", ordinal=1, times=None, body=f'"{name}/alpha"')


class Supervisor:
    """Keeps so many workers alive."""

    def __init__(self, stage, workers):
        self._stage = stage
        self._alive = [self._begun() for _ in range(workers)]
        self.replaced = 0

    def _begun(self):
        one = self._stage.child(lease=DOOMED)
        one.said("begun")
        return one

    def look(self):
        """Replace each worker that is gone."""
        for number, one in enumerate(self._alive):
            if one.code() is not None:
                self._alive[number] = self._begun()
                self.replaced += 1


def states(stage):
    return {run.id: run for run in stage.app.store.runs(RunFilter("default", limit=1_000))}


@pytest.mark.parametrize("together", [True, False], ids=["all in one worker", "spread over three"])
def test_a_run_that_ends_its_own_process_is_held_at_the_limit_and_its_neighbours_are_not(stage, together):
    """C21: deliveries are counted although no body ever returned, and a neighbour is not charged with the crash."""
    suffix = "together" if together else "spread"
    names = [f"c21-{suffix}-{number}" for number in range(NEIGHBOURS)]
    starts = [*((ordinary.name, name) for name in names), (poison.name, f"poison-{suffix}")]
    if together:
        # Its neighbours are in work, most of them waiting for their replies, in the very process that it ends.
        stage.strike(alpha.declared.target, *(hold_until_lost(name) for name in names))
        stage.child(*starts, lease=DOOMED).died()
    else:
        starter = stage.child(*starts, working=False)
        starter.said("begun")
        assert starter.ended() == 0
    supervisor = Supervisor(stage, WORKERS)

    def over():
        supervisor.look()
        found = states(stage)
        return all(found[name].state in (RunState.SUCCEEDED, RunState.HELD) for _, name in starts)

    until(over, "every run to end or to be held", seconds_max=60, seconds_between=0.05)
    stage.world.release("lost")

    found = states(stage)
    assert {found[name].state for name in names} == {RunState.SUCCEEDED}
    assert {stage.count(name).objects["alpha"] for name in names} == {1}
    held = found[f"poison-{suffix}"]
    assert json.loads(held.hold)["reason"] == "WorkersLost"
    assert deliveries(stage.folder, f"poison-{suffix}") == 3
    live = {lease.id for lease in stage.app.store.leases() if lease.state is LeaseState.LIVE}
    assert all(run.lease in live for run in found.values() if run.state is RunState.RUNNING)


def test_what_a_dead_worker_had_is_found_though_another_of_its_name_is_there_at_once(stage):
    """C26: identity is per process life, so that a namesake hides nothing."""
    run = "c26-1"
    stage.strike(alpha.declared.target, hold_until_lost(run))
    first = stage.child((plain.name, run), lease=DOOMED)
    stage.world.until_waiting("lost")
    first.kill()
    namesake = stage.child(lease=DOOMED)
    namesake.said("begun")
    stage.world.release("lost")

    end = stage.end(run)

    assert (end.state, end.objects["alpha"]) == ("succeeded", 1)
    [attempt, *_] = end.history.operations[0].attempts
    assert attempt.generation == 1
    assert end.history.run.generation == 2
