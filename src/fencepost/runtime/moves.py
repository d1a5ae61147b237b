"""The one move that leads a run through an event, for owners and for people alike.

Which event leads where is in `core.transitions`; what goes with a run's end or wait is filled in by the caller.
"""

from __future__ import annotations

from fencepost.core.errors import VerbRefused
from fencepost.core.records import Run
from fencepost.core.transitions import RUN, RunEvent
from fencepost.store.api import MoveRun


def move_run(run: Run, event: RunEvent, now: int, *, keep_lease: bool = False, raises: bool = True) -> MoveRun:
    """Lead `run` through `event`. `raises`: its generation is raised, so that whoever owned it is fenced off.

    Raises:
        VerbRefused: the event does not apply to the run as it is.
    """
    if not RUN.allows(run.state, event):
        raise does_not_apply(event.value, run)
    to = RUN.after(run.state, event)
    return MoveRun(
        run.no, run.generation, run.state.value, event.value, to.value, int(keep_lease), int(raises), None, None,
        None, None, None, run.delivered, now, None,
    )  # fmt: skip


def does_not_apply(verb: str, run: Run) -> VerbRefused:
    """The refusal of a verb that does not apply to the run as it is."""
    return VerbRefused(
        f"{verb} does not apply to a run that is {run.state}",
        hint="`fencepost show` lists the verbs",
        ids={"run": run.id},
    )
