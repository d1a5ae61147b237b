"""`fencepost purge`: what runs hold that ended long ago is removed; their rows and ids stay.

What may be removed, and what is passed over, is `runtime.retention`'s matter and the store's.
"""

from __future__ import annotations

from typing import Annotated

import typer

from fencepost.cli import terminal
from fencepost.cli.exits import Exit, Usage
from fencepost.cli.options import AppOption, AsJson, By, Db, Namespace, Reason, somebody

OlderThan = Annotated[str, typer.Option("--older-than", metavar="AGE", help="Since their end, such as 90d.")]
States = Annotated[list[str], typer.Option("--state", metavar="STATE", help="An end, such as succeeded; repeatable.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only count.")]


def purge(
    *, older_than: OlderThan, state: States, reason: Reason, by: By = None, dry_run: DryRun = False,
    app: AppOption = None, db: Db = None, namespace: Namespace = None, as_json: AsJson = False,
) -> Exit:  # fmt: skip
    """Remove what runs hold that ended long ago; their ids stay taken.

    Inputs, requests, results, evidence, errors and signals go; the run's row, its times and the audit stay. Runs that
    anything still needs are passed over: one of their operations is unknown or contradicts itself, a compensation has
    not succeeded, or a child or parent is not over.

    With --json: `runs` (how many were purged, by state), `kept` (how many of that age were passed over), `dry_run`.
    """
    from fencepost.cli.target import app_for, opened
    from fencepost.core.errors import Misuse
    from fencepost.runtime.retention import Retention

    try:
        retention = Retention({one.replace("-", " "): older_than for one in state})
    except Misuse as error:
        raise Usage(error.message, hint=error.hint) from error
    with opened(app_for(app, db, namespace, with_code=False)) as ledger:
        done = ledger.sync.purge(retention, by=somebody(by), reason=reason, dry_run=dry_run)
    if as_json:
        terminal.document({"runs": dict(done.runs), "kept": done.kept, "dry_run": dry_run})
        return Exit.DONE
    verb = "would be purged" if dry_run else "purged"
    terminal.say(*(f"{count} {one}: {verb}" for one, count in done.runs.items()))
    if done.kept:
        terminal.say(f"{done.kept} more of that age are needed, and kept")
    return Exit.DONE
