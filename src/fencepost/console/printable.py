"""Makes text of unknown origin safe for a terminal: what could move the cursor, hide or reorder text is shown escaped.

Run ids, payloads, replies and error messages come from outside; a ticket's title must not be able to clear an
operator's screen or to forge a line of it. Laying text out is `terminal`.
"""

from __future__ import annotations

import json
import unicodedata
from datetime import UTC, datetime
from typing import Any

CHARACTERS_MAX = 400
"""How much of one payload the timeline shows; `--json` has the whole."""

# Control characters, format characters (bidi overrides, zero-width ones), surrogates, line and paragraph separators.
_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})
_SHORT = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_LATIN = 0xFF
_BASIC = 0xFFFF
_KEY_CHARACTERS = 12


def printable(text: object, *, limit: int | None = CHARACTERS_MAX) -> str:
    """`text` on one line, without anything that a terminal would obey; longer than `limit` it is cut, and says so."""
    whole = text if isinstance(text, str) else str(text)
    shown = whole if limit is None or len(whole) <= limit else whole[:limit]
    safe = shown if shown.isascii() and shown.isprintable() else "".join(map(_escaped, shown))
    return safe if shown is whole else f"{safe}… ({len(whole) - len(shown)} characters more)"


def _escaped(character: str) -> str:
    if unicodedata.category(character) not in _UNSAFE:
        return character
    code = ord(character)
    short = _SHORT.get(character)
    if short is not None:
        return short
    if code <= _LATIN:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= _BASIC else f"\\U{code:08x}"


def compact(value: Any, *, limit: int | None = CHARACTERS_MAX) -> str:
    """A JSON value on one safe line."""
    return printable(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), limit=limit)


def counted(number: int, noun: str) -> str:
    """So many of something, such as "1 step" and "2 steps"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def short_key(key: str) -> str:
    """The beginning of an operation's key: enough to tell it apart on a screen."""
    return key if len(key) <= _KEY_CHARACTERS else f"{key[:_KEY_CHARACTERS]}…"


def instant(at: int | None) -> str | None:
    """An instant of the store's clock as ISO 8601 in UTC, to the microsecond; None stays None."""
    if at is None:
        return None
    seconds, micros = divmod(at, 1_000_000)
    try:
        moment = datetime.fromtimestamp(seconds, tz=UTC)
    except (ValueError, OverflowError, OSError):
        return f"{at} microseconds"
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{micros:06d}Z"
