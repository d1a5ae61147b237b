"""The arithmetic of trying again: Retry-After in every form seen in the field (C08), pauses, and budgets."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.core.contract import Retry
from fencepost.core.duration import DAY, HOUR, MINUTE, SECOND
from fencepost.core.records import Attempt
from fencepost.core.retry import budget_left, http_date, pause, retry_after

MOMENT = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)
NOW = int(MOMENT.timestamp()) * SECOND

FORMS = {
    "IMF-fixdate": "%a, %d %b %Y %H:%M:%S GMT",
    "RFC 850": "%A, %d-%b-%y %H:%M:%S GMT",
    "asctime": "%a %b %e %H:%M:%S %Y",
}


def _in(form: str, **ahead: float) -> str:
    return (MOMENT + timedelta(**ahead)).strftime(FORMS[form])


each_form = pytest.mark.parametrize("form", FORMS)


# -- Retry-After ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "pauses"),
    [
        ("30", 30 * SECOND),
        (" 30 ", 30 * SECOND),
        ("0", 0),
        ("0.5", SECOND // 2),
        ("1.25", 1_250_000),
        ("007", 7 * SECOND),
    ],
)
def test_seconds_are_waited(text, pauses):
    assert retry_after(text, now=NOW) == pauses


@each_form
def test_a_date_thirty_seconds_ahead_is_waited_for(form):
    assert retry_after(_in(form, seconds=30), now=NOW) == 30 * SECOND


@each_form
def test_a_date_in_the_past_asks_for_nothing(form):
    assert retry_after(_in(form, hours=-1), now=NOW) == 0


@each_form
@pytest.mark.parametrize("off", [-5, 5])
def test_a_worker_whose_clock_is_off_reads_the_date_against_the_replys_own(form, off):
    wrong = NOW + off * SECOND
    assert retry_after(_in(form, seconds=30), now=wrong, date=_in("IMF-fixdate")) == 30 * SECOND
    assert retry_after(_in(form, seconds=30), now=wrong) == (30 - off) * SECOND


def test_an_unreadable_date_of_the_reply_is_no_help_and_no_harm():
    assert retry_after(_in("asctime", seconds=30), now=NOW, date="yesterday") == 30 * SECOND


@pytest.mark.parametrize(
    "text",
    [
        None, "", " ", "-1", "+3", "1e3", "soon", "30s", "30, 40", "nan", "inf", "٣", "1.", ".5", "0x10",
        "Sun, 01 Mar 2026 12:00:30", "Sun, 01 Mar 2026 12:00:30 CET", "Sun, 32 Mar 2026 12:00:30 GMT",
        "Sun, 01 Mrz 2026 12:00:30 GMT", "Sun, 01 Mar 2026 24:00:30 GMT", "Sun, 01 Mar 2026 12:00:99 GMT",
        "Sun, 01 Mar 0000 12:00:30 GMT", "2026-03-01T12:00:30Z",
    ],
)  # fmt: skip
def test_garbage_and_negatives_say_nothing(text):
    assert retry_after(text, now=NOW) is None


@pytest.mark.parametrize("text", ["9" * 400, "9" * 400 + ".5"])
def test_an_absurd_number_is_bounded(text):
    assert retry_after(text, now=NOW) == retry_after("9" * 30, now=NOW)


@given(st.text(max_size=40))
def test_no_text_at_all_raises(text):
    asked = retry_after(text, now=NOW)
    assert asked is None or asked >= 0


@each_form
@given(st.integers(0, 40 * 365 * 24 * 3600))
def test_every_date_form_is_read_to_the_second(form, ahead):
    assert retry_after(_in(form, seconds=ahead), now=NOW) == ahead * SECOND


@pytest.mark.parametrize(("year", "means"), [("26", 2026), ("70", 2070), ("76", 2076), ("77", 1977), ("94", 1994)])
def test_a_two_digit_year_is_never_more_than_fifty_years_ahead(year, means):
    assert http_date(f"Sunday, 06-Nov-{year} 08:49:37 GMT", now=NOW) == int(
        datetime(means, 11, 6, 8, 49, 37, tzinfo=UTC).timestamp() * SECOND
    )


def test_a_leap_second_counts_as_the_one_before_it():
    leap = http_date("Sat, 31 Dec 2016 23:59:60 GMT", now=NOW)
    assert leap is not None
    assert leap == http_date("Sat, 31 Dec 2016 23:59:59 GMT", now=NOW)


# -- pauses ---------------------------------------------------------------------------------------------------------

PATIENT = Retry(first_delay=SECOND, factor=2.0, longest_delay=MINUTE, retry_after_max=HOUR)
draws = st.floats(0, 1, exclude_max=True)


@pytest.mark.parametrize(("failures", "longest"), [(1, 1), (2, 2), (3, 4), (6, 32), (7, 60), (500, 60), (5_000, 60)])
def test_pauses_grow_up_to_the_longest(failures, longest):
    assert pause(PATIENT, failures, draw=0.0) == longest * SECOND // 2
    assert longest * SECOND // 2 <= pause(PATIENT, failures, draw=0.999) <= longest * SECOND


def test_ten_years_are_capped():
    asked = retry_after(_in("IMF-fixdate", days=3650), now=NOW)
    assert asked == 3650 * DAY
    assert HOUR <= pause(PATIENT, 1, draw=0.5, retry_after=asked) <= HOUR + SECOND


def test_a_past_date_is_tried_soon_but_not_by_a_whole_crowd_at_once():
    assert pause(PATIENT, 4, draw=0.0, retry_after=0) == 0
    assert 0 < pause(PATIENT, 4, draw=0.7, retry_after=0) < SECOND


@given(st.integers(0, 2 * HOUR), draws, st.integers(1, 50))
def test_a_told_time_is_never_undercut_and_hardly_exceeded(asked, draw, failures):
    waited = pause(PATIENT, failures, draw=draw, retry_after=asked)
    assert min(asked, HOUR) <= waited <= min(asked, HOUR) + SECOND


@given(st.integers(1, 100_000), draws, st.floats(1, 10))
def test_our_own_pause_stays_in_its_bounds(failures, draw, factor):
    waited = pause(replace(PATIENT, factor=factor), failures, draw=draw)
    assert SECOND // 2 <= waited <= MINUTE


# -- budgets --------------------------------------------------------------------------------------------------------


def _attempts(*dispatched: int) -> list[Attempt]:
    return [Attempt(number, at, at, at, "lease", 1) for number, at in enumerate(dispatched, 1)]


THREE = Retry(attempts=3, within=10 * MINUTE)


@pytest.mark.parametrize(
    ("dispatched", "now", "left"),
    [
        ([], 0, True),
        ([0], MINUTE, True),
        ([0, 1, 2], MINUTE, False),
        ([0], 10 * MINUTE, True),
        ([0], 10 * MINUTE + 1, False),
        ([], 10 * MINUTE + 1, True),  # the first dispatch is not a retry: it is never too late for it
    ],
)
def test_budget(dispatched, now, left):
    assert budget_left(THREE, _attempts(*dispatched), budget_from=0, now=now) is left


def test_a_persons_retry_gives_a_new_budget_and_forgets_no_attempt():
    attempts = _attempts(0, 1, 2)
    later = HOUR
    assert not budget_left(THREE, attempts, budget_from=0, now=later)
    assert budget_left(THREE, attempts, budget_from=later, now=later)
    spent = [*attempts, *_attempts(later, later, later)]
    assert not budget_left(THREE, spent, budget_from=later, now=later)


@given(st.lists(st.integers(0, HOUR), max_size=6).map(sorted), st.integers(0, HOUR))
def test_a_budget_once_spent_stays_spent(dispatched, now):
    attempts = _attempts(*dispatched)
    if attempts and not budget_left(THREE, attempts, budget_from=0, now=now):
        assert not budget_left(THREE, attempts, budget_from=0, now=now + 1)
        assert not budget_left(THREE, [*attempts, *_attempts(now)], budget_from=0, now=now)


def test_an_unbounded_budget_is_told():
    assert THREE.bounded
    assert not replace(THREE, attempts=None).bounded
    assert not replace(THREE, within=None).bounded
