"""Jobs on many runs on the command line: which there are, what became of each run, a pause, and going on.

They are begun by `bulk`. The guards and the audit are those of `runtime.bulking`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from fencepost.cli import terminal
from fencepost.cli.exits import Exit
from fencepost.cli.many import Pace, pause_of, work_on
from fencepost.cli.options import AppOption, AsJson, By, Db, Namespace, Reason, somebody
from fencepost.console.documents import bulk_row, bulk_run_row
from fencepost.console.printable import printable
from fencepost.core.standin import missing

if TYPE_CHECKING:
    from fencepost.core.bulk import Bulk, BulkRun

Job = Annotated[int, typer.Argument(metavar="JOB", help="The job's number.")]
Every = Annotated[bool, typer.Option("--all", help="Also the jobs that are done.")]
JOBS_MAX = 50


def bulks(
    context: typer.Context, *, every: Every = False, app: AppOption = None, db: Db = None, namespace: Namespace = None,
    as_json: AsJson = False,
) -> Exit:  # fmt: skip
    """List jobs on many runs that are open, newest first: who began them, why, and how far they are.

    With --json: `jobs` (`no`, `verb`, `arguments`, `actor`, `reason`, `state`, `started_at`, `closed_at`, `runs`,
    `done`, `refused`, `left`).
    """
    from fencepost.cli.target import app_for, opened

    if context.invoked_subcommand is not None:
        return Exit.DONE
    with opened(app_for(app, db, namespace, with_code=False)) as ledger:
        found = ledger.store.bulks(ledger.namespace, every=every, limit=JOBS_MAX)
    if as_json:
        terminal.document({"jobs": [bulk_row(one) for one in found]})
    elif not found:
        terminal.remark("no jobs")
    else:
        terminal.table(
            ("job", "verb", "by", "reason", "state", "runs", "done", "refused", "left"),
            [
                (
                    str(one.no), one.verb, printable(one.actor), printable(one.reason), one.state.value, str(one.runs),
                    str(one.done), str(one.refused), str(one.left),
                )
                for one in found
            ],
        )  # fmt: skip
    return Exit.DONE


def show(
    no: Job, *, app: AppOption = None, db: Db = None, namespace: Namespace = None, as_json: AsJson = False
) -> Exit:
    """Show a job: what became of each of its runs.

    With --json: `job` as `bulks` lists it, and `each` (`run`, `version`, `was`, `is`, `outcome`, `refused`).
    """
    from fencepost.cli.target import app_for, opened
    from fencepost.runtime.bulking import named

    with opened(app_for(app, db, namespace, with_code=False)) as ledger:
        job = named(ledger, no)
        each = ledger.store.bulk_runs(no, every=True, after=-1, limit=job.runs)
    if as_json:
        terminal.document({"job": bulk_row(job), "each": [bulk_run_row(one) for one in each]})
    else:
        terminal.table(
            ("run", "was", "is", "what"),
            [(printable(one.run.id), one.was, one.run.state.value, _what(one)) for one in each],
        )
        terminal.remark(_said(job))
    return Exit.DONE


def pause(
    no: Job, *, reason: Reason, by: By = None, app: AppOption = None, db: Db = None, namespace: Namespace = None,
    as_json: AsJson = False,
) -> Exit:  # fmt: skip
    """Let nobody go on with a job until `resume`; whoever is at it stops after the run that is being done."""
    from fencepost.cli.target import app_for, opened
    from fencepost.runtime import bulking

    with opened(app_for(app, db, namespace, with_code=False)) as ledger:
        job = bulking.pause(ledger, no, by=somebody(by), reason=reason)
    if as_json:
        terminal.document({"verb": "pause", "job": bulk_row(job)})
    else:
        terminal.say(_said(job))
    return Exit.DONE


def resume(
    no: Job, *, reason: Reason, pace: Pace = "0s", by: By = None, app: AppOption = None, db: Db = None,
    namespace: Namespace = None, as_json: AsJson = False,
) -> Exit:  # fmt: skip
    """Go on with a job that was paused or stopped, or whose process was killed; no run is done twice.

    What is done is done in your name, for the reason of the job. With --json: as `bulk`.
    """
    from fencepost.cli.target import app_for, opened
    from fencepost.runtime import bulking

    seconds, who = pause_of(pace), somebody(by)
    with opened(app_for(app, db, namespace, with_code=app is not None)) as ledger:
        job = bulking.resume(ledger, no, by=who, reason=reason)
        return work_on(ledger, job, by=who, pause=seconds, as_json=as_json)


def _said(job: Bulk) -> str:
    return (
        f"job {job.no}, {job.verb} by {printable(job.actor)}, is {job.state}: {job.done} of {job.runs} done, "
        f"{job.refused} refused, {job.left} left"
    )


def _what(one: BulkRun) -> str:
    if one.outcome is None:
        return "left"
    return one.outcome.value if one.says is None else f"refused: {missing(one.says) or printable(one.says, limit=None)}"
