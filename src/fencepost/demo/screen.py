"""What the demo shows while it runs and at its end: a progress bar and events on a terminal, plain lines elsewhere.

It formats and decides nothing; the numbers come from `tally`, the verdict from `verdict`.
"""

import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from fencepost.demo.tally import Injected, Row

COLUMNS = ("invoices", "tickets", "mails", "payments", "entries", "duplicates", "lost")
_PLAIN_WIDTH = 120


class Screen:
    """Where the demo talks; a context manager around the time in which bars move."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(highlight=False)
        if not self._console.is_terminal:
            self._console = Console(file=self._console.file, width=_PLAIN_WIDTH, highlight=False)
        self._began = time.monotonic()
        self._bars: dict[str, TaskID] = {}
        self._shown: dict[str, int] = {}
        self._progress = Progress(
            TextColumn("{task.description:>12}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("invoices"),
            TimeElapsedColumn(),
            console=self._console,
        )

    def __enter__(self) -> Self:
        if self._console.is_terminal:
            self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def say(self, line: str) -> None:
        """Print one event with the seconds since the beginning."""
        self._console.print(f"{time.monotonic() - self._began:6.1f}s  {line}", markup=False, soft_wrap=True)

    def show(self, side: str, ended: int, invoices: int) -> None:
        """Move a side's bar; where there is no terminal, print a line for each quarter."""
        if self._console.is_terminal:
            if side not in self._bars:
                self._bars[side] = self._progress.add_task(side, total=invoices)
            self._progress.update(self._bars[side], completed=ended)
        elif ended * 4 // invoices > self._shown.get(side, 0):
            self._shown[side] = ended * 4 // invoices
            self.say(f"{side}: {ended} of {invoices} invoices are through")

    def table(self, rows: Sequence[tuple[str, Row]], injected: Sequence[tuple[str, Injected]]) -> None:
        """Print what the outside world holds, and what was injected."""
        table = Table(title="What the outside world holds, read from its files", title_justify="left")
        table.add_column("")
        for name in (*COLUMNS, "held and settled by an operator"):
            table.add_column(name, justify="right", max_width=16)
        for side, row in rows:
            table.add_row(side, *(str(getattr(row, name)) for name in COLUMNS), str(row.settled))
        self._console.print()
        self._console.print(table)
        for side, struck in injected:
            self._console.print(
                f"injected, {side}: kills {struck.kills}, pauses {struck.pauses}, "
                f"dropped replies {struck.dropped_replies}, takeovers {struck.takeovers}",
                markup=False,
            )

    def grid(self, title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """Print a table whose first and last columns are words, and the others numbers."""
        table = Table(title=title, title_justify="left")
        for place, heading in enumerate(headings):
            is_number = 0 < place < len(headings) - 1
            table.add_column(heading, justify="right" if is_number else "left", max_width=9 if is_number else None)
        for row in rows:
            table.add_row(*row)
        self._console.print()
        self._console.print(table)

    def end(self, lines: Sequence[str]) -> None:
        """Print lines as they are, such as commands to try: unwrapped, so that they can be copied."""
        for line in lines:
            self._console.print(line, markup=False, soft_wrap=True)
