"""How far an operation was led: the kinds of end that `perform` comes to, each with what still has to be committed.

What becomes of the run then is the runtime's matter.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from fencepost.core.errors import ErrorRecord
from fencepost.effects.values import Carried
from fencepost.store.api import Answer
from fencepost.store.moves import Move, Observe


@dataclass(slots=True)
class Conclusion:
    """How far the operation was led. `moves` and `observations` still have to be committed."""

    moves: list[Move] = field(default_factory=list)
    observations: list[Observe] = field(default_factory=list)


@dataclass(slots=True)
class Concluded(Conclusion):
    """The operation is final and the workflow is to receive a result or an error.

    `at` is the instant of the delivery, as the moves record it: a replay sees the same.
    """

    at: int = 0
    payload: Carried | str | None = None
    error: ErrorRecord | None = None


@dataclass(slots=True)
class Later(Conclusion):
    """Nothing to do before `until`, microseconds of the store's clock; or while what `behind` marks is contained."""

    until: int = 0
    why: str = ""
    behind: str = ""


@dataclass(slots=True)
class Holding(Conclusion):
    """The run must be held for a person; `at` is the position of the operation, if not the one that was led.

    `with_hold` are moves that must not be in the ledger without the hold: an operation whose budget is spent has failed
    for a person to see, and whoever found it failed after a crash would hand its error to the workflow. Or without
    which there must be no hold: that an operation is unknown still.
    """

    reason: str = ""
    detail: str = ""
    at: str = ""
    with_hold: list[Move] = field(default_factory=list)


@dataclass(slots=True)
class Superseded(Conclusion):
    """The ledger refused the moves: somebody else owns the run, or moved it."""

    answer: Answer = Answer.STALE
