"""The one move that leads a run through an event, for owners and for people alike.

Which event leads where is in `core.transitions`; what goes with a run's end or wait is filled in by the caller.
"""

from __future__ import annotations

from fencepost.core.errors import VerbRefused
from fencepost.core.identity import canonical
from fencepost.core.records import History, Run
from fencepost.core.states import OperationState, RunState
from fencepost.core.transitions import OPERATION, RUN, OperationEvent, RunEvent
from fencepost.store.moves import MoveOperation, MoveRun


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


def ask_to_cancel(run: Run, now: int, *, by: str, reason: str) -> MoveRun:
    """Ask a run to stop; whoever owns it goes on to own it. Raises `VerbRefused` where nothing can be stopped.

    One that is asked again while it is at it keeps the request that it has: the targets are not asked twice.
    """
    asked = None if run.state is RunState.CANCELLING else canonical({"who": by, "why": reason, "at": now})
    owned = run.lease is not None
    move = move_run(run, RunEvent.CANCEL, now, keep_lease=owned, raises=False)
    return move._replace(cancel=asked, wake_at=None if owned else now)


def go_on(run: Run, now: int) -> MoveRun:
    """Lead a held run to what it was doing: one whose cancel was accepted goes on cancelling, and begins nothing."""
    event = RunEvent.RESUME if run.cancel is None else RunEvent.CANCEL
    return move_run(run, event, now)._replace(wake_at=now)


def does_not_apply(verb: str, run: Run) -> VerbRefused:
    """The refusal of a verb that does not apply to the run as it is."""
    return VerbRefused(
        f"{verb} does not apply to a run that is {run.state}",
        hint="`fencepost show` lists the verbs",
        ids={"run": run.id},
    )


def require_no_rival(history: History) -> None:
    """Refuse to let a run that has ended go on beside one that stands for the same in its queue.

    Going back is not going on: it is never refused for this. Raises `VerbRefused`.
    """
    if history.rival is not None:
        raise VerbRefused(
            f"run {history.rival}, stands for the same in queue {history.run.queue}",
            hint="wait until that one has ended, or end it; `compensate` is possible beside it",
            ids={"run": history.run.id},
        )


def disown(history: History, now: int) -> list[MoveOperation]:
    """Whoever was sending is no longer believed to be: what is in flight becomes unknown, as at a takeover."""
    moves: list[MoveOperation] = []
    for operation in history.operations:
        if operation.state is OperationState.DISPATCHED:
            to = OPERATION.after(operation.state, OperationEvent.TAKE_OVER)
            moves.append(
                MoveOperation(
                    operation.run, history.run.generation, operation.step, operation.item or "", operation.state.value,
                    OperationEvent.TAKE_OVER.value, to.value, None, None, None, None, None, int(operation.conflict),
                    operation.lookups, now,
                )
            )  # fmt: skip
    return moves
