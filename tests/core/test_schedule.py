"""Which instants a schedule starts: after outages, beside runs that are not over, by jumping clocks, and redeployed."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.core.duration import HOUR, MINUTE, SECOND
from fencepost.core.schedule import (
    STARTS_MAX,
    Declared,
    Definition,
    Plan,
    fire,
    instant_in,
    known_as,
    note_of,
    redeclared,
    resumed,
    run_id,
)
from fencepost.core.states import FINAL_RUN_STATES, RunState

HOURLY = Definition("report", 1, None, "{}", "print", "0 * * * *", "UTC", "allow", "all", 24 * HOUR)
NOON = 500_000 * HOUR


def hourly(instant):
    return (instant // HOUR + 1) * HOUR


def plan(*, next_at=NOON, state=None, waits=False, **changes):
    return Plan(
        1, "default", "nightly", HOURLY._replace(**changes), next_at, "lease-1", NOON, waits=waits,
        last_at=None if state is None else NOON - HOUR, last_run=None if state is None else 7,
        last_run_id=None if state is None else "run-7", last_run_state=state,
    )  # fmt: skip


def hours(firing):
    """The instants that are started, in hours after noon."""
    return [(instant - NOON) // HOUR for instant in firing.starts]


def test_an_instant_that_is_due_is_started_and_the_next_one_awaited():
    firing = fire(plan(), NOON + SECOND, hourly)
    assert firing.starts == (NOON,)
    assert (firing.plan.next_at, firing.plan.note, firing.plan.passed) == (NOON + HOUR, None, 0)


# -- after an outage ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "late", "started", "passed"),
    [
        ("all", 5 * HOUR + SECOND, [0, 1, 2, 3, 4, 5], 0),
        ("last", 5 * HOUR + SECOND, [5], 5),
        ("none", 5 * HOUR + SECOND, [5], 5),
        ("none", 5 * HOUR + 2 * MINUTE, [], 6),
        ("none", SECOND, [0], 0),
        ("none", 2 * MINUTE, [], 1),
    ],
)
def test_what_passed_in_an_outage_is_started_by_policy_and_said(policy, late, started, passed):
    firing = fire(plan(catch_up=policy), NOON + late, hourly)
    assert hours(firing) == started
    assert firing.plan.passed == passed
    assert firing.plan.next_at == hourly(NOON + late)
    assert (note_of(firing.plan).get("why") == "nobody was there") is (passed > 0)


def test_what_is_older_than_the_policy_says_is_not_started_and_that_is_said():
    firing = fire(plan(catch_up_within=2 * HOUR), NOON + 9 * HOUR + SECOND, hourly)
    assert hours(firing) == [8, 9]
    assert note_of(firing.plan)["why"] == "some were too old"


def test_a_long_outage_is_caught_up_in_parts():
    now = NOON + 250 * HOUR
    found = plan(catch_up_within=31 * 24 * HOUR)
    started = []
    while found.next_at <= now:
        firing = fire(found, now, hourly)
        assert len(firing.starts) <= STARTS_MAX
        started += hours(firing)
        found = firing.plan
    assert started == list(range(251))


# -- while the run before is not over ---------------------------------------------------------------------------------


@pytest.mark.parametrize("state", [state for state in RunState if state not in FINAL_RUN_STATES])
def test_to_skip_is_to_leave_out_while_the_run_before_is_not_over_and_to_say_so(state):
    firing = fire(plan(overlap="skip", state=state), NOON + SECOND, hourly)
    assert (firing.starts, firing.plan.next_at, firing.plan.passed) == ((), NOON + HOUR, 1)
    note = note_of(firing.plan)
    assert (note["why"], note["run"], note["state"]) == ("the run before was not over", "run-7", state)


@pytest.mark.parametrize("state", [None, *FINAL_RUN_STATES])
@pytest.mark.parametrize("overlap", ["skip", "queue", "allow"])
def test_a_run_that_is_over_stands_in_nobodys_way(overlap, state):
    assert hours(fire(plan(overlap=overlap, state=state), NOON + SECOND, hourly)) == [0]


def test_to_skip_starts_one_of_many_the_last():
    firing = fire(plan(overlap="skip"), NOON + 3 * HOUR + SECOND, hourly)
    assert (hours(firing), firing.plan.passed) == ([3], 3)


def test_to_queue_is_to_wait_for_the_run_before_however_long_and_then_to_start():
    waiting = fire(plan(overlap="queue", catch_up="last", catch_up_within=HOUR, state=RunState.HELD), NOON, hourly)
    assert (waiting.starts, waiting.plan.next_at, waiting.plan.waits) == ((), NOON, True)
    assert note_of(waiting.plan)["state"] == "held"

    over = replace(waiting.plan, last_run_state=RunState.SUCCEEDED, next_at=NOON)
    assert hours(fire(over, NOON + 30 * MINUTE, hourly)) == [0]


def test_what_waited_is_started_also_without_catching_up():
    over = plan(overlap="queue", catch_up="none", waits=True, state=RunState.SUCCEEDED)
    assert hours(fire(over, NOON + 50 * MINUTE, hourly)) == [0]


def test_a_queue_is_caught_up_one_after_the_other():
    first = fire(plan(overlap="queue"), NOON + 2 * HOUR + SECOND, hourly)
    assert (hours(first), first.plan.next_at, first.waits) == ([0], NOON + HOUR, True)

    ended = replace(first.plan, waits=True, last_run_state=RunState.SUCCEEDED)
    second = fire(ended, NOON + 2 * HOUR + 2 * SECOND, hourly)
    assert (hours(second), second.plan.next_at, second.waits) == ([1], NOON + 2 * HOUR, True)


# -- clocks that jump -------------------------------------------------------------------------------------------------


@given(
    clock=st.lists(st.integers(-3 * HOUR, 9 * HOUR), max_size=30),
    catch_up=st.sampled_from(["all", "last", "none"]),
    overlap=st.sampled_from(["skip", "queue", "allow"]),
    states=st.lists(st.sampled_from([None, RunState.RUNNING, RunState.HELD, RunState.SUCCEEDED]), min_size=30),
)
def test_however_the_clock_is_set_no_instant_is_started_twice_or_out_of_order(clock, catch_up, overlap, states):
    found, now, started = plan(catch_up=catch_up, overlap=overlap), NOON, []
    for move, state in zip(clock, states, strict=False):
        now += move
        found = replace(found, last_run_state=state, last_run_id="r")
        if found.next_at > now:
            continue
        firing = fire(found, now, hourly)
        assert firing.plan.next_at > now or firing.waits
        assert firing.plan.next_at >= found.next_at
        started += firing.starts
        found = replace(firing.plan, waits=firing.waits)
    assert started == sorted(set(started))


def test_what_passed_in_a_pause_is_not_caught_up():
    found = resumed(replace(plan(), paused_at=NOON), NOON + 5 * HOUR + MINUTE, hourly)
    assert (found.paused_at, found.next_at) == (None, NOON + 6 * HOUR)


# -- redeployed -------------------------------------------------------------------------------------------------------

NOW = NOON + 90 * MINUTE
LATER = Declared("nightly", HOURLY._replace(cron="30 * * * *"), NOW + HOUR)


def declared_by(plan, declared, *, began_at=NOW):
    return redeclared(plan, declared, lease="lease-2", began_at=began_at, now=NOW)


def test_new_times_count_from_now_on_and_say_what_they_were():
    found = declared_by(plan(), LATER)
    assert (found.definition.cron, found.next_at) == ("30 * * * *", NOW + HOUR)
    assert note_of(found) == {"kind": "times changed", "at": NOW, "was": "0 * * * * UTC"}


def test_another_policy_or_input_moves_no_instant():
    found = declared_by(plan(), Declared("nightly", HOURLY._replace(input="[]", overlap="skip"), NOW + HOUR))
    assert (found.next_at, found.definition.overlap, found.note) == (NOON, "skip", None)


def test_what_lies_ahead_is_found_anew_since_the_rules_of_a_zone_change():
    ahead = plan(next_at=NOW + 3 * HOUR)
    assert declared_by(ahead, Declared("nightly", HOURLY, NOW + 2 * HOUR)).next_at == NOW + 2 * HOUR


def test_but_never_what_was_started_already():
    started = replace(plan(next_at=NOW + 3 * HOUR), last_at=NOW + 2 * HOUR, last_run=7)
    assert declared_by(started, Declared("nightly", HOURLY, NOW + 2 * HOUR)).next_at == NOW + 3 * HOUR


def test_an_old_worker_does_not_take_back_what_a_newer_one_has_declared_while_that_lives():
    newer = replace(plan(), declared_at=NOON + HOUR, is_declarer_live=True)
    assert declared_by(newer, LATER, began_at=NOON) == newer
    gone = replace(newer, is_declarer_live=False)
    assert declared_by(gone, LATER, began_at=NOON).definition.cron == "30 * * * *"


def test_the_same_declaration_changes_nothing_but_who_has_made_it():
    found = declared_by(plan(), Declared("nightly", HOURLY, NOW + HOUR))
    assert replace(found, declared_by="lease-1", declared_at=NOON, changed_at=0) == plan()


def test_a_new_name_for_the_same_work_is_the_old_schedule_renamed():
    old, renamed = plan(), Declared("nightly-report", HOURLY, NOW + HOUR)
    assert known_as(renamed, [old], others=[]) is old
    found = declared_by(old, renamed)
    assert (found.name, found.formerly, found.next_at) == ("nightly-report", "nightly", NOON)
    assert known_as(Declared("nightly", HOURLY, NOW + HOUR), [found], others=[]) is found


def test_what_the_same_code_declares_beside_it_is_not_the_same():
    assert known_as(Declared("other", HOURLY, NOW), [plan()], others=["nightly"]) is None


@pytest.mark.parametrize(
    "change", [{"workflow": "x"}, {"fingerprint": "x"}, {"cron": "1 * * * *"}, {"zone": "Asia/Tokyo"}]
)
def test_other_work_under_another_name_is_another_schedule(change):
    assert known_as(Declared("other", HOURLY._replace(**change), NOW), [plan()], others=[]) is None


def test_the_instant_is_read_from_the_id_of_its_run():
    at = instant_in(run_id("a:b", "2026-11-30T03:00:00+01:00"))
    assert at is not None
    assert at.isoformat() == "2026-11-30T03:00:00+01:00"
    assert instant_in("invoice:1") is None
