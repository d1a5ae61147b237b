"""What a person looks at first: effects of which nobody knows whether they happened, and why runs are held.

Pure, rows only. They are read by `store.overview`, and shown by the console's front page.
"""

from __future__ import annotations

from typing import NamedTuple

from fencepost.core.states import RunState


class UnknownEffect(NamedTuple):
    """An effect of which nobody knows whether it happened. Times are microseconds of the ledger's clock."""

    run_id: str
    run_state: str
    step: str
    item: str
    reference: str | None
    first_dispatched_at: int
    lookups: int


class FailedOf(NamedTuple):
    """How many runs failed of errors of one class, when the newest of them did, and which that is."""

    error: str
    runs: int
    newest: int
    example: str


class HeldFor(NamedTuple):
    """How many runs are held for a reason, since when the first of them, and which that is."""

    reason: str
    runs: int
    since: int
    example: str


class FirstLook(NamedTuple):
    """Unknown effects, the oldest first; why runs are held and have failed, most first; how many are in each state."""

    unknown: list[UnknownEffect]
    held: list[HeldFor]
    failed: list[FailedOf]
    counts: dict[RunState, int]
