"""A ledger's life after it was restored from a backup, and what may have been lost with the time in between.

Generations and tokens issued in an epoch are above `base`, so that whoever holds one from the lost time can change
nothing in the ledger, and at no target that compares tokens. Until a person closes the lost span, each first dispatch
is treated as if one had been made already in the lost time (`protocol` D2): it is reconciled by its rung first.
"""

from __future__ import annotations

from dataclasses import dataclass

GENERATIONS_PER_SECOND = 1 << 20
"""An epoch's number is at least the wall clock in seconds: no ledger issues so many generations in one."""

NOBODY = ""
"""The lease of a dispatch that may have been made in the lost time; nobody is left to tell."""


@dataclass(frozen=True, slots=True)
class Epoch:
    """The time since a restore. `lost_from` to `began_at` (store clock) is what the ledger may have forgotten.

    `lost_from` is the time of the latest thing that it remembers; 0 if it remembers nothing.
    """

    number: int
    lost_from: int
    began_at: int
    closed_at: int | None = None

    @property
    def base(self) -> int:
        """Every generation and token of earlier epochs, remembered or lost, is below it."""
        return self.number * GENERATIONS_PER_SECOND

    @property
    def is_open(self) -> bool:
        """Whether something may still turn up that happened in the lost time."""
        return self.closed_at is None
