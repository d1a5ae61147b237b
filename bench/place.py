"""Says where a benchmark's ledger is, a file or a database of a server, and looks into it from outside.

An `Eye` shares no connection with the store: what it sees, others see. One question serves both databases; it is
written with `?` for its values. Who runs the server is `server`'s matter, what is done on the ledger `work`'s.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

_SCHEMA = "fencepost"


class Eye(Protocol):
    """Reads a ledger beside the store."""

    def ask(self, question: str, *values: object) -> Sequence[tuple[Any, ...]]:
        """All rows of the answer."""

    def close(self) -> None:
        """Look no more."""


class _FileEye:
    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None)
        self.close = self._connection.close

    def ask(self, question: str, *values: object) -> Sequence[tuple[Any, ...]]:
        return self._connection.execute(question, values).fetchall()


class _ServerEye:
    def __init__(self, url: str, schema: str) -> None:
        import psycopg

        self._connection = psycopg.connect(url, autocommit=True, options=f"-c search_path={schema}")
        self.close = self._connection.close

    def ask(self, question: str, *values: object) -> Sequence[tuple[Any, ...]]:
        answer = self._connection.execute(question.replace("?", "%s").encode(), values or None)
        return answer.fetchall() if answer.description else []


class Place(NamedTuple):
    """Where one ledger is."""

    name: str
    """Of the file, or of the schema."""
    folder: Path
    """Of the file; on a server the folder for what else a contestant writes."""
    server: str | None = None
    """The url of the database; None: a file."""

    @property
    def url(self) -> str:
        """What an app is given."""
        return f"sqlite:///{self.path}" if self.server is None else f"{self.server}&schema={self.name}"

    @property
    def path(self) -> Path:
        """The file."""
        return (self.folder / f"{self.name}.sqlite").absolute()

    def beside(self, name: str) -> "Place":
        """Another ledger on the same disk or in the same database."""
        return self._replace(name=name)

    def eye(self) -> Eye:
        """A connection of its own; raises the database's error where there is no ledger yet."""
        return _FileEye(self.path) if self.server is None else _ServerEye(self.server, self.name)

    @contextmanager
    def seen(self) -> Iterator[Eye]:
        """An eye for as long as one looks."""
        with closing(self.eye()) as eye:
            yield eye

    def runs_in(self, wanted: str) -> int:
        """How many runs the ledger holds in one state."""
        with self.seen() as eye:
            question = "SELECT count(*) FROM run WHERE namespace = 'default' AND state = ?"
            return int(eye.ask(question, wanted)[0][0])


def place(state: Path, server: str | None = None) -> Place:
    """The ledger of a contestant: in its folder, or in the database that it was given."""
    return Place(_SCHEMA, state, server)
