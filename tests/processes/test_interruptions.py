"""Other moments at which a worker dies, and a person who clicks five times: counted at the world as the eight faults.

The moments: between the commit of a dispatch and its first byte, during a wait for approval, during backoff, after a
cancel. Cells and harness are those of `test_eight_faults`.
"""

from concurrent.futures import ThreadPoolExecutor

from fencepost.core.states import RunState
from fencepost.testing.world import Fault
from tests.processes.harness import Cell
from tests.processes.stage import DOOMED
from tests.processes.test_eight_faults import CELLS, FEW, held, refuse
from tests.processes.workflows import BODIES, KITS, PLACES


def test_a_crash_between_the_connection_and_the_first_byte_sends_once(table):
    def scene(stage, cell, run):
        stage.killed_at("http:connect", KITS[cell.rung, cell.body].one.name, run, other=cell.other)
        end = stage.end(run)
        assert (end.state, end.requests["first"], end.objects["first"]) == ("succeeded", 1, 1)
        assert end.held == held(cell)

    table.play(CELLS, scene)


def test_control_who_assumes_that_the_first_byte_left_loses_it(table):
    def scene(stage, cell, run):
        stage.killed_at("http:connect", KITS[cell.rung, cell.body].one.name, run, other=cell.other)
        assert stage.end(run).objects["first"] == 0

    table.play(FEW, scene, control="assume")


def test_a_worker_that_dies_while_its_run_waits_for_approval_costs_nothing(table):
    """The wait is a row; whoever is there when the answer comes goes on, and nothing before it is done again."""

    def scene(stage, cell, run):
        stage.killed_at("after:run:running:wait", KITS[cell.rung, cell.body].approved.name, run, other=cell.other)
        stage.reaches(run, RunState.WAITING)
        stage.signals(run, "go", "yes", "s1")
        stage.signals(run, "go", "yes", "s1")
        end = stage.end(run)
        assert end.state == "succeeded"
        assert (dict(end.requests), dict(end.objects)) == ({"first": 1, "second": 1}, {"first": 1, "second": 1})
        assert [one.state for one in end.history.signals] == ["applied"]
        assert end.held == []

    table.play(CELLS, scene)


def test_a_worker_that_dies_with_the_answer_in_its_hands_takes_it_once(table):
    """The signal is applied and the second effect dispatched in one commit; it dies right after that."""

    def scene(stage, cell, run):
        workflow = KITS[cell.rung, cell.body].approved.name
        doomed = stage.child((workflow, run), kill_at="after:signal:kept:apply")
        doomed.said("begun")
        if cell.other:
            stage.worker()
        stage.signals(run, "go", "yes", "s1")
        if not cell.other:
            doomed.died()
            stage.worker()
        end = stage.end(run)
        assert (end.state, dict(end.objects)) == ("succeeded", {"first": 1, "second": 1})
        assert (end.requests["first"], end.requests["second"]) == (1, 1)
        assert [one.state for one in end.history.signals] == ["applied"]

    table.play(CELLS, scene)


def test_a_worker_that_dies_during_backoff_gives_no_attempt_back(table):
    def scene(stage, cell, run):
        limit = {"do": "answer", "status": 429, "times": None, "body": f'"{run}/first"'}
        stage.strike(PLACES[cell.rung].target, Fault(ordinal=1, retry_after="1", **limit), Fault(ordinal=2, **limit))
        stage.killed_at(
            "after:operation:dispatched:release", KITS[cell.rung, cell.body].one.name, run, other=cell.other
        )
        end = stage.end(run)
        assert (end.state, end.requests["first"], end.objects["first"]) == ("succeeded", 3, 1)
        outcomes = [attempt.outcome for attempt in end.history.operations[0].attempts]
        assert outcomes == ["not applied", "not applied", "applied"]
        assert end.held == []

    table.play(CELLS, scene)


