"""Plays the cells of a table side by side on one world, and reports each that went wrong by its name.

Each cell has a ledger of its own; they share the world, since each object carries its run's name. Most of a cell's
time is waiting for a lease to run out. What a cell can do is in `stage`; whether the numbers are right is said by the
tests.
"""

import itertools
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from fencepost.testing.world import Keys, LookUp, World
from tests.processes.nursery import Nursery
from tests.processes.stage import Stage, forget_faults

SIDE_BY_SIDE = 8
"""Cells played at a time: on two cores, more would only make leases run out for want of a processor."""

Square = TypeVar("Square")
"""What a table's cell is; its text names it in a failure."""

_numbers = itertools.count(1)
"""Runs are numbered through the whole session, since all share one world."""


@dataclass(frozen=True)
class Cell:
    """One square of a table: how the effect can be settled, how its body is written, and who goes on."""

    rung: str
    body: str = "async"
    other: bool = False

    def __str__(self) -> str:
        return f"{self.rung}, {self.body} body, {'another worker' if self.other else 'the same worker started again'}"


def arrange(world: World) -> None:
    """Make the world's collections behave as the rungs of `workflows` say."""
    forget_faults()
    for service in ("tasks", "books"):
        world.configure(service, identity=["name"], faults=[])
    world.configure("books", "payments", keys=Keys(honoured=False))
    world.configure("books", "refunds", keys=Keys(honoured=False), identity=["of"])
    world.configure("books", "reversals", identity=["of"])
    world.configure("tasks", "tasks", keys=Keys(honoured=False), look_up=LookUp(offered=False))


class Table:
    """Plays cells side by side, each on a stage of its own, and reports every cell that went wrong by its name."""

    def __init__(self, world: World, nursery: Nursery, folder: Path) -> None:
        self.world = world
        self._nursery = nursery
        self._folder = folder

    def play(
        self, cells: Iterable[Square], scene: Callable[[Stage, Square, str], None], *, control: str = "",
        ledger: Callable[[], str] = str,
    ) -> None:  # fmt: skip
        """Call `scene(stage, cell, run id)` for each cell; `ledger` gives the url of each one's, "" for a file."""
        wrong: list[Exception] = []
        with ExitStack() as stages, ThreadPoolExecutor(SIDE_BY_SIDE) as threads:
            going = []
            for cell in cells:
                run_id = f"run-{next(_numbers)}"
                stage = stages.enter_context(Stage(self.world, self._nursery, self._folder / run_id, control, ledger()))
                going.append((cell, threads.submit(_played, scene, stage, cell, run_id)))
            for cell, future in going:
                error = future.exception()
                if error is not None:
                    error.add_note(f"in the cell: {cell}")
                    wrong.append(error)
        if wrong:
            raise ExceptionGroup(f"{len(wrong)} of {len(going)} cells went wrong", wrong)


def _played(scene, stage: Stage, cell: Cell, run_id: str) -> None:
    try:
        scene(stage, cell, run_id)
    finally:
        stage.end_children()
