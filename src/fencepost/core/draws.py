"""Chance for workflows: draws and ids that look random and are the same whenever the run is replayed.

Everything derives by SHA-256 from the run id and the position of the draw. Not for secrets: who knows the run id knows
each draw. Which position a draw has is decided by `driver`.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import MutableSequence, Sequence
from typing import TypeVar

T = TypeVar("T")

_FLOAT_BITS = 53  # what a float between 0 and 1 can hold evenly


def _digest(run_id: str, position: str, number: int) -> bytes:
    # The length keeps run id and position apart: without it, two runs could share a draw.
    text = f"{len(run_id)}:{run_id}{position}:{number}"
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def drawn_uuid(run_id: str, position: str) -> uuid.UUID:
    """The UUID of that position, in the form of a random one."""
    return uuid.UUID(bytes=_digest(run_id, position, 0)[:16], version=4)


class Draws:
    """A stream of draws that begins at one position of a run; the methods are those of `random.Random`."""

    __slots__ = ("_number", "_position", "_run_id")

    def __init__(self, run_id: str, position: str) -> None:
        self._run_id = run_id
        self._position = position
        self._number = 0

    def _bits(self, count: int) -> int:
        value = 0
        for _ in range(-(-count // 256)):
            value = value << 256 | int.from_bytes(_digest(self._run_id, self._position, self._number))
            self._number += 1
        return value & ((1 << count) - 1)

    def random(self) -> float:
        """A float, 0 included, 1 excluded."""
        return float(self._bits(_FLOAT_BITS)) / (1 << _FLOAT_BITS)

    def randint(self, low: int, high: int) -> int:
        """An integer from `low` to `high`, both included. Raises ValueError if there is none."""
        span = high - low + 1
        if span <= 0:
            raise ValueError(f"no integer from {low} to {high}")
        bits = (span - 1).bit_length()
        # Drawing again instead of taking a remainder keeps each value equally likely.
        while (value := self._bits(bits)) >= span:
            pass
        return low + value

    def choice(self, options: Sequence[T]) -> T:
        """One of the options. Raises IndexError if there is none."""
        if not options:
            raise IndexError("no options to choose from")
        return options[self.randint(0, len(options) - 1)]

    def shuffle(self, items: MutableSequence[T]) -> None:
        """Put the items in a drawn order, in place."""
        for last in range(len(items) - 1, 0, -1):
            other = self.randint(0, last)
            items[last], items[other] = items[other], items[last]
