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
_SUGAR = re.compile(r"(?P<number>\d+(?:\.\d+)?)(?P<unit>us|ms|s|m|h|d)")


def microseconds(value: str | timedelta, *, what: str = "duration") -> int:
    """The duration in microseconds; `value` is a timedelta or a string such as "90s", "1.5h" or "7d".

    Raises `DeclarationError` for anything else, and for negative durations.
    """
    if isinstance(value, timedelta):
        result = round(value / timedelta(microseconds=1))
    elif isinstance(value, str) and (match := _SUGAR.fullmatch(value.strip())):
        result = round(float(match["number"]) * _UNITS[match["unit"]])
    else:
        raise DeclarationError(
            f"{what} is {value!r}, which is not a duration",
            hint='write a timedelta or a string such as "20s", "15m", "24h" or "7d"',
        )
    if result < 0:
        raise DeclarationError(f"{what} is negative: {value!r}", hint="durations start at zero")
    return result


def spelled(duration: int) -> str:
    """The duration in its largest whole unit, as `microseconds` reads it: 900_000_000 -> "15m"."""
    for unit in ("d", "h", "m", "s", "ms"):
        if duration and duration % _UNITS[unit] == 0:
            return f"{duration // _UNITS[unit]}{unit}"
    return f"{duration}us" if duration else "0s"
