"""A scale never puts what is later before what is earlier, and cuts long stretches so that short ones are read."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from fencepost.core.duration import DAY, HOUR, MILLISECOND, MINUTE, SECOND
from fencepost.core.timescale import BREAK_WIDTH, BREAKS_MAX, DWARFS, TimeScale, short

INSTANTS = st.lists(st.one_of(st.integers(0, 10**6), st.integers(0, 10**13)), min_size=1, max_size=60)


@given(INSTANTS, st.lists(st.integers(-10, 10**13), max_size=20))
def test_a_scale_is_monotone_and_within_the_picture(instants, asked):
    scale = TimeScale(instants)
    places = [scale.place(at) for at in sorted([*instants, *asked])]
    assert places == sorted(places)
    assert all(0 <= place <= 1 for place in places)
    assert scale.place(min(instants)) == 0
    if len(set(instants)) > 1:
        assert scale.place(max(instants)) > 0.999


@given(INSTANTS)
def test_between_its_breaks_a_scale_is_one_scale(instants):
    scale = TimeScale(instants)
    assert len(scale.breaks) <= BREAKS_MAX
    begins = {one.began_at for one in scale.breaks}
    told = sorted(set(instants))
    rates = [
        (scale.place(later) - scale.place(earlier)) / (later - earlier)
        for earlier, later in pairwise(told)
        if earlier not in begins
    ]
    assert not rates or max(rates) - min(rates) <= 1e-6 * max(rates) + 1e-12


@given(INSTANTS)
def test_only_what_would_take_more_room_is_cut(instants):
    scale = TimeScale(instants)
    whole = scale.ended_at - scale.began_at
    kept = whole - sum(one.ended_at - one.began_at for one in scale.breaks)
    for one in scale.breaks:
        assert abs(one.right - one.left - min(BREAK_WIDTH, 0.5 / len(scale.breaks))) < 1e-9
        assert one.ended_at - one.began_at >= DWARFS * kept / len(set(instants))


def test_a_wait_of_three_days_leaves_steps_of_milliseconds_readable():
    first, wait = 20 * MILLISECOND, 3 * DAY
    scale = TimeScale([0, first, first + wait, first + wait + 10 * MILLISECOND, 2 * wait, 2 * wait + first])
    assert [one.ended_at - one.began_at > DAY for one in scale.breaks] == [True, True]
    assert scale.place(first) > 0.2
    assert scale.place(2 * wait + first) - scale.place(2 * wait) > 0.2


def test_a_wait_that_is_all_there_is_beside_one_step_is_cut_and_a_few_long_steps_among_few_are_not():
    assert len(TimeScale([0, 5 * MILLISECOND, 3 * DAY, 6 * DAY]).breaks) == 2
    assert len(TimeScale([0, DAY, DAY + 40 * SECOND, DAY + 70 * SECOND, DAY + 71 * SECOND]).breaks) == 1
    assert TimeScale([0, SECOND, 2 * SECOND, 3 * SECOND, 3 * SECOND + 5]).breaks == []
    assert TimeScale(sorted([number * SECOND + of for number in range(1, 8) for of in (0, 5)])).breaks == []


def test_waits_are_cut_sooner_than_stretches_in_which_something_was_done():
    days = [day * DAY + part * SECOND for day in range(12) for part in (0, 1)]
    assert TimeScale(days).breaks == []
    assert len(TimeScale(days, [(day * DAY + SECOND, (day + 1) * DAY) for day in range(12)]).breaks) == 11


def test_so_many_waits_are_cut_and_more_are_the_picture():
    for waits in (BREAKS_MAX, BREAKS_MAX + 1):
        scale = TimeScale([day * DAY + part * MILLISECOND for day in range(waits + 1) for part in range(3)])
        assert len(scale.breaks) == (waits if waits <= BREAKS_MAX else 0)


def test_what_is_of_one_size_is_not_cut():
    assert TimeScale(range(0, 1_000_000, 1_000)).breaks == []
    assert TimeScale([0, 1, 5_001, 10_001, 15_001]).breaks == []
    assert TimeScale([7]).place(7) == 0


def test_a_duration_is_short():
    told = {
        0: "0s", 12: "12us", 999: "999us", 1_240: "1.24ms", SECOND: "1s", 1_240_000: "1.24s", 59_990_000: "60s",
        65 * SECOND: "1m 5s", MINUTE: "1m", 3 * HOUR + 59 * MINUTE: "3h 59m", 3 * DAY + 2 * HOUR: "3d 2h",
    }  # fmt: skip
    assert {duration: short(duration) for duration in told} == told
