"""Reports on a job under its callback's token: the command `callback`, for an outside system that runs commands.

What becomes of a report, and which token is refused, is decided by the runtime (`runtime.callbacks`).
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from fencepost.cli import terminal
from fencepost.cli.exits import Exit, Usage
from fencepost.cli.options import AppOption, AsJson, Db, Namespace, json_value
from fencepost.console.printable import printable

Token = Annotated[str, typer.Argument(metavar="TOKEN", help="The job's token, @file, or @- for standard input.")]
Value = Annotated[str, typer.Argument(metavar="[JSON]", help="The result, or with --heartbeat the progress; or @file.")]
Failed = Annotated[str | None, typer.Option("--failed", metavar="WHY", help="The job has failed.")]
Heartbeat = Annotated[bool, typer.Option("--heartbeat", help="The job is alive, and not done.")]


def callback(
    token: Token,
    value: Value = "null",
    *,
    failed: Failed = None,
    heartbeat: Heartbeat = False,
    app: AppOption = None,
    db: Db = None,
    namespace: Namespace = None,
    as_json: AsJson = False,
) -> Exit:
    """Report on a job under its token: its result, that it has failed, or that it is alive.

    A token on the command line is seen by whoever lists processes; @file and @- are not.

    With --json: `signal` (its id), `name`, `state`; with --heartbeat: `waiting`.
    """
    from fencepost.cli.target import app_for, opened

    if heartbeat and failed is not None:
        raise Usage("a job is alive, or has failed", hint="leave --heartbeat or --failed out")
    if failed is not None and value != "null":
        raise Usage("a job is done with a value, or has failed", hint="leave the value or --failed out")
    given, found = json_value(value, what="the value"), _token(token)
    with opened(app_for(app, db, namespace, with_code=False)) as ledger:
        told = _beaten(ledger, found, given) if heartbeat else _reported(ledger, found, given, failed)
    if as_json:
        terminal.document(told)
    elif heartbeat:
        terminal.say("the wait has its time once more" if told["waiting"] else "nothing waits for this job just now")
    else:
        terminal.say(f"the report on {printable(told['name'])} is {told['state']}")
    return Exit.DONE


def _reported(ledger: Any, token: str, value: Any, failed: str | None) -> dict[str, Any]:
    kept = ledger.sync.callback(token, value, failed=failed)
    return {"signal": kept.id, "name": kept.name, "state": kept.state.value}


def _beaten(ledger: Any, token: str, progress: Any) -> dict[str, Any]:
    return {"waiting": ledger.sync.heartbeat(token, progress=progress)}


def _token(given: str) -> str:
    import sys
    from pathlib import Path

    if not given.startswith("@"):
        return given
    try:
        return (sys.stdin.read() if given == "@-" else Path(given[1:]).read_text("utf-8")).strip()
    except (OSError, ValueError) as error:
        raise Usage(f"{given[1:]} cannot be read", hint="write @path/to/token") from error
