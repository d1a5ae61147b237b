"""The options that several commands share, each with one name, one help text and one environment variable.

Only declarations; what they mean is carried out in `target` and by the commands.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from fencepost.cli.exits import Usage

_SAYS = {
    "--by": "--by and --reason say who does it and why",
    "--reason": "--by and --reason say who does it and why",
    "--id": "it tells one from another",
}


def _not_blank(option: typer.CallbackParam, text: str | None) -> str | None:
    if text is not None and not text.strip():
        name = option.opts[0]
        raise Usage(f"{name} is empty", hint=_SAYS[name])
    return text


AppArgument = Annotated[str, typer.Argument(metavar="MODULE:APP", help="The app: module:name, or file.py:name.")]
AppOption = Annotated[
    str | None,
    typer.Option("--app", metavar="MODULE:APP", envvar="FENCEPOST_APP", help="The app: module:name, or file.py:name."),
]
Db = Annotated[
    str | None,
    typer.Option("--db", metavar="URL", envvar="FENCEPOST_DB", help="The ledger; instead of the app's own."),
]
Namespace = Annotated[str | None, typer.Option(metavar="NAME", help="The namespace; the app's own, or default.")]
AsJson = Annotated[bool, typer.Option("--json", help="Write one JSON document.")]
RunId = Annotated[str, typer.Argument(metavar="RUN", help="The run's id.")]
Step = Annotated[str, typer.Argument(metavar="STEP", help="The effect's step name, as `show` has it.")]
Item = Annotated[str | None, typer.Option(metavar="ITEM", help="The item, if the effect has several.")]
By = Annotated[
    str | None,
    typer.Option("--by", metavar="NAME", callback=_not_blank, help="Who does it; the login name if not given."),
]
Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", callback=_not_blank, help="Why; kept in the audit.")]
NewId = Annotated[
    str, typer.Option("--id", metavar="ID", callback=_not_blank, help="The run's id, from the business event.")
]
SignalId = Annotated[
    str | None, typer.Option("--id", metavar="ID", callback=_not_blank, help="The event's own id; it counts once.")
]
IfVersion = Annotated[
    int | None,
    typer.Option(metavar="N", help="Only if the run still has this version, as `show` had it."),
]


def somebody(by: str | None) -> str:
    """Who acts: as given, or the login name.

    Raises:
        Usage: the system knows no name for this user.
    """
    if by is not None:
        return by
    name = login()
    if not name:
        raise Usage("the system has no login name for this user", hint="give --by NAME")
    return name


def login() -> str:
    """The name of the user whose process this is, as the system has it and no variable says; "" if it has none."""
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except (KeyError, OSError):
        return ""


def json_value(text: str, *, what: str) -> Any:
    """The JSON value that an option gives: itself, `@file`, or `@-` for standard input.

    Raises:
        Usage: the file cannot be read, or it is no JSON.
    """
    try:
        given = _read(text[1:]) if text.startswith("@") else text
        return json.loads(given, parse_constant=_no_constant)
    except OSError as error:
        raise Usage(f"{what}: {text[1:]} cannot be read: {error.strerror}", hint="write @path/to/file.json") from error
    except (ValueError, RecursionError) as error:
        raise Usage(
            f"{what} is no JSON: {error}", hint="""quote it for the shell: '{"key": 1}', '"text"', or @file"""
        ) from error


def _read(name: str) -> str:
    return sys.stdin.read() if name == "-" else Path(name).read_text("utf-8")


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
