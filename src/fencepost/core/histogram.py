"""Counts how large values are, in steps: how many were at most each bound, how many there were, and their sum.

It only counts. Which values are measured, and by what bounds, is said where they come up; how it is written for others
to read is `telemetry.exposition`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator


class Histogram:
    """Values counted by these bounds, each of which holds what is at most as large; cheap enough for every commit."""

    __slots__ = ("_counts", "bounds", "sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        assert list(bounds) == sorted(set(bounds)), "bounds rise"
        self.bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self.sum: float = 0

    def take(self, value: float) -> None:
        """Count one value."""
        self._counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    @property
    def count(self) -> int:
        """How many values were counted."""
        return sum(self._counts)

    def at_most(self) -> Iterator[tuple[float, int]]:
        """Each bound with how many values were at most as large; the last one is infinite."""
        so_far = 0
        for bound, count in zip((*self.bounds, float("inf")), self._counts, strict=True):
            so_far += count
            yield bound, so_far
