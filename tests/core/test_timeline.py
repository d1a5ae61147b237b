"""Whatever a picture of a run folds, it counts: nothing that failed, is unknown or was refused is left out of it."""

from collections import Counter
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from fencepost.core.duration import DAY
from fencepost.core.folding import fold
from fencepost.core.lanes import EVENTFUL, LANES_MAX
from fencepost.core.records import History, Lease
from fencepost.core.states import LeaseState, OperationState, Outcome, RunState
from fencepost.core.timeline import SHAPES_MAX, STEPS_MAX, timeline_of
from fencepost.core.trace import Status, trace_of
from tests.core.pictured import BEGAN, attempt, histories, late, operation, run, step, verb, with_a_zombie

NOW = BEGAN + 40 * DAY


def shapes(row):
    return [one for lane in row.lanes for one in (*lane.bars, *lane.marks)]


def eventful(history):
    """How many attempts failed or ended unknown, and how many reports were refused."""
    spans = trace_of([history]).spans
    hurt = sum(one.kind == "attempt" and one.status in EVENTFUL for one in spans)
    return hurt, sum(one.kind == "late reply" for one in spans)


@given(st.lists(st.integers(0, 3), max_size=60), st.integers(1, 20))
def test_folding_leaves_nothing_out_and_keeps_the_order(things, room):
    groups = fold(things, room, alike=lambda one: one, eventful=lambda one: one == 3)
    assert [one for group in groups for one in group] == things
    assert len(groups) <= room
    if len(things) <= room:
        assert all(len(group) == 1 for group in groups)


@given(st.lists(st.integers(0, 3), max_size=60))
def test_what_is_eventful_stays_alone_while_there_is_room(things):
    hurt = things.count(3)
    groups = fold(things, 2 * hurt + 1, alike=lambda one: one, eventful=lambda one: one == 3)
    assert [group for group in groups if 3 in group] == [[3]] * hurt


@given(histories(), st.sampled_from([1, 2, 5, STEPS_MAX]), st.booleans())
def test_every_step_is_counted_however_much_is_folded(history, steps_max, eventful_first):
    shown = timeline_of(history, now=NOW, steps_max=steps_max, eventful_first=eventful_first)
    counted = sum((Counter(row.tally) for row in shown.steps), Counter())
    assert counted == shown.tally
    assert sum(row.many for row in shown.steps) == len(history.steps) + len(history.operations)
    hurt, refused = eventful(history)
    assert counted["late reply refused"] == refused
    assert sum(count for what, count in counted.items() if what.startswith("attempt ")) == hurt


@given(histories(), st.sampled_from([1, 2, 5, STEPS_MAX]), st.booleans())
def test_every_attempt_that_failed_or_is_unknown_and_every_refused_report_is_drawn(history, steps_max, eventful_first):
    shown = timeline_of(history, now=NOW, steps_max=steps_max, eventful_first=eventful_first)
    hurt, refused = eventful(history)
    drawn = [one for row in shown.steps for one in shapes(row)]
    in_bars = sum(one.many for one in drawn if getattr(one, "kind", "") == "attempt" and one.status in EVENTFUL)
    in_marks = sum(one.many for one in drawn if not hasattr(one, "kind") and one.status in EVENTFUL)
    assert in_bars + in_marks >= hurt + refused
    assert bool(refused) == any(getattr(one, "is_refused", False) for one in drawn)


@given(histories())
def test_the_lanes_of_a_row_are_those_of_its_owners(history):
    for row in timeline_of(history, now=NOW).steps:
        assert 1 <= len(row.lanes) <= LANES_MAX
        told = [generation for lane in row.lanes for generation in lane.generations]
        assert told == sorted(set(told))


@given(histories())
def test_a_compensation_stands_right_below_what_it_goes_back_from(history):
    rows = timeline_of(history, now=NOW).steps
    for above, below in pairwise(rows):
        if below.compensates is not None:
            assert below.compensates in (above.name, above.compensates)
    assert rows == () or rows[0].compensates is None


def test_what_a_zombie_reports_too_late_stands_in_its_own_lane_as_refused():
    shown = timeline_of(with_a_zombie(), now=NOW)
    charge = next(row for row in shown.steps if row.name == "charge")
    former, heir = charge.lanes
    assert (former.generations, heir.generations) == ((1,), (2,))
    [refused] = former.marks
    assert refused.is_refused
    assert refused.since == former.bars[0].began_at
    assert [bar.name for bar in heir.bars] == ["look-up 1", "attempt 2"]
    assert heir.marks == ()
    first, second = shown.owners.lanes
    assert first.marks[0].at > second.bars[0].began_at > first.bars[0].ended_at


