"""Reads the trace of a run out of its ledger, with all its turns and what was done to it by verbs.

What is in a trace, and its ids, is decided in `core.trace`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fencepost.core.trace import Trace, trace_of

if TYPE_CHECKING:
    from fencepost.core.records import Run
    from fencepost.store.api import Store

TURNS_MAX = 100
"""Of a run that has continued, so many of its last turns are read."""


def read_trace(store: Store, run: Run) -> Trace:
    """The trace of a run, whatever worker has lived it; of one that continued, with at most `TURNS_MAX` turns.

    Raises:
        StoreUnavailable: the ledger cannot be read.
    """
    numbers = range(max(0, run.turn - TURNS_MAX + 1), run.turn)
    earlier = [turn for number in numbers if (turn := store.turn(run.namespace, run.id, number)) is not None]
    histories = store.load_all([one.no for one in (*earlier, run)])
    return trace_of(histories, store.audits(run.namespace, run.id))
