"""Moves a run to another version of its workflow, after its history was replayed against that version's code.

For a run whose own version no worker carries any more, or whose code was mended under a new number. It is a verb like
the others (`verbs`): one transaction, audited, refused with the first difference named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fencepost.core.errors import Misuse, VerbRefused
from fencepost.core.records import History, Run
from fencepost.core.states import RunState
from fencepost.core.transitions import RUN, RunEvent
from fencepost.runtime.deeds import Deed, Desk, perform
from fencepost.runtime.moves import disown, does_not_apply, move_run
from fencepost.runtime.rehearsal import Rehearsal, rehearse
from fencepost.store.moves import PinRun

if TYPE_CHECKING:
    from fencepost.runtime.workflow import Workflow


def rehearsed(app: Desk, run: Run, *, to: int) -> Rehearsal:
    """What the run's history comes to under another version's code; changes nothing. Raises `Misuse`: none is known."""
    return rehearse(_version(app, run, to), app.store.load(run.no))


def migrate(app: Desk, run: Run, *, to: int, by: str, reason: str, version: int | None = None) -> Run:
    """Pin a run to another version of its workflow, whose code tells the same story so far.

    Whoever owns it loses it, and what was in flight is asked about first. A held run stays held, a failed one failed,
    until it is resumed.

    Raises:
        VerbRefused: the run is pinned to it already or has ended, or its history does not fit the code.
    """

    def deed(history: History, now: int) -> Deed:
        found = history.run
        workflow = _version(app, found, to)
        refused = barred(found, to)
        if refused is not None:
            raise refused
        difference = rehearse(workflow, history).difference
        if difference is not None:
            raise VerbRefused(
                f"the history does not fit {found.workflow} version {to}: {difference.message}",
                hint="run.patched keeps the old way for runs like this one",
                ids={"run": run.id} | difference.ids,
            )
        pin = PinRun(found.no, found.generation, found.state.value, found.workflow_version, to)
        move = move_run(found, RunEvent.MIGRATE, now)
        rests = RunState(move.to) in (RunState.HELD, RunState.FAILED)
        move = move._replace(wake_at=None if rests else now, hold=found.hold, ended_at=found.ended_at)
        return Deed([*disown(history, now), pin, move], [])

    return perform(app, run, "migrate", by=by, reason=reason, version=version, deed=deed, asked={"to": to}).run


def barred(run: Run, to: int) -> VerbRefused | None:
    """Why a run as it is cannot be pinned to that version, whatever its history; None: it can."""
    if not RUN.allows(run.state, RunEvent.MIGRATE):
        return does_not_apply("migrate", run)
    if run.workflow_version == to:
        return VerbRefused(f"the run is pinned to version {to} already", ids={"run": run.id})
    return None


def _version(app: Desk, run: Run, to: int) -> Workflow[..., Any]:
    found = app.workflows.get((run.workflow, to))
    if found is None:
        known = ", ".join(str(version) for name, version in sorted(app.workflows) if name == run.workflow) or "none"
        raise Misuse(
            f"the app has no version {to} of workflow {run.workflow!r}", hint=f"it has: {known}", ids={"run": run.id}
        )
    return found
