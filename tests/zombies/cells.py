"""The cells of the zombie matrix: what a target understands, and where in a dispatch its owner is when it is lost.

One run per cell, named after it. What happens to the owner is in `faults`, what the cell's run does in `bodies`.
"""

from dataclasses import dataclass
from enum import StrEnum


class Row(StrEnum):
    """What the target of an effect understands, and so how an unknown outcome there is settled."""

    KEY = "key"
    LOOK_UP = "look-up"
    FENCE = "fence"
    NOTHING = "nothing"
    RECORD = "overwritten record"


POINTS = {
    1: "before permission",
    2: "before connect",
    3: "before first byte",
    4: "before reply",
    5: "before commit",
}
"""Where in the path of a dispatch the owner stands: at the end of what, its name says what comes next."""


@dataclass(frozen=True, order=True)
class Cell:
    """One run of the matrix; its id names its run, its target and its resource."""

    row: Row
    point: int

    @property
    def id(self) -> str:
        """Such as "look-up.3"."""
        return f"{self.row.replace(' ', '-')}.{self.point}"

    @property
    def first(self) -> str:
        """The name of what the run's first effect makes."""
        return f"{self.id}/first"

    def __str__(self) -> str:
        return f"{self.row}, {POINTS[self.point]}"


CELLS = [Cell(row, point) for row in Row for point in POINTS]
