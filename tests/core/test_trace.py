"""The trace of a run is a function of what its ledger holds: the same ids for whoever asks, and nothing left out."""

import json
from dataclasses import replace

from fencepost.core.records import LOOK_UP, REPLY, Attempt, Audit, History, Observation, Operation, Run, Step
from fencepost.core.states import OperationState, Outcome, RunState, StepState
from fencepost.core.trace import Ids, Status, trace_of
from fencepost.telemetry.tree import tree

RUN = Run(
    1, "default", "invoice:1", "pay", 1, "{}", "", RunState.SUCCEEDED, 3, 9, created_at=1_000_000, changed_at=5_000_000,
    ended_at=5_000_000,
)  # fmt: skip
LOOKED = json.dumps({"kind": "look-up", "says": "found"})


def attempt(number, at, *, lease="old", outcome=Outcome.UNRESOLVED, evidence=None, settled_at=None):
    return Attempt(
        number, at, at + 10, at + 20, lease, number, outcome=outcome, evidence=evidence, settled_at=settled_at
    )  # fmt: skip


def operation(*attempts, state=OperationState.SUCCEEDED, seen=(), **more):
    return Operation(
        1, "charge", None, "charge", 1, "k" * 64, 1, '{"card":"secret"}', "", state, 2_000_000, changed_at=4_500_000,
        attempts=list(attempts), observations=list(seen), result='"secret"', **more,
    )  # fmt: skip


def found(kind, trace):
    return [one for one in trace.spans if one.kind == kind]


def test_ids_come_from_namespace_run_and_place_alone():
    assert Ids("default", "invoice:1").trace == "b48f05f67b242c9d0bd102fdc7caa260"  # backends hold it: it never changes
    assert Ids("default", "invoice:1").attempt("charge", 1) == "b4dac961bb64b7ef"
    assert Ids("default", "a").trace != Ids("other", "a").trace
    assert Ids("default", "a:b").trace != Ids("default:a", "b").trace
    places = [Ids("default", "a", turn).attempt(at, number) for turn in (0, 1) for at in "xy" for number in (1, 11)]
    assert len(set(places)) == 8
    assert Ids("default", "a").traceparent("1" * 16) == f"00-{Ids('default', 'a').trace}-{'1' * 16}-01"


def test_an_attempt_that_left_nothing_behind_ended_unknown_when_somebody_went_on():
    seen = Observation(LOOK_UP, "found", LOOKED, 3_200_000, began_at=3_000_000, lease="new", generation=2)
    lost = attempt(1, 2_000_000, outcome=Outcome.APPLIED, evidence=LOOKED, settled_at=3_200_000)
    trace = trace_of([History(RUN, operations=[operation(lost, seen=[seen])])])

    [one] = found("attempt", trace)
    assert (one.status, one.ended_at, one.says) == (Status.UNKNOWN, 3_000_000, "ended unknown; applied by look-up")
    [look] = found("look-up", trace)
    assert (look.began_at, look.ended_at, look.says) == (3_000_000, 3_200_000, "found")
    assert look.attributes["generation"] == 2
    assert look.parent == one.parent == Ids.of(RUN).step("charge")


def test_an_attempt_whose_own_process_said_what_became_of_it_ended_so():
    told = attempt(
        1, 2_000_000, outcome=Outcome.APPLIED, evidence='{"kind":"reply","status":201}', settled_at=2_100_000
    )
    [one] = found("attempt", trace_of([History(RUN, operations=[operation(told)])]))
    assert (one.status, one.ended_at, one.says) == (Status.WELL, 2_100_000, "applied")


def test_what_is_still_being_sent_is_open_and_not_told_yet():
    running = replace(RUN, state=RunState.RUNNING, ended_at=None)
    sent = operation(attempt(1, 2_000_000), state=OperationState.DISPATCHED)
    trace = trace_of([History(running, operations=[sent])])
    assert {one.kind: one.status for one in trace.spans} == dict.fromkeys(("run", "effect", "attempt"), Status.OPEN)
    assert not any(one.settled_at or one.ended_at for one in trace.spans)


def test_what_is_unknown_is_shown_as_such_and_may_still_be_told_otherwise():
    held = replace(RUN, state=RunState.HELD, ended_at=None, hold='{"reason":"nobody can tell","step":"charge"}')
    trace = trace_of([History(held, operations=[operation(attempt(1, 2_000_000), state=OperationState.UNKNOWN)])])
    [one] = found("attempt", trace)
    assert (one.status, one.ended_at, one.settled_at) == (Status.UNKNOWN, 4_500_000, None)
    [asked] = found("decision", trace)
    assert asked.name == "decision: ask a person"
    assert asked.attributes["reason"] == "nobody can tell"


