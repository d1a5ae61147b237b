"""Where in a picture an instant stands: one scale for everything, but for a few long stretches, which are cut short.

A wait of three days beside steps of milliseconds leaves both readable only if the wait is cut; a cut is a `Break`, and
whoever draws must mark it with how long it really was. Between two breaks all times have one scale, and no later
instant stands before an earlier one. Pure. What is put on the scale is `timeline`, how it is drawn `console.timeline`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from itertools import accumulate, pairwise

from fencepost.core.duration import DAY, HOUR, MILLISECOND, MINUTE, SECOND

BREAKS_MAX = 24
BREAK_WIDTH, BREAKS_WIDTH = 0.06, 0.5
"""How much of the whole a break takes, however long it lasts, and how much all of them take at most."""

DWARFS = 50
"""Stretches are cut that are at least so many times as long as every shorter one: beside them it would be a hair."""

FEW = 3
"""Beside twice as many shorter ones as are cut; so many may be missing, or one step beside two waits would be lost."""


@dataclass(frozen=True, slots=True)
class Break:
    """A stretch that is cut short: from when until when, and where it stands, as parts of the whole width."""

    began_at: int
    ended_at: int
    left: float
    right: float


class TimeScale:
    """From instants to places between 0 and 1, over all of the given instants, in whatever order they come.

    Stretches within `waits`, of each of which it is said from when until when it was, are cut sooner than others.
    """

    __slots__ = ("_instants", "_places", "breaks")

    def __init__(self, instants: Iterable[int], waits: Collection[tuple[int, int]] = ()) -> None:
        self._instants = sorted(set(instants)) or [0]
        gaps = [later - earlier for earlier, later in pairwise(self._instants)]
        cut = _cut(gaps, lambda place: _is_within(waits, *self._instants[place : place + 2]))
        linear = sum(gap for place, gap in enumerate(gaps) if place not in cut)
        of_one = min(BREAK_WIDTH, BREAKS_WIDTH / max(1, len(cut)))
        room = 1 - of_one * len(cut)
        widths = [of_one if place in cut else room * gap / linear for place, gap in enumerate(gaps)]
        self._places = [min(1.0, place) for place in accumulate(widths, initial=0.0)]
        self.breaks = [
            Break(self._instants[at], self._instants[at + 1], self._places[at], self._places[at + 1])
            for at in sorted(cut)
        ]

    @property
    def began_at(self) -> int:
        """The first instant."""
        return self._instants[0]

    @property
    def ended_at(self) -> int:
        """The last one."""
        return self._instants[-1]

    def place(self, at: int) -> float:
        """Where an instant stands: 0 is the first one, 1 the last; what is outside of them stands at the edge."""
        after = bisect_right(self._instants, at)
        if after == 0:
            return 0.0
        if after == len(self._instants):
            return self._places[-1]
        began, ended = self._instants[after - 1], self._instants[after]
        left, right = self._places[after - 1], self._places[after]
        return left + (right - left) * ((at - began) / (ended - began))


def _is_within(waits: Collection[tuple[int, int]], began: int, ended: int) -> bool:
    return any(first <= began and ended <= last for first, last in waits)


def _cut(gaps: list[int], is_wait: Callable[[int], bool]) -> frozenset[int]:
    """The places of the stretches to cut: those that dwarf the rest, and of the rest those that dwarf what is left.

    Where they are too many, they are the picture itself, and stay; so do those in which something was done, if they
    are too many beside what they leave.
    """
    longest_first = sorted(range(len(gaps)), key=lambda place: (-gaps[place], place))
    cuts = 0
    for number, (longer, shorter) in enumerate(pairwise(longest_first), 1):
        if gaps[longer] < DWARFS * gaps[shorter]:
            continue
        if number > BREAKS_MAX:
            break
        busy = sum(not is_wait(place) for place in longest_first[cuts:number])
        if 2 * busy > len(gaps) - number + FEW:
            break
        cuts = number
    return frozenset(longest_first[:cuts])


_UNITS = (("d", DAY), ("h", HOUR), ("m", MINUTE), ("s", SECOND))


def short(duration: int) -> str:
    """A duration at a glance, to two units or three digits: "3d 2h", "1m 5s", "1.24s", "340ms", "12us"."""
    for (unit, size), (lower, part) in pairwise(_UNITS):
        if duration >= size:
            whole, rest = divmod(duration, size)
            return f"{whole}{unit} {rest // part}{lower}" if rest >= part else f"{whole}{unit}"
    for unit, size in (("s", SECOND), ("ms", MILLISECOND)):
        if duration >= size:
            return f"{duration / size:.3g}{unit}"
    return f"{duration}us" if duration else "0s"
