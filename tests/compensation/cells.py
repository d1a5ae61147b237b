"""The squares of the compensation matrix: which effects rest on which, what goes wrong at which of them, who goes back.

Here also stands what is right in each square, said over what the world holds and over nothing that Fencepost says.
How a square is played is in `play`.
"""

from dataclasses import dataclass, field
from itertools import product

WELL = "nothing goes wrong"
EFFECT_REFUSED = "effect: refused for good"
EFFECT_HAPPENED = "effect: unknown, then found"
EFFECT_ABSENT = "effect: unknown, then absent"
EFFECT_DARK = "effect: unknown, cannot be settled"
UNDO_REFUSED = "undo: refused for good"
UNDO_BUSY = "undo: busy until its budget ends"
UNDO_FORBIDDEN = "undo: its policy refuses"
UNDO_HAPPENED = "undo: unknown, then found"
UNDO_ABSENT = "undo: unknown, then absent"
UNDO_DARK = "undo: unknown, cannot be settled"

TROUBLES = (
    EFFECT_REFUSED, EFFECT_HAPPENED, EFFECT_ABSENT, EFFECT_DARK, UNDO_REFUSED, UNDO_BUSY, UNDO_FORBIDDEN,
    UNDO_HAPPENED, UNDO_ABSENT, UNDO_DARK,
)  # fmt: skip

STARTERS = ("workflow", "declared", "person")
"""Who goes back: the code itself, the policy that it declares, or a person with the verb."""

ONLY_PERSONS = (EFFECT_ABSENT, EFFECT_DARK)
"""Here the run is held, and no code goes on."""


@dataclass(frozen=True)
class Shape:
    """Branches of effects, done side by side; `rests` names for each effect those that it is done after."""

    name: str
    branches: tuple[str, ...]
    rests: dict[str, str] = field(default_factory=dict, hash=False)

    @property
    def effects(self) -> str:
        return "".join(self.branches)

    def below(self, effect: str) -> set[str]:
        """Everything that an effect rests on, and what that rests on."""
        found: set[str] = set()
        left = list(self.rests.get(effect, ""))
        while left:
            one = left.pop()
            found.add(one)
            left += self.rests.get(one, "")
        return found


SHAPES = (
    Shape("one after the other", ("abc",)),
    Shape("c on b on a", ("abc",), {"b": "a", "c": "b"}),
    Shape("two branches, b on a, d on c", ("ab", "cd"), {"b": "a", "d": "c"}),
)


@dataclass(frozen=True)
class Cell:
    """One square: what goes wrong at which effect of a shape, and who goes back. Its text is its run's id."""

    shape: Shape
    trouble: str
    place: str
    starter: str

    def __str__(self) -> str:
        return f"{self.shape.name} / {self.trouble} / {self.place} / {self.starter}"

    def name(self, effect: str) -> str:
        """What the object of an effect is called at the world."""
        return f"{self} / {effect}"


CELLS = [
    Cell(shape, trouble, place, starter)
    for shape in SHAPES
    for trouble, place, starter in [
        *((WELL, "", starter) for starter in STARTERS),
        *product(TROUBLES, shape.effects, STARTERS),
    ]
    if starter == "person" or trouble not in ONLY_PERSONS
]


@dataclass
class Came:
    """What a square came to: how often each effect and each undo stands at the world, what was asked for, the state."""

    made: dict[str, int]
    undone: dict[str, int]
    asked: list[str]
    """The effects whose undo was asked for, in that order, each time."""
    state: str


def faults(cell: Cell, came: Came) -> list[str]:
    """What is wrong in a square, in words; empty if it is right."""
    return [
        why
        for why, is_right in (
            ("an effect stands twice", all(count == 1 for count in came.made.values())),
            ("something was undone twice", all(count == 1 for count in came.undone.values())),
            ("something was undone that was never there", set(came.asked) <= set(came.made)),
            (f"made {sorted(came.made)}", _made_what_it_should(cell, set(came.made))),
            (f"undone {sorted(came.undone)}", set(came.undone) == _to_undo(cell, came)),
            (f"asked to undo in the order {''.join(came.asked)}", _is_in_order(cell, came)),
            (f"the run is {came.state}", came.state == _end(cell, came)),
        )
        if not is_right
    ]


def _made_what_it_should(cell: Cell, made: set[str]) -> bool:
    every = set(cell.shape.effects)
    if cell.trouble in (EFFECT_ABSENT, EFFECT_REFUSED):
        before = {one for branch in cell.shape.branches if cell.place in branch for one in branch.split(cell.place)[0]}
        return before <= made <= every - {cell.place}
    if cell.trouble == EFFECT_DARK:
        return cell.place in made
    return made == every


def _to_undo(cell: Cell, came: Came) -> set[str]:
    made = set(came.made)
    if cell.trouble == EFFECT_DARK:
        return set()  # while it is unknown nothing is undone, itself included
    if cell.trouble in (UNDO_REFUSED, UNDO_BUSY, UNDO_FORBIDDEN):
        return made - {cell.place} - cell.shape.below(cell.place)
    if cell.trouble == UNDO_DARK:
        return set(came.asked)  # nothing begins behind it: see the order
    return made


def _is_in_order(cell: Cell, came: Came) -> bool:
    first = {effect: came.asked.index(effect) for effect in came.asked}
    if any(first[high] > first[low] for high in first for low in cell.shape.below(high) if low in first):
        return False
    if cell.trouble == UNDO_DARK and (not came.asked or came.asked[-1] != cell.place):
        return False
    if len(cell.shape.branches) == 1:
        return list(first) == sorted(first, reverse=True)
    return True


def _end(cell: Cell, came: Came) -> str:
    if cell.trouble in (EFFECT_DARK, UNDO_DARK):
        return "held"
    left = set(came.made) - set(came.undone)
    if not left:
        return "compensated"
    return "partly compensated" if came.undone else "compensation failed"
