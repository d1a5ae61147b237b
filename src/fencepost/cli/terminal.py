"""Where the command line writes: results to standard output, everything else to standard error.

Nothing here interprets markup or escape sequences of what it is given; text of unknown origin passes `printable`
first. Choosing what to say is the commands' part.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from fencepost.console.printable import printable

_WIDE = 10_000
"""Columns of a table that goes to a file or a pipe: there nothing is wrapped."""


_NARROW = 60
"""However narrow the terminal: text is folded at no less."""


class ReaderGone(Exception):
    """Nobody reads the output any more, as when it is piped into `head`."""


def say(*lines: str) -> None:
    """Write lines of the result."""
    try:
        sys.stdout.write("".join(f"{line}\n" for line in lines))
    except BrokenPipeError:
        raise ReaderGone from None


def document(value: Any) -> None:
    """Write a JSON document; in ASCII, so that a hostile text in it cannot do anything to a terminal."""
    say(json.dumps(value, indent=2, ensure_ascii=True))


def remark(*lines: str) -> None:
    """Write lines about what happens, at once; a script does not read them."""
    try:
        sys.stderr.write("".join(f"{line}\n" for line in lines))
        sys.stderr.flush()
    except BrokenPipeError:
        raise ReaderGone from None


def width() -> int | None:
    """Columns of the terminal; None where the output goes to a file or a pipe, and nothing is folded."""
    import shutil

    return max(_NARROW, shutil.get_terminal_size().columns) if sys.stdout.isatty() else None


def table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a table; each cell is made printable."""
    from io import StringIO

    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    to_person = sys.stdout.isatty()
    drawn = Table(box=None, pad_edge=False, show_edge=False)
    for heading in headings:
        drawn.add_column(heading, overflow="fold", header_style="bold")
    for row in rows:
        drawn.add_row(*(Text(printable(cell)) for cell in row))
    text = StringIO()
    console = Console(
        file=text, force_terminal=to_person, width=None if to_person else _WIDE, markup=False, highlight=False
    )
    console.print(drawn)
    say(*(line.rstrip() for line in text.getvalue().splitlines()))


def leave_quietly() -> None:
    """Make the interpreter's last flush go nowhere, after the reader went away."""
    import os

    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
