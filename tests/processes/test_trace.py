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
from tests.polling import until
from tests.processes.harness import arrange
from tests.processes.stage import DOOMED, Stage
from tests.processes.workflows import KITS

FENCEPOST = [sys.executable, "-c", "import sys; from fencepost.cli.main import main; sys.exit(main())"]


@pytest.fixture
def stage(outside, nursery, tmp_path):
    arrange(outside)
    with Stage(outside, nursery, tmp_path / "stage") as stage:
        yield stage


def killed_twice(stage, run, workflow, step, **told):
    """Kill the owner twice, each time after the target has committed the effect and before it answers."""
    for ordinal in (1, 2):
        stage.strike("books", held(run, step, ordinal))
    stage.child((workflow.name, run), lease=DOOMED, **told).said("begun")
    for ordinal in (1, 2):
        name = f"{run} {ordinal}"
        stage.world.until_waiting(name)
        stage.kill_owner(run)
        stage.child(lease=DOOMED, **told).said("begun")
        stage.world.release(name)


def held(run, step, ordinal):
    body = f'"{run}/{step}"'
    return Fault(do="wait", when="after", hold=True, name=f"{run} {ordinal}", ordinal=ordinal, times=None, body=body)


def test_a_run_that_was_killed_twice_has_one_trace_in_which_both_lost_attempts_ended_unknown(stage):
    run = "traced-1"
    killed_twice(stage, run, KITS["key", "async"].one, "first")
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
    assert all(one.settled_at for one in trace.spans)
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


def test_what_killed_workers_did_is_told_by_those_who_went_on_and_every_span_is_one(stage):
    run, file = "traced-2", stage.folder / "spans.jsonl"
    # The first effect is done and settled before the first kill; its worker dies before it tells anybody.
    killed_twice(stage, run, KITS["key", "async"].pair, "second", traces=str(file))
    end = stage.end(run)
    trace = read_trace(stage.app.store, end.history.run)

    def told():
        lines = file.read_text().splitlines() if file.exists() else []
        return {line["span"]["id"]: (line["pid"], line["span"]) for line in map(json.loads, lines)}

    spans = [one for one in trace.spans if one.kind != "verb"]  # the stage's person has no tracer provider
    wanted = {one.id for one in spans}
    until(lambda: told().keys() >= wanted, "every span to be told")

    found = told()
    assert found.keys() == wanted
    assert {span["trace"] for _, span in found.values()} == {trace.id}
    assert len({pid for pid, _ in found.values()}) == 1, "the two that were killed told nothing"
    done, first, second, third = (found[one.id][1] for one in spans if one.kind == "attempt")
    assert (done["status"], done["attributes"]["fencepost.generation"]) == ("OK", 1)
    assert [first["status"], second["status"], third["status"]] == ["ERROR", "ERROR", "OK"]
    assert first["says"] == second["says"] == "ended unknown"
    assert first["attributes"]["fencepost.generation"] == 1
    for one in spans:
        said = found[one.id][1]
        assert said["parent"] == one.parent
        assert said["times"] == [one.began_at * 1_000, one.ended_at * 1_000]
