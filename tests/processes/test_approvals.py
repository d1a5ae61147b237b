"""A worker is killed around the use of an approval: whoever goes on asks for the rights anew before it sends anything.

Real processes, a real SIGKILL, and the directory's own count of what it was asked.
"""

import pytest

from fencepost.core.states import OperationState, RunState
from tests.processes.harness import arrange
from tests.processes.signing import asked, signed, take_the_right
from tests.processes.stage import DOOMED, Stage

ONCE = ["approver:ann", "principal:bob"]
BEFORE_THE_DISPATCH = "before:operation:nothing:dispatch"
AFTER_THE_DISPATCH = "after:operation:nothing:dispatch"


@pytest.fixture
def stage(outside, nursery, tmp_path):
    arrange(outside)
    with Stage(outside, nursery, tmp_path / "stage") as stage:
        yield stage


def approved_and_killed(stage, point, run):
    """A run that was approved, whose worker dies at that point of the dispatch that would use the approval."""
    stage.app.sync.start(signed, run, id=run, on_behalf_of="bob")
    doomed = stage.child(kill_at=point, lease=DOOMED)
    doomed.said("begun")
    stage.reaches(run, RunState.WAITING)
    stage.app.sync.approve(run, "ok", by="ann")
    doomed.died()


def test_killed_between_check_and_dispatch_nothing_was_sent_and_the_heir_checks_again(stage):
    approved_and_killed(stage, BEFORE_THE_DISPATCH, "run-checked")
    assert asked(stage.folder) == ONCE
    assert stage.history("run-checked").operations == []
    assert stage.count("run-checked").requests["alpha"] == 0
    stage.worker()
    end = stage.end("run-checked")
    assert (end.state, end.requests["alpha"], end.objects["alpha"]) == ("succeeded", 1, 1)
    assert asked(stage.folder) == ONCE * 2
    assert end.history.operations[0].approval == "/ok"


def test_a_right_that_is_lost_between_check_and_dispatch_is_lost_for_the_heir(stage):
    approved_and_killed(stage, BEFORE_THE_DISPATCH, "run-lost")
    take_the_right(stage.folder, "bob")
    stage.worker()
    end = stage.end("run-lost")
    assert (end.state, end.requests["alpha"], end.objects["alpha"]) == ("failed", 0, 0)
    [operation] = end.history.operations
    assert (operation.state, operation.approval) == (OperationState.FAILED, None)
    rows = [(row.verb, row.outcome) for row in stage.app.store.audits("default", "run-lost")]
    assert rows[:2] == [("approve", "done"), ("use approval", "refused")]


def test_killed_after_the_dispatch_the_approval_is_used_and_its_call_ends_without_asking_again(stage):
    approved_and_killed(stage, AFTER_THE_DISPATCH, "run-used")
    take_the_right(stage.folder, "ann")
    assert stage.history("run-used").operations[0].approval == "/ok"
    stage.worker()
    end = stage.end("run-used")
    assert (end.state, end.objects["alpha"]) == ("succeeded", 1)
    assert asked(stage.folder) == ONCE
