"""How a process learns that another one has changed the ledger: it looks, or it is told.

A file can only be looked at; `Looked` asks a mark that moves with every write of another connection. A server tells
those who listen: `postgres_listener`. Either way a change is a hint and never the only way: whoever waits also looks
whether something is due after a pause. What is done then is the worker's matter.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol


class Signalled(NamedTuple):
    """A run for which somebody has kept a signal, as it stood in that commit."""

    run: int
    generation: int | None = None
    """None: somebody owns it, and nobody else has anything to do."""
    state: str = ""


Told = Callable[[Signalled | None], None]
"""What is called, from any thread, when somebody may have changed the ledger; None: in whatever way."""


class Changes(Protocol):
    """One worker's ear; from `Store.changes`."""

    @property
    def pulse(self) -> float:
        """Seconds between two looks."""

    @property
    def pause_max(self) -> float:
        """Seconds after which a worker looks whether something is due although it has heard of nothing."""

    def look(self) -> bool:
        """Whether somebody may have changed the ledger since the last look; cheap enough to ask at every pulse."""

    def close(self) -> None:
        """Hear no more."""


class Looked:
    """Asks for a mark, again and again; `mark` is cheap and moves when another connection has written."""

    pulse = 0.05
    pause_max = 1.0

    def __init__(self, mark: Callable[[], int]) -> None:
        self._mark = mark
        self._last = -1

    def look(self) -> bool:
        """See `Changes.look`. Writes of this process count too."""
        mark = self._mark()
        moved = mark != self._last
        self._last = mark
        return moved

    def close(self) -> None:
        """Nothing is held."""
