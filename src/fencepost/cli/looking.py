"""Shows what the ledger holds: the commands `runs` and `show`.

They read and change nothing, need no app, and refuse to create a ledger that is not there. One run's document is made
by `story` and laid out by `timeline`, what may be done about it by `offers`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, NoReturn

import typer

from fencepost.cli import terminal
from fencepost.cli.exits import Exit, Usage
from fencepost.cli.options import AppOption, AsJson, Db, Namespace, RunId
from fencepost.console.printable import instant
from fencepost.core.records import Run

if TYPE_CHECKING:
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
    from fencepost.cli.target import app_for, opened
    from fencepost.console.reading import runs_page
    from fencepost.store.api import RunFilter

    wanted = None if state is None else _state(state)
    with opened(app_for(app, db, namespace, with_code=False)) as ledger:
        page = runs_page(ledger.store, RunFilter(ledger.namespace, wanted, workflow, prefix, after, limit))
        reasons = [] if as_json else [_why(run, ledger.store) for run in page.runs]
    if as_json:
        terminal.document(page.as_document())
        return Exit.DONE
    found, following = page.runs, page.following
    if not found:
        terminal.remark("no runs")
        return Exit.DONE
    terminal.table(
        ("run", "workflow", "state", "changed", "why"),
        [
            (run.id, run.workflow, run.state.value, instant(run.changed_at), _uncarried(run, carried) + why)
            for run, carried, why in zip(found, page.carried, reasons, strict=True)
        ],
    )
    if following is not None:
        terminal.remark(f"more: --after {following}")
    return Exit.DONE


def _uncarried(run: Run, carried: bool | None) -> str:  # noqa: FBT001 - said of the run beside it
    return f"no worker carries version {run.workflow_version}; " if carried is False else ""


def _state(text: str) -> str:
    from fencepost.core.states import RunState

    wanted = text.replace("-", " ").replace("_", " ")
    if wanted not in set(RunState):
        raise Usage(f"no run is ever {text!r}", hint=f"states: {', '.join(RunState)}")
    return wanted


def _why(run: Run, store: Store) -> str:
    """Why a run stands as it does; only of those that wait or are held the steps are read too."""
    import json

    from fencepost.console.story import awaited, held_at, kept_back
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
    from fencepost.cli.target import app_for, opened, run_of
    from fencepost.cli.timeline import timeline
    from fencepost.console.reading import document_of

    if follow and (as_json or turn is not None):
        raise Usage("--follow is for a screen and for the turn that is under way", hint="leave --json and --turn out")
    with opened(app_for(app, db, namespace, with_code=False)) as ledger:
        store = ledger.store
        found = run_of(ledger, run)
        if turn not in (None, found.turn):
            found = store.turn(ledger.namespace, run, turn) or _no_turn(found, turn)
        told = document_of(store, found, redact=redact)
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


def _no_turn(run: Run, turn: int | None) -> NoReturn:
    raise Usage(f"the run has no turn {turn}", hint=f"its turns are 0 to {run.turn}")
