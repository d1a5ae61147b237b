"""The seam between the store and SQLite: the few calls that the store makes of a connection.

A test injects its own `connect`, such as one whose file system records every write. Whoever implements `Connection`
raises `SqliteError` with SQLite's own extended result code and nothing else. `StandardConnection` is the thin adapter
for the standard library. What a code means for a caller of the store is decided in `failures`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn, Protocol

# A value that SQLite cannot hold: a wrong type, an integer of more than 64 bits, text that is not Unicode.
MISMATCH = 20
MISUSE = 21


class SqliteError(Exception):
    """SQLite, or its driver, refused; `code` is the extended result code, its low byte the primary one."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code

    @property
    def primary(self) -> int:
        """The primary result code, such as 5 for SQLITE_BUSY."""
        return self.code & 0xFF


class Connection(Protocol):
    """One connection, in autocommit mode until BEGIN, without a busy timeout, usable from any thread in turn.

    Statements use `?` placeholders.
    """

    def execute(self, statement: str, parameters: Sequence[Any] = (), /) -> list[tuple[Any, ...]]:
        """Run one statement to its end; all its rows."""

    def change(self, statement: str, parameters: Sequence[Any] = (), /) -> int:
        """Run one statement that writes; how many rows it changed."""

    def change_many(self, statement: str, rows: Iterable[Sequence[Any]], /) -> int:
        """Run a statement once per row of parameters; how many rows they changed together."""

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open."""

    @property
    def raw(self) -> Any:
        """The driver's own connection, for the body of an atomic effect."""

    def close(self) -> None:
        """Give the connection back; a second call does nothing."""


Connect = Callable[[str], Connection]


class StandardConnection:
    """The standard library's connection behind the seam."""

    def __init__(self, path: str) -> None:
        try:
            self._inner = sqlite3.connect(
                path, timeout=0, isolation_level=None, check_same_thread=False, cached_statements=256
            )
        except sqlite3.Error as error:
            _refuse(error)
        self._closed = False

    def execute(self, statement: str, parameters: Sequence[Any] = (), /) -> list[tuple[Any, ...]]:
        """See `Connection.execute`."""
        try:
            return self._inner.execute(statement, parameters).fetchall()
        except (sqlite3.Error, OverflowError, UnicodeError) as error:
            _refuse(error)

    def change(self, statement: str, parameters: Sequence[Any] = (), /) -> int:
        """See `Connection.change`."""
        try:
            return self._inner.execute(statement, parameters).rowcount
        except (sqlite3.Error, OverflowError, UnicodeError) as error:
            _refuse(error)

    def change_many(self, statement: str, rows: Iterable[Sequence[Any]], /) -> int:
        """See `Connection.change_many`."""
        try:
            return self._inner.executemany(statement, rows).rowcount
        except (sqlite3.Error, OverflowError, UnicodeError) as error:
            _refuse(error)

    @property
    def in_transaction(self) -> bool:
        """See `Connection.in_transaction`."""
        return not self._closed and self._inner.in_transaction

    @property
    def raw(self) -> sqlite3.Connection:
        """See `Connection.raw`."""
        return self._inner

    def close(self) -> None:
        """See `Connection.close`."""
        self._closed = True
        self._inner.close()


def connect_standard(path: str) -> Connection:
    """Open `path` with the standard library; creates the file when it is missing."""
    return StandardConnection(path)


def _refuse(error: Exception) -> NoReturn:
    """Raise `SqliteError` for what the driver raised. Only errors of the driver itself have no code of SQLite's."""
    code = getattr(error, "sqlite_errorcode", None)
    if code is None:
        code = MISUSE if "closed" in str(error) else MISMATCH
    raise SqliteError(code, str(error)) from error
