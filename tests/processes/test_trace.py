"""A run whose worker is killed twice has one trace: two attempts that ended unknown, and the one that tells.

Real workers, real SIGKILL; what the target holds is counted at the world.
"""

import json
import subprocess
import sys

import pytest

from fencepost.core.states import Outcome
from fencepost.core.trace import Ids, Status
from fencepost.runtime.tracing import read_trace
from fencepost.telemetry.tree import tree
from fencepost.testing.world import Fault
from tests.processes.harness import arrange
from tests.processes.stage import DOOMED, Stage
from tests.processes.workflows import KITS

FENCEPOST = [sys.executable, "-c", "import sys; from fencepost.cli.main import main; sys.exit(main())"]


@pytest.fixture
def stage(outside, nursery, tmp_path):
    arrange(outside)
    with Stage(outside, nursery, tmp_path / "stage") as stage:
        yield stage


def killed_twice(stage, run):
    """Kill the owner twice, each time after the target has committed the effect and before it answers."""
    for ordinal in (1, 2):
        stage.strike("books", held(run, ordinal))
    stage.child((KITS["key", "async"].one.name, run), lease=DOOMED).said("begun")
    for ordinal in (1, 2):
        name = f"{run} {ordinal}"
        stage.world.until_waiting(name)
        stage.kill_owner(run)
        stage.child(lease=DOOMED).said("begun")
        stage.world.release(name)


def held(run, ordinal):
    body = f'"{run}/first"'
    return Fault(do="wait", when="after", hold=True, name=f"{run} {ordinal}", ordinal=ordinal, times=None, body=body)


def test_a_run_that_was_killed_twice_has_one_trace_in_which_both_lost_attempts_ended_unknown(stage):
    run = "traced-1"
    killed_twice(stage, run)
    end = stage.end(run)
    assert (end.state, end.requests["first"], end.objects["first"]) == ("succeeded", 3, 1)

    trace = read_trace(stage.app.store, end.history.run)

    attempts = [one for one in trace.spans if one.kind == "attempt"]
    assert [one.attributes["generation"] for one in attempts] == [1, 2, 3]
    assert len({one.attributes["lease"] for one in attempts}) == 3
    assert [one.status for one in attempts] == [Status.UNKNOWN, Status.UNKNOWN, Status.WELL]
    assert [one.attributes["outcome"] for one in attempts] == [Outcome.UNRESOLVED, Outcome.UNRESOLVED, Outcome.APPLIED]
    # Each lost attempt is over, at the latest, when the next worker goes on: not before it began, and not for ever.
    assert all(one.began_at <= one.ended_at <= attempts[-1].ended_at for one in attempts)
    assert len({one.id for one in trace.spans}) == len(trace.spans)
    assert trace.id == Ids("default", run).trace
    assert all(one.is_settled for one in trace.spans)
    [root] = trace.below(None)
    assert (root.kind, root.status) == ("run", Status.WELL)

    again = read_trace(stage.app.store, end.history.run)
    assert again == trace

    [printed] = [[*tree(trace)]]
    assert sum("ended unknown" in line for line in printed) == 2
    said = subprocess.run([*FENCEPOST, "trace", run, "--db", stage.ledger], capture_output=True, text=True, check=True)
    assert said.stdout.splitlines() == printed
    document = subprocess.run(
        [*FENCEPOST, "trace", run, "--db", stage.ledger, "--json"], capture_output=True, text=True, check=True
    )
    told = json.loads(document.stdout)
    assert told["trace"] == trace.id
    assert [one["id"] for one in told["spans"]] == [one.id for one in trace.spans]
