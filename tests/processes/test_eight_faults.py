"""The eight fault tests: real workers, a real SIGKILL, and requests and objects counted at the world's own files.

Each is played for every rung, kind of body and successor, and then once more with reconciliation switched off, where
it must go wrong: otherwise it would prove nothing. What a cell is, and how it is played, is in `harness`.
"""

from fencepost.testing.world import Fault
from tests.processes.harness import Cell
from tests.processes.stage import DOOMED
from tests.processes.workflows import BODIES, KITS, PLACES, RUNGS

CELLS = [Cell(rung, body, other) for rung in RUNGS for body in BODIES for other in (False, True)]
FEW = [Cell(rung, body) for rung in RUNGS for body in BODIES]
"""For the controls: who goes on makes no difference to them."""

CANNOT_BE_ASKED = "unknown outcome, and the target cannot be asked"


def held(cell):
    return [CANNOT_BE_ASKED] if cell.rung == "nothing" else []


# -- 1 ----------------------------------------------------------------------------------------------------------------


def test_1_a_crash_before_the_request_loses_nothing_and_sends_once(table):
    def scene(stage, cell, run):
        stage.killed_at("after:operation:nothing:dispatch", KITS[cell.rung, cell.body].one.name, run, other=cell.other)
        end = stage.end(run)
        assert (end.state, end.requests["first"], end.objects["first"]) == ("succeeded", 1, 1)
        assert end.held == held(cell)

    table.play(CELLS, scene)


def test_1_control_who_assumes_that_it_was_sent_loses_it(table):
    def scene(stage, cell, run):
        stage.killed_at("after:operation:nothing:dispatch", KITS[cell.rung, cell.body].one.name, run, other=cell.other)
        end = stage.end(run)
        assert (end.state, end.objects["first"]) == ("succeeded", 0)

    table.play(FEW, scene, control="assume")


# -- 2 ----------------------------------------------------------------------------------------------------------------


def test_2_a_crash_after_the_target_committed_and_before_the_result_is_stored_makes_no_second_object(table):
    def scene(stage, cell, run):
        stage.killed_at("http:first byte in", KITS[cell.rung, cell.body].one.name, run, other=cell.other)
        end = stage.end(run)
        assert (end.state, end.objects["first"]) == ("succeeded", 1)
        assert end.requests["first"] == (2 if cell.rung == "key" else 1)
        assert (end.keys["first"], end.bodies["first"]) == (1, 1)
        assert end.held == held(cell)

    table.play(CELLS, scene)


def test_2_control_who_sends_again_without_asking_makes_a_second_object(table):
    def scene(stage, cell, run):
        stage.killed_at("http:first byte in", KITS[cell.rung, cell.body].one.name, run, other=cell.other)
        end = stage.end(run)
        assert (end.state, end.objects["first"]) == ("succeeded", 2)

    table.play(FEW, scene, control="again")


# -- 3 ----------------------------------------------------------------------------------------------------------------


def limit_twice(stage, cell, run):
    """The target answers 429 to the first two requests of the run."""
    for ordinal in (1, 2):
        limit = Fault(do="answer", status=429, ordinal=ordinal, times=None, body=f'"{run}/first"')
        stage.strike(PLACES[cell.rung].target, limit)


def die_at_the_success(stage, cell, run):
    """The third reply is the success; it is never stored."""
    workflow = KITS[cell.rung, cell.body].one.name
    stage.killed_while(PLACES[cell.rung].target, workflow, run, other=cell.other, ordinal=3)


def test_3_two_rate_limits_and_then_success_make_one_object_whoever_dies(table):
    def scene(stage, cell, run):
        limit_twice(stage, cell, run)
        die_at_the_success(stage, cell, run)
        end = stage.end(run)
        assert (end.state, end.objects["first"]) == ("succeeded", 1)
        assert end.requests["first"] == (4 if cell.rung == "key" else 3)
        assert len(end.history.operations[0].attempts) == end.requests["first"]
        assert (end.keys["first"], end.bodies["first"]) == (1, 1)
        assert end.held == held(cell)

    table.play(CELLS, scene)


