"""Shortens a long row of things to so many groups of neighbours, and hides nothing that somebody has to see.

What is uneventful goes together first, and only with its like; what is eventful stays alone for as long as there is
room. Nothing is left out and nothing changes its order. What is eventful is said by the caller, `timeline`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from itertools import groupby
from typing import TypeVar

T = TypeVar("T")


def fold(
    things: Sequence[T], room: int, *, alike: Callable[[T], Hashable], eventful: Callable[[T], bool]
) -> list[list[T]]:
    """The things in groups of neighbours, at most `room` of them; each for itself if they all fit.

    In the order in which it is done, until they fit: uneventful neighbours that are alike go together; all uneventful
    neighbours; eventful neighbours that are alike; at last groups of one size, whatever they hold.
    """
    assert room >= 1, "there is room for something"
    numbered = list(enumerate(things))
    keys: tuple[Callable[[tuple[int, T]], Hashable], ...] = (
        lambda one: one[0],
        lambda one: one[0] if eventful(one[1]) else ("calm", alike(one[1])),
        lambda one: one[0] if eventful(one[1]) else "calm",
        lambda one: ("eventful", alike(one[1])) if eventful(one[1]) else "calm",
    )
    for key in keys:
        groups = [[thing for _, thing in group] for _, group in groupby(numbered, key=key)]
        if len(groups) <= room:
            return groups
    size = -(-len(things) // room)
    return [list(things[at : at + size]) for at in range(0, len(things), size)]
