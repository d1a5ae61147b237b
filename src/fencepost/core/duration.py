"""Durations as people write them, turned into whole microseconds.

The only place that knows units. It reads no clock; instants are arguments everywhere in `core`.
"""

from __future__ import annotations

import re
from datetime import timedelta

from fencepost.core.errors import DeclarationError

MILLISECOND = 1_000
SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

_UNITS = {"us": 1, "ms": MILLISECOND, "s": SECOND, "m": MINUTE, "h": HOUR, "d": DAY}
_PART = r"\d+(?:\.\d+)?(?:us|ms|s|m|h|d)"
_SUGAR = re.compile(f"(?:{_PART})+")
_PARTS = re.compile(_PART)
_NUMBER_MAX = {"us": 10_000, "ms": 10_000, "s": 100, "m": 100, "h": 100}
"""From so many of one unit on a duration is not grasped at a glance: "86395s" is printed as "23h59m55s"."""


def microseconds(value: str | timedelta, *, what: str = "duration") -> int:
    """The duration in microseconds; `value` is a timedelta or a string such as "90s", "1.5h", "1h30m" or "7d".

    Raises `DeclarationError` for anything else, and for negative durations.
    """
    if isinstance(value, timedelta):
        result = round(value / timedelta(microseconds=1))
    elif isinstance(value, str) and _SUGAR.fullmatch(value.strip()):
        result = sum(map(_part, _PARTS.findall(value)))
    else:
        raise DeclarationError(
            f"{what} is {value!r}, which is not a duration",
            hint='write a timedelta or a string such as "20s", "15m", "24h" or "7d"',
        )
    if result < 0:
        raise DeclarationError(f"{what} is negative: {value!r}", hint="durations start at zero")
    return result


def interval(duration: int | None) -> timedelta | None:
    """The duration as a timedelta, for those who do not count in microseconds; None stays None."""
    return None if duration is None else timedelta(microseconds=duration)


def spelled(duration: int) -> str:
    """The duration as people say it and `microseconds` reads it: 900_000_000 is "15m", 86_395_000_000 "23h59m55s"."""
    if not duration:
        return "0s"
    largest = next(unit for unit in reversed(_UNITS) if duration % _UNITS[unit] == 0)
    if duration // _UNITS[largest] < _NUMBER_MAX.get(largest, duration):
        return f"{duration // _UNITS[largest]}{largest}"
    parts, rest = "", duration
    for unit in reversed(_UNITS):
        number, rest = divmod(rest, _UNITS[unit])
        parts += f"{number}{unit}" if number else ""
    return parts


def _part(text: str) -> int:
    number = text.rstrip("usmhd")
    return round(float(number) * _UNITS[text.removeprefix(number)])
