"""Writes SVG that stands in a page: every text in it is escaped, and nothing of it is a script or a style.

A picture has the width of what it stands in: places are percentages of it, and texts keep their size, so that it is
read at 360 pixels as well as at 3,600. Its colour is that of the text around it (`currentColor`); a page may give more
by the classes. What is drawn is said by `timeline` and `charts`.
"""

from __future__ import annotations

import unicodedata
from html import escape
from itertools import accumulate
from typing import Self

from fencepost.console.printable import printable

NAMED_MAX = 200
"""So much of a text that somebody else wrote is in a picture; the page beside it has the whole."""


class Svg(str):
    """Markup that was written here, and is therefore not escaped again; templates take it as it is."""

    __slots__ = ()

    def __html__(self) -> Self:
        return self


def drawn(name: str, *inside: str, **attributes: str | float | None) -> Svg:
    """An element: `inside` are elements, or texts, which are escaped; of attributes None leaves one out.

    `font_size=12` is written `font-size="12"`, `class_="a"` `class="a"`.
    """
    given = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_number(value) if isinstance(value, float) else said(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    whole = "".join(one if isinstance(one, Svg) else escape(said(one)) for one in inside)
    return Svg(f"<{name}{given}>{whole}</{name}>" if whole else f"<{name}{given}/>")


def said(text: object, limit: int = NAMED_MAX) -> str:
    """A text as it may stand in a picture: on one line, cut, and without what XML has no room for."""
    return printable(text, limit=limit).replace("\ufffe", "\ufffd").replace("\uffff", "\ufffd")


def cut(text: str, length: int) -> str:
    """The beginning of a text, for a place where no more fits: so many letters, of which a Chinese one counts twice.

    Whoever cuts one has the whole in a `<title>`.
    """
    safe = said(text)
    if breadth(safe) <= length:
        return safe
    reach = accumulate(map(breadth, safe))
    return "".join(one for one, end in zip(safe, reach, strict=True) if end < length) + "…"


def breadth(text: str) -> int:
    """How broad a text is, in letters."""
    return sum(2 if unicodedata.east_asian_width(one) in "WF" else 1 for one in text)


def percent(part: float) -> str:
    """A part of the width, between 0 and 1, within the margin that lines at the edge need."""
    return f"{_number(1 + 98 * part)}%"


def broad(part: float) -> str:
    """A width, as a part of the whole one."""
    return f"{_number(98 * part)}%"


def at(part: float, top: float, *inside: Svg) -> Svg:
    """Shapes around a point: theirs is 0, 0, and they keep their size."""
    return drawn("svg", *inside, x=percent(part), y=top, overflow="visible", width=1, height=1)


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")