def test_where_a_lease_ran_out_is_in_its_owners_lane():
    lost = Lease("lease-1", "host", "", 7, 0, LeaseState.EXPIRED, BEGAN, BEGAN, BEGAN, BEGAN + 3 * DAY + 200_000)
    shown = timeline_of(with_a_zombie(), now=NOW, leases={lost.id: lost})
    first, second = shown.owners.lanes
    assert [(mark.name, mark.says) for mark in first.marks if not mark.is_refused] == [("lease", "expired")]
    assert not second.marks


def test_ten_thousand_steps_are_folded_and_the_few_that_matter_are_not():
    entries = [operation("post_entry", attempt(1, 10_000 * number), item=str(number)) for number in range(10_000)]
    entries[4_000] = operation(
        "post_entry", attempt(1, 40_000_000, outcome=Outcome.UNRESOLVED), item="4000", state=OperationState.UNKNOWN
    )  # fmt: skip
    entries[7_000] = operation(
        "post_entry", attempt(1, 70_000_000, outcome=Outcome.NOT_APPLIED), item="7000", state=OperationState.FAILED,
        error="{}",
    )  # fmt: skip
    shown = timeline_of(History(run(), operations=entries), now=NOW)
    assert [(row.many, row.name, row.status) for row in shown.steps] == [
        (4_000, "4000 × effect post_entry", Status.WELL),
        (1, "post_entry[4000]", Status.UNKNOWN),
        (2_999, "2999 × effect post_entry", Status.WELL),
        (1, "post_entry[7000]", Status.BADLY),
        (2_999, "2999 × effect post_entry", Status.WELL),
    ]
    above = timeline_of(History(run(), operations=entries), now=NOW, eventful_first=True).steps
    assert [row.many for row in above] == [1, 1, 9_998]


def test_steps_that_all_went_wrong_under_many_owners_are_few_rows_that_say_so():
    hurt = [
        operation(
            f"s{number % 7}", *(attempt(one + 1, 10_000 * number + one, generation=one + 1, outcome=Outcome.UNRESOLVED)
                                for one in range(9)),
            item=str(number), state=OperationState.UNKNOWN, observations=[late(10_000 * number + 100)],
        )
        for number in range(2_000)
    ]  # fmt: skip
    shown = timeline_of(History(run(state=RunState.HELD, ended_at=None), operations=hurt), now=NOW)
    assert len(shown.steps) <= STEPS_MAX
    assert sum(len(shapes(row)) for row in shown.rows) <= SHAPES_MAX
    assert {row.status for row in shown.steps} == {Status.UNKNOWN}
    assert sum(row.tally["attempt unknown"] for row in shown.steps) == 18_000
    assert sum(row.tally["late reply refused"] for row in shown.steps) == 2_000


def test_verbs_on_the_run_are_the_persons_row_and_those_on_a_step_stand_there():
    history = History(run(), operations=[operation("charge", attempt(1, 10))])
    shown = timeline_of(history, [verb("resume", 20, "refused"), verb("settle", 30, step="charge")], now=NOW)
    assert [(mark.name, mark.status) for mark in shown.persons.lanes[0].marks] == [("verb resume", Status.BADLY)]
    [charge] = shown.steps
    assert [mark.name for mark in charge.lanes[0].marks] == ["verb settle"]
    assert charge.is_eventful


def test_since_when_a_person_is_asked_is_in_the_persons_row():
    held = run(state=RunState.HELD, ended_at=None, hold='{"reason":"KeyForgotten"}', changed_at=BEGAN + 50)
    shown = timeline_of(History(held), [verb("resume", 20)], now=NOW)
    assert [(mark.name, mark.says, mark.at - BEGAN) for mark in shown.persons.lanes[0].marks] == [
        ("verb resume", "done, by ann", 20), ("decision: ask a person", "KeyForgotten", 50),
    ]  # fmt: skip


def test_a_clock_that_was_set_back_draws_nothing_backwards():
    refused = attempt(1, 5_000, lasts=-4_000, outcome=Outcome.NOT_APPLIED)
    back = operation("charge", refused, state=OperationState.FAILED, error="{}")
    [row] = timeline_of(History(run(ended_at=BEGAN - 5), operations=[back]), now=0).steps
    [bar] = row.lanes[0].bars
    assert bar.began_at == bar.ended_at == BEGAN + 5_000


def test_a_run_of_which_nothing_is_recorded_has_no_rows():
    shown = timeline_of(History(run(state=RunState.READY, ended_at=None, wake_at=1)), now=NOW)
    assert shown.rows == []
    assert list(shown.instants) == [BEGAN, NOW]


def test_what_goes_on_is_eventful_and_ends_now():
    history = History(run(state=RunState.WAITING, ended_at=None), [step("wait", "decision", 5, None)])
    [row] = timeline_of(history, now=NOW).steps
    assert (row.status, row.ended_at, row.is_eventful) == (Status.OPEN, None, True)
