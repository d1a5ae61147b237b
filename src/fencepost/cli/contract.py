"""Prints an app's recovery table and says what its contracts leave open: the command `contract`.

The rows are computed in `runtime.contracts`; an app with a blank is refused wherever something would start, by the
same check. Here they are only laid out, as text, as a Markdown table or as JSON.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from fencepost.cli import terminal
from fencepost.cli.exits import Exit, Usage
from fencepost.cli.options import AppArgument, AsJson
from fencepost.console.printable import counted, printable

if TYPE_CHECKING:
    from fencepost.runtime.contracts import RecoveryRow

_HEADING_WIDTH = 20

Check = Annotated[bool, typer.Option("--check", help="Print only the blanks; exit 3 if there is one.")]
Markdown = Annotated[bool, typer.Option("--markdown", help="Write a Markdown table.")]


def contract(app: AppArgument, *, check: Check = False, markdown: Markdown = False, as_json: AsJson = False) -> Exit:
    """Print an app's recovery table.

    What happens to each step when something goes wrong, and what its contract guarantees.

    With --json: `app`, `steps` (a row each, blanks included) and `blanks` (how many).
    """
    from fencepost.cli.target import load_app
    from fencepost.runtime.contracts import recovery_table

    if markdown and (as_json or check):
        raise Usage("--markdown goes with neither --json nor --check", hint="choose one")
    rows = recovery_table(load_app(app))
    found = sum(len(row.blanks) for row in rows)
    if as_json:
        terminal.document({"app": app, "blanks": found, "steps": [asdict(row) for row in rows]})
    elif check:
        terminal.say(*_verdict(rows, found))
    elif markdown:
        terminal.say(*_as_markdown(rows))
    else:
        terminal.say(*_as_text(rows))
    return Exit.FINDINGS if check and found else Exit.DONE


def _verdict(rows: list[RecoveryRow], found: int) -> Iterator[str]:
    for row in rows:
        yield from (f"{printable(row.step)}: {printable(blank)}" for blank in row.blanks)
    yield f"{counted(len(rows), 'step')}, {counted(found, 'blank') if found else 'no blank'}"


def _cells(row: RecoveryRow) -> Iterator[tuple[str, str]]:
    """Heading and text of each field, lists joined."""
    from fencepost.runtime.contracts import HEADINGS

    for name, value in asdict(row).items():
        text = "; ".join(value) if isinstance(value, tuple) else value
        yield HEADINGS[name], printable(text, limit=None) or "none"


def _as_text(rows: list[RecoveryRow]) -> Iterator[str]:
    for row in rows:
        (_, step), *cells = _cells(row)
        yield step
        yield from (line for heading, text in cells for line in _folded(heading, text))
        yield ""
    yield counted(len(rows), "step")


def _folded(heading: str, text: str) -> list[str]:
    """One field, folded under its heading; on one line where nobody looks at it."""
    import textwrap

    width = terminal.width()
    begin = f"  {heading:<{_HEADING_WIDTH}}"
    if width is None:
        return [begin + text]
    return textwrap.wrap(text, width, initial_indent=begin, subsequent_indent=" " * len(begin))


def _as_markdown(rows: list[RecoveryRow]) -> Iterator[str]:
    from fencepost.runtime.contracts import HEADINGS

    yield _markdown_line(HEADINGS.values())
    yield _markdown_line("---" for _ in HEADINGS)
    for row in rows:
        yield _markdown_line(text for _, text in _cells(row))


def _markdown_line(cells: Any) -> str:
    # HTML and the column mark are the two things in a cell that a viewer would obey.
    safe = (cell.replace("|", "\\|").replace("<", "&lt;") for cell in cells)
    return f"| {' | '.join(safe)} |"
