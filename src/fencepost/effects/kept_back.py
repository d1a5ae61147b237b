"""What a dispatch does that may meet something contained: it asks, and notes from when to when it was kept back.

The notes are what a budget's time is reckoned by (`core.recovery`). The ledger's own guard is in the dispatch itself;
what becomes of a run that is kept back is `runtime.closing`.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING

from fencepost.core.containment import Containment, behind
from fencepost.core.identity import canonical
from fencepost.core.records import CONTAINED, RELEASED, Observation
from fencepost.core.recovery import is_kept_back
from fencepost.effects.needs import ReadContained

if TYPE_CHECKING:
    from fencepost.effects.entry import Entry
    from fencepost.store.moves import Observe


def kept_back_by(
    entry: Entry, now: int, observations: list[Observe]
) -> Generator[ReadContained, Sequence[Containment], tuple[str, str] | None]:
    """Why an operation's next dispatch may not go, and the marks that it waits behind; None: it may."""
    contained = yield ReadContained(entry)
    if not entry.is_new and bool(contained) is not is_kept_back(entry.operation):
        kind = CONTAINED if contained else RELEASED
        told = canonical({"kind": kind, "by": [one.text for one in contained]})
        observations.append(entry.observe(Observation(kind, None, told, now)))
    return ("contained: " + "; ".join(one.text for one in contained), behind(contained)) if contained else None
