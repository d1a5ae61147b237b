"""`fencepost bulk`: one verb on many runs, each by itself; with --dry-run, what it would do to each.

Which runs are selected, and what is refused, is `runtime.bulk`; going on with a job that was begun here is `bulks`.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from fencepost.cli import terminal
from fencepost.cli.exits import Exit, Usage
from fencepost.cli.looking import Prefix, State, WorkflowName
from fencepost.cli.options import AppOption, AsJson, By, Db, Item, Namespace, Reason, json_value, somebody

if TYPE_CHECKING:
    from fencepost.core.bulk import Bulk
    from fencepost.runtime.app import App
    from fencepost.runtime.bulk import Each, Selection

Verb = Annotated[
    str,
    typer.Argument(metavar="VERB", help="resume, reconcile, retry, cancel, compensate, terminate, reopen or migrate."),
]
StepOfMany = Annotated[
    str | None, typer.Argument(metavar="[STEP]", help="The step, for retry, and for reconcile or compensate of one.")
]
HeldBy = Annotated[
    str | None, typer.Option("--held-by", metavar="REASON", help="Only runs that are held for this reason.")
]
AtMost = Annotated[int, typer.Option("--limit", min=1, max=10_000, help="Runs at most, the newest first.")]
Shown = Annotated[
    str | None,
    typer.Option(
        "--shown", metavar="FILE", help="Those of a --dry-run's JSON, each only if it is still as it was; or -."
    ),
]
ToVersion = Annotated[int | None, typer.Option("--to", min=1, metavar="VERSION", help="The version, for migrate.")]
Pace = Annotated[str, typer.Option("--pace", metavar="DURATION", help="Between two runs, such as 200ms.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what it would do to each run; change nothing.")]


def bulk(
    verb: Verb, step: StepOfMany = None, *, reason: Reason, held_by: HeldBy = None, state: State = None,
    workflow: WorkflowName = None, prefix: Prefix = None, shown: Shown = None, limit: AtMost = 20, pace: Pace = "0s",
    dry_run: DryRun = False, item: Item = None, to: ToVersion = None, by: By = None, app: AppOption = None,
    db: Db = None, namespace: Namespace = None, as_json: AsJson = False,
) -> Exit:  # fmt: skip
    """Do one verb to many runs: those in a state, held for a reason, or shown by a --dry-run.

    Each run is done by itself and leaves its own audit row; one that is refused does not stop the others. It is a job
    of its own, which `bulks` lists: Ctrl-C stops after the run that is being done, and so does `bulks pause`, from
    anywhere; `bulks resume` goes on, also after a kill. Verbs that need an effect's code need --app.

    With --json: `runs` (`run`, `before`, `after`, `moves` with --dry-run, `refused`: null or why, `version`).
    """
    from fencepost.cli.target import app_for, opened
    from fencepost.runtime.bulk import Selection, rehearse, select
    from fencepost.runtime.bulking import begin

    wanted = Selection(_state(state), held_by, workflow, prefix, limit, _shown(shown))
    pause = pause_of(pace)
    who = somebody(by)
    verb = "compensate step" if verb == "compensate" and step is not None else verb
    arguments = {"by": who, "reason": reason, **_own(verb, step, item, to)}
    with opened(app_for(app, db, namespace, with_code=app is not None)) as ledger:
        if dry_run:
            runs = select(ledger.store, ledger.namespace, _checked(wanted))
            return _told(list(rehearse(ledger, runs, _known(verb), **arguments)), as_json=as_json, dry_run=True)
        job = begin(ledger, _known(verb), _checked(wanted), **arguments)
        if job is None:
            return _told([], as_json=as_json)
        return work_on(ledger, job, by=who, pause=pause, as_json=as_json)


def work_on(ledger: App, job: Bulk, *, by: str, pause: float, as_json: bool) -> Exit:
    """Do what is left of a job, and say what became of each run."""
    from fencepost.runtime.bulking import carry_out, named

    done = until_stopped(carry_out(ledger, job, by=by), pause, job.left)
    now = named(ledger, job.no)
    if now.left:
        what = "paused" if now.state is now.state.PAUSED else "stopped"
        terminal.remark(
            f"{what}; {now.left} of {now.runs} runs are left as they were: `fencepost bulks resume {now.no} --reason "
            "TEXT` goes on with them"
        )
    code = _told(done, as_json=as_json)
    return Exit.INTERRUPTED if now.left else code


def until_stopped(doing: Iterator[Each], pause: float, count: int) -> list[Each]:
    """One after the other; Ctrl-C stops after the one that is being done, so that no run is left in between."""
    stop = threading.Event()
    before = signal.signal(signal.SIGINT, lambda *_: stop.set())
    done: list[Each] = []
    try:
        while not stop.is_set() and (one := next(doing, None)) is not None:
            done.append(one)
            if len(done) < count:
                stop.wait(pause)
    finally:
        signal.signal(signal.SIGINT, before)
    return done


def _told(done: list[Each], *, as_json: bool, dry_run: bool = False) -> Exit:
    if as_json:
        terminal.document({"runs": [asdict(one) for one in done]})
    else:
        _show(done, dry_run=dry_run)
    return Exit.REFUSED if any(one.refused for one in done) else Exit.DONE


def _shown(file: str | None) -> dict[str, int] | None:
    if file is None:
        return None
    told = json_value(f"@{file}", what="--shown")
    try:
        return {str(one["run"]): int(one["version"]) for one in told["runs"] if one["refused"] is None}
    except (KeyError, TypeError, ValueError) as error:
        raise Usage("--shown is not what `bulk --dry-run --json` writes", hint="write its output to a file") from error


def pause_of(pace: str) -> float:
    """Seconds between two runs. Raises `Usage`."""
    from fencepost.core.duration import SECOND, microseconds
    from fencepost.core.errors import DeclarationError

    try:
        return microseconds(pace, what="--pace") / SECOND
    except DeclarationError as error:
        raise Usage(error.message, hint=error.hint) from error


def _state(state: str | None) -> str | None:
    return None if state is None else state.replace("-", " ").replace("_", " ")


def _checked(wanted: Selection) -> Selection:
    from fencepost.core.errors import Misuse

    try:
        wanted.check()
    except Misuse as error:
        raise Usage(error.message, hint=error.hint) from error
    return wanted


def _known(verb: str) -> str:
    from fencepost.runtime.bulk import IN_BULK

    if verb not in IN_BULK:
        raise Usage(f"{verb!r} is not done to many runs", hint=f"one of: {', '.join(IN_BULK)}")
    return verb


def _own(verb: str, step: str | None, item: str | None, to: int | None) -> dict[str, str | int | None]:
    from fencepost.core.errors import Misuse
    from fencepost.runtime.bulk import own_arguments

    try:
        return own_arguments(verb, step=step, item=item, to=to)
    except Misuse as error:
        raise Usage(error.message, hint=error.hint) from error


def _show(done: list[Each], *, dry_run: bool) -> None:
    if not done:
        terminal.remark("no such runs")
        return
    is_ = "would be" if dry_run else "is"
    terminal.table(
        ("run", "was", is_, "what"),
        [
            (one.run, one.before, one.after, f"refused: {one.refused}" if one.refused else "; ".join(one.moves))
            for one in done
        ],
    )
    refused = sum(one.refused is not None for one in done)
    terminal.remark(
        f"{len(done) - refused} of {len(done)} {'would be ' * dry_run}done" + (", nothing changed" * dry_run)
    )
