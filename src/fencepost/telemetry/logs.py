"""Log lines that say which run and operation they concern, each on one line, without secrets or hostile characters.

`Concerned` is a filter for a handler: it puts what runs just now on every record, those of a body's own loggers too.
`JsonLines` writes a record as one JSON object. Payloads are never looked at; the values of secrets, and what an app
redacts, are hidden in whatever a line says. Which lines there are is said where they are written.
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import Any

from fencepost.core.trace import KEY_CHARACTERS, Ids
from fencepost.effects.concerned import ATTEMPTING, RUN
from fencepost.effects.hidden import hidden

MESSAGE_CHARACTERS_MAX = 16_384
"""Of a longer text the beginning is written, and how much is missing."""

FIELDS = ("run", "namespace", "step", "attempt", "operation", "generation", "trace", "span")
"""What a line may say beside when, how grave, where and what; only what is known."""


class Concerned(logging.Filter):
    """Puts on each record what it concerns, as attributes of the names in `FIELDS`; what a record says itself stands.

    On every handler that should say it: `handler.addFilter(Concerned())`.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Let the record pass, with more on it."""
        run, attempting = RUN.get(), ATTEMPTING.get()
        said = getattr(record, "run", None)
        if run is None or said not in (None, run.id):
            return True  # a line about another run than the one in whose context it is written
        ids = Ids.of(run)
        found: dict[str, Any] = {
            "run": run.id, "namespace": run.namespace, "generation": run.generation, "trace": ids.trace,
        }  # fmt: skip
        if attempting is not None:
            operation = attempting.operation
            position = attempting.position if operation is None else operation.position
            found |= {"step": position, "attempt": attempting.attempt, "span": ids.step(position)}
            if operation is not None:
                found["operation"] = operation.key[:KEY_CHARACTERS]
                if not attempting.reads_back:
                    found["span"] = ids.attempt(position, attempting.attempt)
        for name, value in found.items():
            if getattr(record, name, None) is None:
                setattr(record, name, value)
        return True


class JsonLines(logging.Formatter):
    """A record as one line of JSON in ASCII: `at`, `level`, `logger`, `message`, `error`, and what it concerns."""

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        said: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, tz=UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _told(_message(record)),
        }
        said |= {name: _plain(value) for name in FIELDS if (value := getattr(record, name, None)) is not None}
        if record.exc_info and record.exc_info[0] is not None:
            said["error"] = _told(self.formatException(record.exc_info))
        return json.dumps(said)


def _message(record: logging.LogRecord) -> str:
    """A record's text; one whose arguments do not fit is told as it is, since a line must not end what it tells of."""
    try:
        return record.getMessage()
    except Exception as error:  # noqa: BLE001 - whatever the arguments' own methods raise
        return f"{record.msg} [its arguments could not be written: {type(error).__name__}]"


def _plain(value: Any) -> str | int:
    return value if isinstance(value, int) else _told(str(value))


def _told(text: str) -> str:
    hidden_text = hidden(text)
    if len(hidden_text) <= MESSAGE_CHARACTERS_MAX:
        return hidden_text
    return f"{hidden_text[:MESSAGE_CHARACTERS_MAX]}… ({len(hidden_text) - MESSAGE_CHARACTERS_MAX} characters more)"
