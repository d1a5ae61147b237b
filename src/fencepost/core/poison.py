"""Tells a run that brings its workers down from the runs that are merely beside it.

The ledger counts how often a run in work was taken over from a worker whose lease ran out, since anything of it was
last answered; crashes count although no code returned. After the first one the run goes on like any other. From the
second on it is a *suspect*: a worker lives one suspect at a time, so that the next crash is charged to that one, and a
neighbour has its chance to be answered first. At `TAKEOVERS_MAX` the run is held for a person.

Counting is the store's (`orphaned_runs` in runs.sql), holding the worker's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

TAKEOVERS_MAX: Final = 3
"""So many takeovers in a row with no answer in between, and a person is asked: as many workers had the run in work."""

SUSPECT_FROM: Final = 2
"""From so many on, a run is lived beside no other of its kind."""


def fitting(orphans: Sequence[tuple[Any, ...]], suspects: int | None) -> list[tuple[Any, ...]]:
    """Those of the orphaned runs (number, generation, state, takeovers, ...) that a worker may take now.

    They come in the order of their takeovers; at most so many suspects are among them, None: any number.
    """
    if suspects is None:
        return list(orphans)
    first_suspect = sum(not is_suspect(orphan[3]) for orphan in orphans)
    return list(orphans[: first_suspect + suspects])


def is_suspect(takeovers: int) -> bool:
    """Whether a worker should live the run beside no other suspect."""
    return takeovers >= SUSPECT_FROM


def is_poison(takeovers: int) -> bool:
    """Whether the run is to be held instead of lived."""
    return takeovers >= TAKEOVERS_MAX
