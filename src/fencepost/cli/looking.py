"""Shows what the ledger holds: the commands `runs` and `show`.

They read and change nothing, need no app, and refuse to create a ledger that is not there. One run's document is made
by `story` and laid out by `timeline`, what may be done about it by `offers`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from fencepost.cli import terminal
from fencepost.cli.exits import Exit, Usage
from fencepost.cli.options import AppOption, AsJson, Db, Namespace, RunId
from fencepost.cli.printable import instant
from fencepost.core.records import Lease, Run

if TYPE_CHECKING:
    from fencepost.core.queue import QueueStanding
    from fencepost.store.api import Store

State = Annotated[str | None, typer.Option("--state", metavar="STATE", help="Only runs in this state.")]
WorkflowName = Annotated[str | None, typer.Option("--workflow", metavar="NAME", help="Only runs of this workflow.")]
Prefix = Annotated[str | None, typer.Option("--prefix", metavar="TEXT", help="Only runs whose id begins with this.")]
After = Annotated[int | None, typer.Option("--after", metavar="N", help="The next page: `next` of the page before.")]
Limit = Annotated[int, typer.Option("--limit", min=1, max=10_000, help="Runs on a page.")]
Turn = Annotated[int | None, typer.Option("--turn", min=0, metavar="N", help="An earlier turn of one that continued.")]
Follow = Annotated[bool, typer.Option("--follow", help="Go on with a line for each change, until it ends or is held.")]
Redact = Annotated[bool, typer.Option("--redact", help="Leave out requests, results, evidence and signals' values.")]


def runs(
    *,
    state: State = None,
    workflow: WorkflowName = None,
    prefix: Prefix = None,
    after: After = None,
    limit: Limit = 50,
    app: AppOption = None,
    db: Db = None,
    namespace: Namespace = None,
    as_json: AsJson = False,
) -> Exit:
    """List runs, newest first.

    With --json: `runs` (`id`, `workflow`, `workflow_version`, `state`, `label`, `generation`, `version`, `created_at`,
    `changed_at`, `ended_at`, `wake_at`, `hold`, `turn`, `parent` (whether it has one), `carried`: false where no live
    worker knows its version, null where that is no question) and `next` (for --after; null at the end).
    """
    from fencepost.cli.story import is_carried
    from fencepost.cli.target import app_for, opened
    from fencepost.store.api import RunFilter

    wanted = None if state is None else _state(state)
    with opened(app_for(app, db, namespace, with_code=False)) as ledger:
        found = ledger.store.runs(RunFilter(ledger.namespace, wanted, workflow, prefix, after, limit + 1))
        following = found[limit - 1].no if len(found) > limit else None
        found = found[:limit]
        leases, now = ledger.store.leases(), ledger.store.now()
        reasons = [] if as_json else [_why(run, ledger.store) for run in found]
    if as_json:
        rows = [_row(run) | {"carried": is_carried(run, leases, now)} for run in found]
        terminal.document({"runs": rows, "next": following})
        return Exit.DONE
    if not found:
        terminal.remark("no runs")
        return Exit.DONE
    terminal.table(
        ("run", "workflow", "state", "changed", "why"),
        [
            (run.id, run.workflow, run.state.value, instant(run.changed_at), _uncarried(run, leases, now) + why)
            for run, why in zip(found, reasons, strict=True)
        ],
    )
    if following is not None:
        terminal.remark(f"more: --after {following}")
    return Exit.DONE


def _uncarried(run: Run, leases: list[Lease], now: int) -> str:
    from fencepost.cli.story import is_carried

    return f"no worker carries version {run.workflow_version}; " if is_carried(run, leases, now) is False else ""


def _state(text: str) -> str:
    from fencepost.core.states import RunState

    wanted = text.replace("-", " ").replace("_", " ")
    if wanted not in set(RunState):
        raise Usage(f"no run is ever {text!r}", hint=f"states: {', '.join(RunState)}")
    return wanted


def _row(run: Run) -> dict[str, Any]:
    import json

    from fencepost.core.states import label

    return {
        "id": run.id,
        "workflow": run.workflow,
        "workflow_version": run.workflow_version,
        "state": run.state.value,
        "label": label(run.state),
        "generation": run.generation,
        "version": run.version,
        "created_at": instant(run.created_at),
        "changed_at": instant(run.changed_at),
        "ended_at": instant(run.ended_at),
        "wake_at": instant(run.wake_at),
        "hold": None if run.hold is None else json.loads(run.hold),
        "turn": run.turn,
        "parent": run.parent is not None,
    }


def _why(run: Run, store: Store) -> str:
    """Why a run stands as it does; only of those that wait or are held the steps are read too."""
    import json

    from fencepost.cli.story import awaited, held_at, kept_back
    from fencepost.core.states import RunState, label

    if run.hold is not None:
        return f"{json.loads(run.hold).get('reason')} at {held_at(store.load(run.no))}"
    if run.state is not RunState.WAITING:
        return label(run.state)
    until = f"until {instant(run.wake_at)}" if run.wake_at else label(run.state)
    contained = kept_back(run, store.contained(run.namespace)) if run.behind is not None else []
    return "; ".join([*contained, *awaited(store.load(run.no))]) or until


def show(
    run: RunId,
    *,
    turn: Turn = None,
    follow: Follow = False,
    redact: Redact = False,
    app: AppOption = None,
    db: Db = None,
    namespace: Namespace = None,
    as_json: AsJson = False,
) -> Exit:
    """Show one run, step by step.

    Attempts, outcomes with evidence, keys, owners, children, progress, what it waits for, and which verbs apply.

    With --json: `run`, `waits_for`, `verbs`, `children`, `cancellation`, `steps`, `compensation`, `signals`, `audit`;
    keys are never shortened.
    """
    from fencepost.cli.following import follow as following
    from fencepost.cli.offers import Place, offers
    from fencepost.cli.story import Family, story
    from fencepost.cli.target import app_for, opened, run_of
    from fencepost.cli.timeline import timeline

    if follow and (as_json or turn is not None):
        raise Usage("--follow is for a screen and for the turn that is under way", hint="leave --json and --turn out")
    with opened(app_for(app, db, namespace, with_code=False)) as ledger:
        store = ledger.store
        found = run_of(ledger, run)
        if turn not in (None, found.turn):
            found = store.turn(ledger.namespace, run, turn) or _no_turn(found, turn)
        history = store.load(found.no)
        parent = None if found.parent is None else store.load(found.parent).run.id
        family = Family(parent, store.children(found.no), store.now())
        ahead = store.ahead_of(history.run) if history.run.resource is not None else None
        leases, audits = store.leases(), store.audits(ledger.namespace, run)
        contained = store.contained(ledger.namespace) if history.run.behind is not None else []
        queue = _queue_of(history.run, store)
        told = story(
            history, leases, audits, family=family, ahead=ahead, contained=contained, queue=queue, redact=redact
        )
        if as_json:
            terminal.document(told)
        else:
            terminal.say(*timeline(told), "", *offers(told, Place(app, db, namespace)))
        if follow:
            terminal.say("")
            for line in following(store, ledger.namespace, run):
                terminal.say(line)
            return Exit.HELD if run_of(ledger, run).hold is not None else Exit.DONE
    return Exit.DONE


def _queue_of(run: Run, store: Store) -> QueueStanding | None:
    """How the queue of a run stands, if it is in one."""
    found = store.queues(run.namespace) if run.queue is not None else []
    return next((one for one in found if one.name == run.queue), None)


def _no_turn(run: Run, turn: int | None) -> NoReturn:
    raise Usage(f"the run has no turn {turn}", hint=f"its turns are 0 to {run.turn}")
