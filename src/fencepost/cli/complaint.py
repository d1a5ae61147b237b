"""Turns the error that ended a command into one line for whoever called it: what is wrong, about what, what to do.

The first word says who must act, as the exit code does (`exits`). No traceback, unless FENCEPOST_DEBUG=1.
"""

from __future__ import annotations

import os
import traceback

from fencepost.cli.exits import Exit, exit_of
from fencepost.cli.terminal import remark
from fencepost.console.printable import printable
from fencepost.core.errors import FencepostError

LINE_CHARACTERS_MAX = 4_000

_WORDS = {
    Exit.REFUSED: "refused",
    Exit.USAGE: "usage",
    Exit.FINDINGS: "finding",
    Exit.HELD: "held",
    Exit.LEDGER: "ledger",
    Exit.BUG: "unexpected error",
}


def complain(error: BaseException) -> Exit:
    """Write the line for `error` and return the exit code."""
    if os.environ.get("FENCEPOST_DEBUG") == "1":
        remark(*"".join(traceback.format_exception(error)).splitlines())
    code = exit_of(error)
    remark(printable(f"fencepost: {_WORDS[code]}: {_said(error, code)}", limit=LINE_CHARACTERS_MAX))
    return code


def complain_of_usage(message: str) -> Exit:
    """Write the line for a command line that could not be read."""
    remark(printable(f"fencepost: usage: {message} (`--help` says more)", limit=LINE_CHARACTERS_MAX))
    return Exit.USAGE


def _said(error: BaseException, code: Exit) -> str:
    if isinstance(error, FencepostError):
        return str(error)
    hint = " (FENCEPOST_DEBUG=1 shows the traceback; please report it)" if code is Exit.BUG else ""
    return f"{type(error).__name__}: {error}{hint}"
