"""When cron lines fall due in real zones, over every kind of change of the clocks, beside a look at every minute.

C20: a job of each day runs on each date, an interval keeps real time.
"""

from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest

from fencepost.core.duration import MINUTE
from fencepost.core.errors import DeclarationError
from fencepost.runtime.timetable import Timetable

CHANGES = {
    "an hour in spring": ("Europe/Berlin", "2026-03-29"),
    "an hour in autumn": ("Europe/Berlin", "2026-10-25"),
    "an hour in America": ("America/New_York", "2026-03-08"),
    "twice one o'clock in America": ("America/New_York", "2026-11-01"),
    "half an hour forward": ("Australia/Lord_Howe", "2026-10-04"),
    "half an hour back": ("Australia/Lord_Howe", "2026-04-05"),
    "two hours forward": ("Antarctica/Troll", "2026-03-29"),
    "two hours back": ("Antarctica/Troll", "2026-10-25"),
    "midnight left out": ("America/Asuncion", "2024-10-06"),
    "midnight twice": ("America/Asuncion", "2024-03-24"),
    "a whole day left out": ("Pacific/Apia", "2011-12-30"),
}
each_change = pytest.mark.parametrize(("zone", "day"), CHANGES.values(), ids=CHANGES)


def micros(moment):
    return round(moment.timestamp()) * 1_000_000


def around(zone, day, *, days=3):
    """From some days before the change to some after it."""
    middle = datetime.fromisoformat(day).replace(tzinfo=ZoneInfo(zone))
    return micros(middle - timedelta(days=days)), micros(middle + timedelta(days=days))


def fires(cron, zone, begin, end):
    """The zone's own clock at each firing."""
    timetable, found, instant = Timetable(cron, zone), [], begin
    while (instant := timetable.after(instant)) < end:
        found.append(instant)
    return found


def local(zone, instant):
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=instant)).astimezone(ZoneInfo(zone))


@cache
def shown(zone, begin, end):
    """Every minute that passes, with what the clocks show."""
    return [(minute, local(zone, minute)) for minute in range(begin - begin % MINUTE + MINUTE, end, MINUTE)]


@each_change
@pytest.mark.parametrize(("hour", "minute"), [(0, 0), (0, 30), (1, 15), (1, 30), (2, 0), (2, 30), (3, 0), (12, 0)])
def test_a_time_of_day_fires_once_a_date_at_the_first_showing_or_right_after_the_gap(zone, day, hour, minute):
    begin, end = around(zone, day)
    passing = shown(zone, begin, end)
    wanted = set()
    for date in {clock.date() for _, clock in passing} | {datetime.fromisoformat(day).date()}:
        time = datetime(date.year, date.month, date.day, hour, minute)  # noqa: DTZ001 - as the clocks show it
        at_or_after = [instant for instant, clock in passing if clock.replace(tzinfo=None) >= time]
        wanted.add(min(at_or_after, default=end))
    # The first date began before the look, the last goes on after it.
    assert fires(f"{minute} {hour} * * *", zone, begin, end) == [
        one for one in sorted(wanted) if one < end and (one > passing[0][0] or local(zone, one).minute == minute)
    ]


@each_change
@pytest.mark.parametrize("every", [1, 15, 30])
def test_an_interval_keeps_real_time_through_both_changes(zone, day, every):
    begin, end = around(zone, day, days=1)
    found = fires(f"*/{every} * * * *", zone, begin, end)
    assert {later - earlier for earlier, later in pairwise(found)} == {every * MINUTE}


def test_c20_two_daily_jobs_run_on_each_date_of_a_year():
    zone = "Europe/Berlin"
    begin, end = (
        micros(datetime(2026, 1, 1, tzinfo=ZoneInfo(zone))) - MINUTE,
        micros(datetime(2027, 1, 1, tzinfo=ZoneInfo(zone))),
    )
    for cron in ("30 2 * * *", "30 1 * * *"):
        dates = [local(zone, instant).date() for instant in fires(cron, zone, begin, end)]
        assert len(dates) == len(set(dates)) == 365


def test_several_times_in_one_gap_fire_once_after_it():
    found = fires("*/15 2 * * *", "Europe/Berlin", *around("Europe/Berlin", "2026-03-29", days=1))
    gap = [local("Europe/Berlin", instant) for instant in found if local("Europe/Berlin", instant).day == 29]
    assert [clock.isoformat() for clock in gap] == ["2026-03-29T03:00:00+02:00"]


@pytest.mark.parametrize("second_of_the_day", [0, 1, 59, 60, 86_399])
def test_what_comes_next_is_later_than_now_wherever_one_asks_from(second_of_the_day):
    timetable = Timetable("*/7 1-3 * * *", "Europe/Berlin")
    instant = micros(datetime(2026, 10, 25, tzinfo=UTC)) + second_of_the_day * 1_000_000 + 1
    assert timetable.after(instant) > instant
    assert timetable.after(timetable.after(instant) - 1) == timetable.after(instant)


def test_an_instant_is_written_as_the_clocks_show_it_so_that_the_two_of_autumn_differ():
    timetable = Timetable("30 * * * *", "Europe/Berlin")
    first = timetable.after(micros(datetime(2026, 10, 25, 0, 0, tzinfo=UTC)))
    assert [timetable.text(first), timetable.text(timetable.after(first))] == [
        "2026-10-25T02:30:00+02:00",
        "2026-10-25T02:30:00+01:00",
    ]


@pytest.mark.parametrize(
    ("cron", "zone", "says"),
    [
        ("0 3 * *", "UTC", "has 4 fields"),
        ("0 0 3 * * *", "UTC", "has 6 fields"),
        ("61 3 * * *", "UTC", "cannot be read"),
        ("every day", "UTC", "has 2 fields"),
        ("0 3 31 2 *", "UTC", "cannot be read"),
        ("0 3 * * *", "Europe/Atlantis", "no time zone"),
        ("0 3 * * *", "../etc/passwd", "no time zone"),
        ("0 3 * * *", "", "no time zone"),
    ],
)
def test_what_can_never_fire_is_refused_when_it_is_declared(cron, zone, says):
    with pytest.raises(DeclarationError, match=says):
        Timetable(cron, zone)