def test_3_without_a_crash_three_requests_make_one_object_and_nobody_is_asked(table):
    def scene(stage, cell, run):
        limit_twice(stage, cell, run)
        stage.child((KITS[cell.rung, cell.body].one.name, run)).said("begun")
        end = stage.end(run)
        assert (end.state, end.requests["first"], end.objects["first"]) == ("succeeded", 3, 1)
        assert end.held == []

    table.play(FEW, scene)


def test_3_control_who_sends_again_without_asking_makes_a_second_object(table):
    def scene(stage, cell, run):
        limit_twice(stage, cell, run)
        die_at_the_success(stage, cell, run)
        end = stage.end(run)
        assert (end.state, end.objects["first"]) == ("succeeded", 2)

    table.play(FEW, scene, control="again")


# -- 4 ----------------------------------------------------------------------------------------------------------------


def refuse(stage, cell, run, step="second", status=401):
    stage.strike(
        PLACES[cell.rung].target, Fault(do="answer", status=status, times=None, body=f'"{run}/{step}"', name=run)
    )


def test_4_a_permanent_authorisation_error_is_sent_once_and_spends_no_budget(table):
    def scene(stage, cell, run):
        refuse(stage, cell, run)
        stage.killed_at("http:first byte in", KITS[cell.rung, cell.body].pair.name, run, other=cell.other)
        end = stage.end(run)
        assert (end.state, end.objects["first"]) == ("failed", 1)
        assert (end.requests["second"], end.objects["second"]) == (1, 0)
        refused = end.history.operations[1]
        assert (refused.state, [attempt.outcome for attempt in refused.attempts]) == ("failed", ["not applied"])
        assert "401" in end.history.run.error
        assert end.held == held(cell)

    table.play(CELLS, scene)


def test_4_control_who_sends_again_without_asking_makes_a_second_object_before_it(table):
    def scene(stage, cell, run):
        refuse(stage, cell, run)
        stage.killed_at("http:first byte in", KITS[cell.rung, cell.body].pair.name, run, other=cell.other)
        end = stage.end(run)
        assert (end.state, end.objects["first"], end.objects["second"]) == ("failed", 2, 0)

    table.play(FEW, scene, control="again")


# -- 5 ----------------------------------------------------------------------------------------------------------------


def test_5_a_restart_after_a_stored_model_decision_asks_the_model_no_second_time(table):
    def scene(stage, cell, run):
        stage.killed_at("http:first byte in", KITS[cell.rung, cell.body].chosen.name, run, other=cell.other)
        end = stage.end(run)
        assert (end.state, end.objects["first"]) == ("succeeded", 1)
        assert stage.questions() == 1
        assert end.held == held(cell)

    table.play(CELLS, scene)


def test_5_control_the_decision_is_kept_but_acted_on_twice(table):
    def scene(stage, cell, run):
        stage.killed_at("http:first byte in", KITS[cell.rung, cell.body].chosen.name, run, other=cell.other)
        end = stage.end(run)
        assert (stage.questions(), end.objects["first"]) == (1, 2)

    table.play(FEW, scene, control="again")


# -- 6 ----------------------------------------------------------------------------------------------------------------

IN_THE_MIDDLE_OF_UNDOING = "http:first byte in#4"
"""Two effects, the refusal of the third, and the reply to the first compensation, which is never stored."""


def test_6_a_later_step_fails_after_two_effects_and_both_are_compensated_in_reverse_order(table):
    def scene(stage, cell, run):
        refuse(stage, cell, run, "third")
        stage.killed_at(IN_THE_MIDDLE_OF_UNDOING, KITS[cell.rung, cell.body].undone.name, run, other=cell.other)
        end = stage.end(run)
        assert end.state == "compensated"
        assert dict(end.objects) == {"first": 1, "second": 1, "undo second": 1, "undo first": 1}
        assert end.undone == ["undo second", "undo first"]
        assert end.requests["undo second"] == (2 if cell.rung == "key" else 1)
        assert (end.requests["undo first"], end.requests["third"], end.objects["third"]) == (1, 1, 0)
        settled = [row for row in stage.app.store.audits("default", run) if row.outcome == "done"]
        assert [row.verb for row in settled] == ["settle" for _ in held(cell)]
        assert all(row.actor == "ann" and row.reason and row.before != row.after for row in settled)
        assert end.held == held(cell)

    table.play(CELLS, scene)