def test_a_worker_that_dies_after_a_cancel_begins_nothing_new_and_undoes_once(table):
    """The cancel reaches the workflow, which compensates; the worker dies when the compensation has been committed."""

    def scene(stage, cell, run):
        workflow = KITS[cell.rung, cell.body].cancelled.name
        hold = Fault(
            do="wait", when="after", hold=True, name=run, ordinal=1, times=None, path="/*/*/*", body=f'"{run}/first"'
        )
        stage.strike(PLACES[cell.rung].target, hold)
        stage.child((workflow, run), lease=DOOMED).said("begun")
        if cell.other:
            stage.child(lease=DOOMED).said("begun")
        stage.reaches(run, RunState.WAITING)
        assert stage.does("cancel", run) == "begun"
        stage.world.until_waiting(run)
        stage.kill_owner(run)
        stage.world.release(run)
        if not cell.other:
            stage.worker()
        end = stage.end(run)
        assert (end.state, dict(end.objects)) == ("compensated", {"first": 1, "undo first": 1})
        assert end.requests["undo first"] == (2 if cell.rung == "key" else 1)
        assert end.requests["second"] == 0
        assert end.held == held(cell)

    table.play(CELLS, scene)


def test_a_person_who_settles_five_times_at_once_settles_once(table):
    def scene(stage, cell, run):
        stage.killed_at("http:first byte in", KITS[cell.rung, cell.body].pair.name, run, other=cell.other)
        history = stage.reaches(run, RunState.HELD)
        made = stage.made(history.operations[0])
        statement = {
            "step": history.operations[0].step, "happened": True, "result": f'{{"id": "{made}"}}', "reference": made
        }  # fmt: skip
        with ThreadPoolExecutor(5) as five:
            said = [*five.map(lambda _: stage.does("settle", run, **statement), range(5))]
        assert sorted(word[:7] for word in said) == ["begun", *["refused"] * 4]
        end = stage.end(run)
        assert (end.state, dict(end.requests)) == ("succeeded", {"first": 1, "second": 1})
        audits = [row.outcome for row in stage.app.store.audits("default", run) if row.verb == "settle"]
        assert sorted(audits) == ["done", *["refused"] * 4]

    table.play([Cell("nothing", body, other) for body in BODIES for other in (False, True)], scene)


def test_a_person_who_retries_five_times_at_once_gives_one_new_budget(table):
    def scene(stage, cell, run):
        limit = {"do": "answer", "status": 429, "times": None, "body": f'"{run}/first"'}
        stage.strike(PLACES[cell.rung].target, *(Fault(ordinal=number, **limit) for number in range(1, 6)))
        stage.child((KITS[cell.rung, cell.body].one.name, run)).said("begun")
        history = stage.reaches(run, RunState.HELD)
        assert (history.operations[0].state, len(history.operations[0].attempts)) == ("failed", 5)
        step = history.operations[0].step
        with ThreadPoolExecutor(5) as five:
            said = [*five.map(lambda _: stage.does("retry", run, step=step), range(5))]
        assert sorted(word[:7] for word in said) == ["begun", *["refused"] * 4]
        end = stage.end(run)
        assert (end.state, end.requests["first"], end.objects["first"]) == ("succeeded", 6, 1)
        assert end.held == []

    table.play(FEW, scene)


def test_a_person_has_a_failed_run_compensated_and_the_audit_says_so(table):
    def scene(stage, cell, run):
        refuse(stage, cell, run)
        stage.child((KITS[cell.rung, cell.body].pair.name, run)).said("begun")
        stage.reaches(run, RunState.FAILED)
        assert stage.does("compensate", run) == "begun"
        end = stage.end(run)
        assert (end.state, dict(end.objects)) == ("compensated", {"first": 1, "undo first": 1})
        [row] = [row for row in stage.app.store.audits("default", run) if row.verb == "compensate"]
        assert (row.actor, row.outcome) == ("ann", "done")
        assert row.before != row.after

    table.play(FEW, scene)
