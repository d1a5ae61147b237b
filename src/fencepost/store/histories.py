"""Loads runs with everything that belongs to them: one list of tables, and one round trip for however many runs.

What each column becomes is `rows`'s part; when a history is read, and under which lock, `verbs`'s.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from fencepost.core.errors import RunNotFound
from fencepost.core.records import History
from fencepost.store import rows
from fencepost.store.queries import Row
from fencepost.store.statements import Statements, Wanted

_TABLES_OF_A_RUN = (
    "load_run", "steps_of", "operations_of", "attempts_of", "observations_of", "signals_of", "children_of",
)  # fmt: skip


def load_one(reading: Statements, run: int) -> History:
    """Everything of one run. Raises `RunNotFound` when none has this number."""
    history = load(reading, [run])[0]
    if history.run.queue is not None and history.run.ended_at is not None:
        rival = reading.execute("rival_of", run=run)
        history.rival = f"{rival[0][0]}, which is {rival[0][1]}" if rival else None
    return history


def load(reading: Statements, runs: Sequence[int]) -> list[History]:
    """Everything of some runs, in their order and in one round trip; see `load_one`."""
    found = iter(reading.execute_all([one for run in runs for one in tables_of(run)]))
    return [read(run, list(islice(found, len(_TABLES_OF_A_RUN)))) for run in runs]


def tables_of(run: int) -> list[Wanted]:
    """What is to be read of a run; `read` makes its history of the answers."""
    return [(name, {"run": run}) for name in _TABLES_OF_A_RUN]


def read(run: int, tables: Sequence[list[Row]]) -> History:
    """The history of a run, of what its tables hold. Raises `RunNotFound` when none has this number."""
    found, steps, operations, attempts, observations, signals, children = tables
    if not found:
        raise RunNotFound(f"no run has number {run}", hint="look it up by its id", ids={"run": str(run)})
    return rows.history(
        found[0],
        steps=steps,
        operations=operations,
        attempts=attempts,
        observations=observations,
        signals=signals,
        children=children,
    )
