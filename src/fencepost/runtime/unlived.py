"""What becomes of a run that its owner cannot live on: held for a person, or handed back to be claimed anew.

Either raises the generation, so that what still goes on of its old life in this process can change nothing any more:
it is a stale owner, and what it says is evidence (`late`). Living runs is `worker`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fencepost.core.errors import FencepostError, TimeoutIgnored
from fencepost.core.identity import canonical
from fencepost.core.records import History, Run
from fencepost.core.transitions import RUN, RunEvent
from fencepost.effects.failures import error_record
from fencepost.runtime.moves import disown, move_run

if TYPE_CHECKING:
    from fencepost.effects.attempting import Attempting
    from fencepost.store.api import Store


def hold_for_error(store: Store, run: Run, error: Exception) -> None:
    """Hold a run that this process owns and cannot live; no person did it, so no audit row."""
    step = error.ids.get("step", "") if isinstance(error, FencepostError) else ""
    hold = canonical({"reason": type(error).__name__, "step": step, "detail": error_record(error).message})

    def decision(history: History, now: int) -> Any:
        if history.run.generation != run.generation or not RUN.allows(history.run.state, RunEvent.HOLD):
            return [], [], []
        return [*disown(history, now), move_run(history.run, RunEvent.HOLD, now)._replace(hold=hold)], [], []

    store.decide(run.no, decision)


def hand_back(store: Store, run: Run) -> None:
    """Let whoever comes next claim the run at once; what is in flight of it is unknown, and asked about first."""

    def decision(history: History, now: int) -> Any:
        if history.run.generation != run.generation or not RUN.allows(history.run.state, RunEvent.RELEASE):
            return [], [], []
        return [*disown(history, now), move_run(history.run, RunEvent.RELEASE, now)._replace(wake_at=now)], [], []

    store.decide(run.no, decision)


def ignores_its_time(run: Run, attempting: Attempting) -> TimeoutIgnored:
    """The reason of a run's hold: a body that sends nothing has no attempts that are counted.

    Asking it again would begin one after the other.
    """
    return TimeoutIgnored(
        f"{attempting.position} goes on although its time is over and it was cancelled",
        hint="let asyncio.CancelledError through in its body",
        ids={"run": run.id, "step": attempting.position},
    )
