"""The exit codes of the command line: one table, from which `--help` and the docs are made and which the tests read.

Which error leads to which code is decided here too. How an error is worded is `complaint`.
"""

from __future__ import annotations

from enum import IntEnum

from fencepost.core.errors import (
    Ambiguous,
    DeclarationError,
    FencepostError,
    ForeignDatabase,
    Misuse,
    SecondPersonNeeded,
    StoreUnavailable,
    ValueRefused,
)


class Exit(IntEnum):
    """How a command ended, for the shell that called it."""

    DONE = 0
    REFUSED = 1
    USAGE = 2
    FINDINGS = 3
    HELD = 4
    LEDGER = 5
    NOT_YET = 6
    BUG = 70
    INTERRUPTED = 130
    READER_GONE = 141


MEANINGS: dict[Exit, str] = {
    Exit.DONE: "done",
    Exit.REFUSED: "refused, with nothing changed; or, with --wait, the run ended otherwise than with its result",
    Exit.USAGE: "usage: the command line, the value or the MODULE:APP that was given cannot be used",
    Exit.FINDINGS: (
        "findings: a blank in a contract, a problem, a contradiction, a broken audit or a history that does not fit; "
        "each is named"
    ),
    Exit.HELD: "held: the run waits for a person, or the verb for a second one to confirm it",
    Exit.LEDGER: "the ledger cannot be used: missing, locked, read-only, full, damaged, foreign or too new",
    Exit.NOT_YET: "the time given with --within ran out; the run goes on",
    Exit.BUG: "an error that Fencepost did not expect; FENCEPOST_DEBUG=1 shows its traceback",
    Exit.INTERRUPTED: "ended at once by Ctrl-C (for a worker: by the second one)",
    Exit.READER_GONE: "the reader of the output went away",
}


class Usage(Misuse):
    """The command line itself asks for something that cannot be meant; nothing was looked up or changed."""


def exit_of(error: BaseException) -> Exit:
    """The exit code for an error that ends a command."""
    match error:
        case Usage() | ValueRefused():
            return Exit.USAGE
        case DeclarationError():
            return Exit.FINDINGS
        case StoreUnavailable() | ForeignDatabase():
            return Exit.LEDGER
        case Ambiguous() | SecondPersonNeeded():
            return Exit.HELD
        case FencepostError():
            return Exit.REFUSED
        case _:
            return Exit.BUG


def as_text() -> str:
    """The table for `--help`."""
    return "\n".join(f"{code.value:>3}  {meaning}" for code, meaning in MEANINGS.items())
