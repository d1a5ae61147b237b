"""Sets up the log of a command that works on runs: to standard error, as text or as JSON lines.

What a line concerns, and how it is made safe, is `telemetry.logs`; what is logged is said where it happens.
"""

from __future__ import annotations

import logging
from enum import StrEnum

from fencepost.console.printable import printable
from fencepost.effects.hidden import hidden

LINE_CHARACTERS_MAX = 4_000


class Log(StrEnum):
    """How a log is written."""

    TEXT = "text"
    JSON = "json"


class OneLine(logging.Formatter):
    """A record on one line that is safe for a terminal, without secrets, with run and step at its end."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        run, step = getattr(record, "run", None), getattr(record, "step", None)
        concerned = "" if run is None else f" [run {run}]" if step is None else f" [run {run}, step {step}]"
        return printable(hidden(super().format(record) + concerned), limit=LINE_CHARACTERS_MAX)


def log_to_stderr(form: Log) -> None:
    """Write Fencepost's log; as JSON also that of everything else, unless the app has set up its own."""
    from fencepost.telemetry.logs import Concerned, JsonLines

    handler = logging.StreamHandler()
    handler.addFilter(Concerned())
    own = logging.getLogger("fencepost")
    own.setLevel(logging.INFO)
    root = logging.getLogger()
    if form is Log.JSON:
        handler.setFormatter(JsonLines())
        (own if root.handlers else root).addHandler(handler)
    else:
        handler.setFormatter(OneLine("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        own.addHandler(handler)