def test_6_control_who_sends_again_without_asking_undoes_twice(table):
    def scene(stage, cell, run):
        refuse(stage, cell, run, "third")
        stage.killed_at(IN_THE_MIDDLE_OF_UNDOING, KITS[cell.rung, cell.body].undone.name, run, other=cell.other)
        end = stage.end(run)
        assert end.requests["undo second"] == 2
        # Cancelling a task twice leaves one cancelled task; that it was asked for twice is what is wrong there.
        assert end.objects["undo second"] == (1 if cell.rung == "nothing" else 2)

    table.play(FEW, scene, control="again")


# -- 7 ----------------------------------------------------------------------------------------------------------------


def refuse_to_undo(stage, cell, run, *steps):
    """The third step is refused, and so are the compensations of the given steps."""
    faults = [Fault(do="answer", status=403, times=None, path="/*/*/*", body=f'"{run}/{step}"') for step in steps]
    stage.strike(PLACES[cell.rung].target, *faults)
    refuse(stage, cell, run, "third")


def test_7_a_compensation_that_fails_stays_visible_and_the_run_never_ends_clean(table):
    def scene(stage, cell, run):
        refuse_to_undo(stage, cell, run, "first")
        stage.killed_at(IN_THE_MIDDLE_OF_UNDOING, KITS[cell.rung, cell.body].undone.name, run, other=cell.other)
        end = stage.end(run)
        assert end.state == "partly compensated"
        assert dict(end.objects) == {"first": 1, "second": 1, "undo second": 1}
        assert end.requests["undo first"] == 1
        assert "first" in end.history.run.error
        assert end.held == held(cell)

    table.play(CELLS, scene)


def test_7_where_no_compensation_succeeds_the_run_says_so(table):
    def scene(stage, cell, run):
        refuse_to_undo(stage, cell, run, "first", "second")
        stage.child((KITS[cell.rung, cell.body].undone.name, run)).said("begun")
        end = stage.end(run)
        assert (end.state, end.undone) == ("compensation failed", [])

    table.play(FEW, scene)


def test_7_control_who_sends_again_without_asking_undoes_twice(table):
    def scene(stage, cell, run):
        refuse_to_undo(stage, cell, run, "first")
        stage.killed_at(IN_THE_MIDDLE_OF_UNDOING, KITS[cell.rung, cell.body].undone.name, run, other=cell.other)
        assert stage.end(run).requests["undo second"] == 2

    table.play(FEW, scene, control="again")


# -- 8 ----------------------------------------------------------------------------------------------------------------


def deliver_twice(stage, cell, run, *, kill_the_owner):
    """Two processes start the same run at the same moment; the one that has it may be killed in mid-effect."""
    hold = Fault(do="wait", when="after", hold=True, name=run, ordinal=1, times=None, body=f'"{run}/first"')
    stage.strike(PLACES[cell.rung].target, hold)
    workflow = KITS[cell.rung, cell.body].one.name
    two = [stage.child((workflow, run), at_once=True, lease=DOOMED) for _ in range(2)]
    for one in two:
        one.said("armed")
    for one in two:
        one.go()
    for one in two:
        one.said("begun")
    stage.world.until_waiting(run)
    if kill_the_owner:
        stage.kill_owner(run)
    stage.world.release(run)


def test_8_the_same_event_delivered_twice_at_once_is_one_run_and_one_object(table):
    def scene(stage, cell, run):
        deliver_twice(stage, cell, run, kill_the_owner=cell.other)
        end = stage.end(run)
        assert (end.state, end.objects["first"]) == ("succeeded", 1)
        assert end.requests["first"] == (2 if cell.other and cell.rung == "key" else 1)
        assert end.held == (held(cell) if cell.other else [])
        # A third delivery, after the end, finds the same run and moves nothing.
        late = stage.child((KITS[cell.rung, cell.body].one.name, run))
        late.said("begun")
        assert late.ended() == 0
        assert stage.count(run).requests == end.requests

    table.play(CELLS, scene)


def test_8_control_who_sends_again_without_asking_makes_a_second_object(table):
    def scene(stage, cell, run):
        deliver_twice(stage, cell, run, kill_the_owner=True)
        assert stage.end(run).objects["first"] == 2

    table.play(FEW, scene, control="again")
