"""A connection that refuses chosen statements, behind the store's own seam; everything else reaches SQLite."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from fencepost.store.connection import Connection, SqliteError, StandardConnection

BUSY, READONLY, IOERR_FSYNC, FULL = 5, 8, 1034, 13


class Faults:
    """What goes wrong from now on: the beginning of a statement -> SQLite's code, or what to call instead."""

    def __init__(self) -> None:
        self.refuse: dict[str, int] = {}
        self.before: dict[str, Callable[[], None]] = {}

    def connect(self, path: str) -> Connection:
        return FaultyConnection(path, self)

    def check(self, statement: str) -> None:
        for begin, action in list(self.before.items()):
            if statement.startswith(begin):
                action()
        for begin, code in list(self.refuse.items()):
            if statement.startswith(begin):
                raise SqliteError(code, f"injected {code}")


class FaultyConnection(StandardConnection):
    """Asks `Faults` before each statement."""

    def __init__(self, path: str, faults: Faults) -> None:
        super().__init__(path)
        self._faults = faults

    def execute(self, statement: str, parameters: Sequence[Any] = (), /) -> list[tuple[Any, ...]]:
        self._faults.check(statement)
        return super().execute(statement, parameters)

    def change(self, statement: str, parameters: Sequence[Any] = (), /) -> int:
        self._faults.check(statement)
        return super().change(statement, parameters)

    def change_many(self, statement: str, rows: Iterable[Sequence[Any]], /) -> int:
        self._faults.check(statement)
        return super().change_many(statement, rows)
