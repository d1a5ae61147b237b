"""Instants and ages as the pages show them: how long ago something was, and when by the clock, in UTC.

All times are the ledger's, in microseconds, or as the documents have them. Which language, is `page_texts`.
"""

from __future__ import annotations

from datetime import datetime

from fencepost.console.page_texts import Texts
from fencepost.core.duration import DAY, HOUR, MINUTE, SECOND

_UNITS = (("days", DAY), ("hours", HOUR), ("minutes", MINUTE), ("seconds", SECOND))
_TO_THE_SECOND = 19


def micros(at: int | str) -> int:
    """An instant in microseconds, also as a document has it."""
    if isinstance(at, int):
        return at
    try:
        found = datetime.fromisoformat(at)
    except ValueError:
        return 0
    return int(found.timestamp()) * SECOND + found.microsecond


def age(at: int | str | None, now: int, texts: Texts) -> str:
    """How long ago it was, in its largest unit; of what lies ahead, in how long it will be."""
    if at is None:
        return ""
    length = now - micros(at)
    return texts("time.ago" if length >= 0 else "time.ahead", length=spoken(abs(length), texts))


def spoken(length: int, texts: Texts) -> str:
    """A length of time in its largest unit, rounded down."""
    name, unit = next(((name, unit) for name, unit in _UNITS if length >= unit), _UNITS[-1])
    return texts(f"time.{name}", number=length // unit)


def clock(at: str | int | None) -> str:
    """An instant of a document to the second, such as 2026-01-02 03:04:05."""
    from fencepost.console.printable import instant

    text = instant(at) if isinstance(at, int) else at
    return "" if text is None else text[:_TO_THE_SECOND].replace("T", " ")
