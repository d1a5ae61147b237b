"""The arithmetic of trying again: budgets, growing pauses, and Retry-After in all its forms.

Pure: the draw for the jitter and the instant are arguments. Whether trying again is allowed at all is decided in
`recovery`; this file only counts and computes.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime

from fencepost.core.contract import Retry
from fencepost.core.duration import SECOND
from fencepost.core.records import Attempt

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_CLOCK = r"(?P<hour>\d\d):(?P<minute>\d\d):(?P<second>\d\d)"
# The three date forms of RFC 9110 section 5.6.7: IMF-fixdate, RFC 850 and asctime.
_DATES = (
    re.compile(rf"[A-Z][a-z]{{2}}, (?P<day>\d\d) (?P<month>[A-Z][a-z]{{2}}) (?P<year>\d{{4}}) {_CLOCK} GMT", re.ASCII),
    re.compile(rf"[A-Z][a-z]+, (?P<day>\d\d)-(?P<month>[A-Z][a-z]{{2}})-(?P<year>\d\d) {_CLOCK} GMT", re.ASCII),
    re.compile(rf"[A-Z][a-z]{{2}} (?P<month>[A-Z][a-z]{{2}}) (?P<day>[ \d]\d) {_CLOCK} (?P<year>\d{{4}})", re.ASCII),
)
_SECONDS = re.compile(r"\d+(?:\.\d+)?", re.ASCII)
_TWO_DIGITS = 2
_CENTURY = 100
_FUTURE_YEARS = 50  # RFC 9110: a two-digit year more than so far ahead is of the last century
_LEAP_SECOND = 60
_LONGEST = 100 * 366 * 24 * 3600 * SECOND


def budget_left(retry: Retry, attempts: Sequence[Attempt], *, budget_from: int, now: int) -> bool:
    """Whether one more dispatch fits: fewer than `attempts` since `budget_from`, and not later than `within`."""
    used = sum(attempt.dispatched_at >= budget_from for attempt in attempts)
    within_attempts = retry.attempts is None or used < retry.attempts
    within_time = retry.within is None or now - budget_from <= retry.within
    return within_attempts and (within_time or used == 0)


def pause(retry: Retry, failures: int, *, draw: float, retry_after: int | None = None) -> int:
    """How long to pause after the given number of failures (1, 2, ...), in microseconds.

    Exponential with equal jitter: half the pause is fixed, half drawn (`draw` in [0, 1)), so that a crowd spreads out
    and nobody returns at once. A target's `retry_after` is never undercut, up to `retry_after_max`.
    """
    grown = min(_grown(retry, failures), retry.longest_delay)
    own = round(grown / 2 + draw * grown / 2)
    if retry_after is None:
        return own
    jitter = round(draw * retry.first_delay)
    return min(max(0, retry_after), retry.retry_after_max) + jitter


def _grown(retry: Retry, failures: int) -> float:
    try:
        return retry.first_delay * retry.factor ** max(0, failures - 1)
    except OverflowError:
        return retry.longest_delay


def retry_after(text: str | None, *, now: int, date: str | None = None) -> int | None:
    """Microseconds that a Retry-After header asks for, or None when it says nothing usable.

    Takes seconds ("30", and "0.5", which some send) and the three date forms; a date in the past asks for 0. Dates are
    read against the reply's own `date` header where there is one, since the two clocks may differ.
    """
    if text is None:
        return None
    text = text.strip()
    if _SECONDS.fullmatch(text):
        return round(min(float(text) * SECOND, _LONGEST))
    wanted = http_date(text, now=now)
    if wanted is None:
        return None
    reference = http_date(date.strip(), now=now) if date else None
    return min(max(0, wanted - (reference if reference is not None else now)), _LONGEST)


def http_date(text: str, *, now: int) -> int | None:
    """The instant of an HTTP date in any of its three forms, in microseconds since the epoch; None if it is none.

    `now` tells the century of a two-digit year. A leap second counts as the one before it.
    """
    match = next((found for form in _DATES if (found := form.fullmatch(text))), None)
    if match is None or match["month"] not in _MONTHS:
        return None
    year = int(match["year"])
    if len(match["year"]) == _TWO_DIGITS:
        year = _full_year(year, now)
    second = int(match["second"])
    try:
        moment = datetime(
            year,
            _MONTHS.index(match["month"]) + 1,
            int(match["day"]),
            int(match["hour"]),
            int(match["minute"]),
            second - (second == _LEAP_SECOND),
            tzinfo=UTC,
        )
    except ValueError:
        return None
    return int(moment.timestamp()) * SECOND


def _full_year(two_digits: int, now: int) -> int:
    this_year = datetime.fromtimestamp(now // SECOND, tz=UTC).year
    year = this_year - this_year % _CENTURY + two_digits
    return year - _CENTURY if year > this_year + _FUTURE_YEARS else year