def test_sending_again_is_a_decision_that_says_what_was_known():
    refused = json.dumps({"kind": "reply", "status": 429})
    first = attempt(1, 2_000_000, outcome=Outcome.NOT_APPLIED, evidence=refused, settled_at=2_100_000)
    second = attempt(2, 2_200_000)
    third = attempt(3, 2_300_000, outcome=Outcome.APPLIED, evidence=refused, settled_at=2_400_000)
    decisions = found("decision", trace_of([History(RUN, operations=[operation(first, second, third)])]))
    assert [one.attributes["unknown.before"] for one in decisions] == [0, 1]
    assert len({one.id for one in decisions}) == 2


def test_the_late_word_of_a_former_owner_is_a_span_of_its_own_and_changes_no_other():
    told = attempt(1, 2_000_000, outcome=Outcome.APPLIED, evidence=LOOKED, settled_at=3_000_000)
    late = Observation(REPLY, "applied", '{"kind":"reply"}', 3_500_000, attempt=1, generation=1, current=False)
    without = trace_of([History(RUN, operations=[operation(told)])])
    trace = trace_of([History(RUN, operations=[operation(told, seen=[late])])])
    [one] = found("late reply", trace)
    assert one.began_at == 3_500_000
    assert [each for each in trace.spans if each.kind != "late reply"] == without.spans


def test_a_conflict_is_never_shown_as_a_success():
    told = attempt(1, 2_000_000, outcome=Outcome.APPLIED, evidence='{"kind":"reply"}', settled_at=2_100_000)
    [one] = found("effect", trace_of([History(RUN, operations=[operation(told, conflict=True)])]))
    assert (one.status, one.settled_at) == (Status.UNKNOWN, None)


def test_a_compensation_a_verb_and_a_child_have_their_places():
    undo = replace(operation(attempt(1, 3_000_000)), step="compensate charge", compensates="charge")
    child = replace(RUN, no=2, id="child:1", parent=1, parent_step="/child:1")
    step = Step("/child:1", "child", "ship", "", StepState.DONE, 2_000_000, closed_at=2_500_000)
    row = Audit(4_000_000, "ann", "settle", RUN.id, "done", "seen at the bank", "{}", "{}", step="charge", no=7)
    other = replace(row, step=None, verb="cancel", outcome="refused", no=8)
    done = operation(attempt(1, 2_000_000))
    history = History(RUN, steps=[step], operations=[done, undo], children=[child])
    trace = trace_of([history], [row, other])
    ids = Ids.of(RUN)
    [compensation] = found("compensation", trace)
    assert compensation.attributes["compensates"] == "charge"
    [inner] = found("child", trace)
    assert inner.attributes["child.trace"] == Ids.of(child).trace
    settle, cancel = found("verb", trace)
    assert (settle.parent, cancel.parent) == (ids.step("charge"), ids.run)
    assert (settle.status, cancel.status) == (Status.WELL, Status.BADLY)


def test_turns_of_a_run_are_in_its_one_trace_below_the_first():
    first = replace(RUN, state=RunState.CONTINUED)
    second = replace(RUN, no=2, turn=1, created_at=5_000_000, ended_at=6_000_000)
    trace = trace_of([History(first), History(second)])
    assert [one.parent for one in trace.spans] == [None, Ids.of(first).run]
    assert {one.id for one in trace.spans} == {Ids.of(first).run, Ids.of(second).run}


def test_no_payload_result_or_persons_reason_is_in_a_trace():
    row = Audit(4_000_000, "ann", "settle", RUN.id, "done", "secret reason", "{}", "{}", step="charge", no=7)
    told = attempt(1, 2_000_000, outcome=Outcome.APPLIED, evidence='{"kind":"reply","body":"secret"}', settled_at=1)
    step = Step("/x", "model", "x", "", StepState.DONE, 1, request='"secret"', result='"secret"', closed_at=2)
    trace = trace_of([History(replace(RUN, input='"secret"', result='"secret"'), [step], [operation(told)])], [row])
    assert "secret" not in repr(trace)


def test_what_was_purged_or_encrypted_is_traced_by_its_times():
    told = attempt(1, 2_000_000, outcome=Outcome.APPLIED, evidence='{ "purged":{}}', settled_at=2_100_000)
    [one] = found("attempt", trace_of([History(replace(RUN, hold='{ "purged":{}}'), operations=[operation(told)])]))
    assert one.says == "applied"


def test_the_tree_has_a_line_for_each_span_and_shows_those_of_a_missing_first_turn():
    later = History(replace(RUN, no=2, turn=4), [Step("/x", "model", "x", "", StepState.DONE, 1_000_000, closed_at=2)])
    lines = [*tree(trace_of([later]))]
    assert lines[0] == f"trace {Ids.of(RUN).trace} of run invoice:1"
    assert len(lines) == 3
    assert "└─ model x: done" in lines[2]
