"""`fencepost restored`: what a person says after the ledger was restored from a backup.

What it changes is `runtime.restoring`.
"""

from __future__ import annotations

from typing import Annotated

import typer

from fencepost.cli import terminal
from fencepost.cli.exits import Exit
from fencepost.cli.options import AppOption, AsJson, By, Db, Namespace, Reason, somebody

Close = Annotated[bool, typer.Option("--close", help="Nothing more turns up from the time that was lost.")]


def restored(
    *, reason: Reason, close: Close = False, by: By = None, app: AppOption = None, db: Db = None,
    namespace: Namespace = None, as_json: AsJson = False,
) -> Exit:  # fmt: skip
    """Say that the ledger was restored from a backup.

    Every lease, generation and token of before is void. From then on each first send is reconciled first, as one that
    may have been sent already, until you close the lost time with --close.

    With --json: `epoch`, `lost_from`, `began_at`, `closed_at` (microseconds since the Unix epoch).
    """
    from fencepost.cli.target import app_for, opened
    from fencepost.console.printable import instant
    from fencepost.runtime import restoring

    verb = restoring.close_lost_time if close else restoring.restored
    with opened(app_for(app, db, namespace, with_code=False)) as ledger:
        epoch = verb(ledger, by=somebody(by), reason=reason)
    if as_json:
        terminal.document(
            {
                "epoch": epoch.number,
                "lost_from": epoch.lost_from,
                "began_at": epoch.began_at,
                "closed_at": epoch.closed_at,
            }
        )
    elif close:
        terminal.say("the lost time is closed: first sends go without being reconciled again")
    else:
        terminal.say(f"epoch {epoch.number} has begun; lost may be what happened from {instant(epoch.lost_from)} on")
        terminal.say("first sends are reconciled until you run: fencepost restored --close --reason ...")
    return Exit.DONE
