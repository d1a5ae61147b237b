"""The compensation matrix as a table: what goes wrong down, at which effect of which order across.

Each square tells what was undone, in that order, and how the run ended. Who went back makes no difference where all
who may have come to the same; where they have not, each is told. What is wrong stands below the table.
"""

from collections.abc import Iterator, Mapping

from tests.compensation.cells import CELLS, SHAPES, TROUBLES, WELL, Came, Cell, Shape, faults

ENDS = {"compensated": "C", "partly compensated": "P", "compensation failed": "F", "held": "H"}

LEGEND = (
    "each square: the effects undone, in that order (- none), and how the run ended: C compensated, P partly",
    "compensated, F compensation failed, H held for a person; told once where the workflow, its declared policy and a",
    "person came to the same",
)


def lines(came: Mapping[Cell, Came]) -> Iterator[str]:
    """The table."""
    for shape in SHAPES:
        mine = {cell: came[cell] for cell in CELLS if cell.shape == shape and cell in came}
        yield f"{shape.name:38}" + "".join(f"{f'at {effect}':10}" for effect in shape.effects)
        yield f"  {WELL:36}{_square(mine, WELL, '')}"
        for trouble in TROUBLES:
            yield f"  {trouble:36}" + "".join(f"{_square(mine, trouble, place):10}" for place in shape.effects)
    yield from LEGEND
    wrong = failures(came)
    yield f"{len(came)} squares, {len(came) - len(wrong)} right"
    yield from (f"WRONG: {one}" for one in wrong)


def _square(came: Mapping[Cell, Came], trouble: str, place: str) -> str:
    told = {cell: _told(one) for cell, one in came.items() if (cell.trouble, cell.place) == (trouble, place)}
    is_sorted = _is_one_branch(next(iter(told)).shape) if told else True
    if len({text if is_sorted else "".join(sorted(text)) for text in told.values()}) <= 1:
        return next(iter(told.values()), "")
    return " ".join(f"{cell.starter[0]}:{text}" for cell, text in told.items())


def _is_one_branch(shape: Shape) -> bool:
    return len(shape.branches) == 1


def _told(came: Came) -> str:
    undone = "".join(dict.fromkeys(one for one in came.asked if one in came.undone))
    return f"{undone or '-'} {ENDS.get(came.state, came.state)}"


def failures(came: Mapping[Cell, Came]) -> list[str]:
    """What is wrong, square by square."""
    return [f"{cell}: {'; '.join(found)}" for cell, one in came.items() if (found := faults(cell, one))]
