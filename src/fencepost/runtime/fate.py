"""How one life of a run in this process ends: what `execution` tells the worker that lives it.

What the worker does then, and how often it loads a run again, is `worker`.
"""

from __future__ import annotations

from enum import Enum, auto


class Fate(Enum):
    """Why an execution ended in this process."""

    GIVEN_UP = auto()
    """It waits, is held, or has ended; the ledger says which."""

    RELOAD = auto()
    """The ledger holds something else of it than this copy (a cancel, late evidence): load it again and go on."""

    LOST = auto()
    """Somebody else owns it."""
