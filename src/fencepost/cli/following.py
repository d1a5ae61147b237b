"""Follows one run on the screen: a line whenever its turn, state, progress or what it waits for changes.

It looks at the ledger a few times a second, changes nothing, and ends with the run, or when the run waits for a person.
The whole story is `show`'s; this says only what is new.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from fencepost.console.printable import compact, instant, printable
from fencepost.console.story import progress_of_run, waits_for
from fencepost.core.records import History
from fencepost.core.states import FINAL_RUN_STATES, RunState, label

if TYPE_CHECKING:
    from fencepost.store.api import Store

LOOKS_PER_SECOND = 4


def follow(store: Store, namespace: str, run_id: str) -> Iterator[str]:
    """One line for each change, the first at once; ends when the run has ended or is held."""
    last = ""
    while (found := store.find(namespace, run_id)) is not None:
        history = store.load(found.no)
        said = _line(history)
        if said != last:
            yield f"{(instant(store.now()) or '')[11:19]}  {said}"
            last = said
        state = history.run.state
        if state is RunState.HELD or (state in FINAL_RUN_STATES and state is not RunState.CONTINUED):
            return
        time.sleep(1 / LOOKS_PER_SECOND)


def _line(history: History) -> str:
    run = history.run
    parts = [f"turn {run.turn}"] if run.turn else []
    parts.append(f"{run.state}: {label(run.state)}")
    progress = progress_of_run(history)
    if progress is not None:
        parts.append(f"progress {compact(progress['value'])}")
    parts += (f"waits for {printable(one)}" for one in waits_for(history) if not one.startswith("a worker"))
    return "; ".join(parts)
