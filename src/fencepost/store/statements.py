"""Runs named statements on one connection; what the verbs of both databases are written in.

A `Statements` reads or writes by the names of the .sql files. A `Work` is one write transaction: it also names the
fault points that it passes, and takes the locks that a shared database needs. Who begins and commits is the store's
matter (`sqlite`, `postgres`); what is done in between is `verbs`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from fencepost.store.queries import Query, Row

Probe = Callable[[str], None]

Wanted = tuple[str, Mapping[str, Any]]
"""The name of a query, and its values."""


class Executes(Protocol):
    """What is needed of a connection."""

    def execute(self, statement: str, parameters: Sequence[Any] = (), /) -> list[Row]:
        """Run one statement to its end; all its rows."""

    def change(self, statement: str, parameters: Sequence[Any] = (), /) -> int:
        """Run one statement that writes; how many rows it changed."""


class Statements:
    """Named statements on one connection."""

    def __init__(self, connection: Executes, queries: Mapping[str, Query]) -> None:
        self._connection = connection
        self._queries = queries

    def change(self, name: str, /, **values: Any) -> int:
        """Run a statement that writes; how many rows it changed."""
        query = self._queries[name]
        return self._connection.change(query.statement, query.bind(**values))

    def execute(self, name: str, /, **values: Any) -> list[Row]:
        """Run a statement; its rows."""
        query = self._queries[name]
        return self._connection.execute(query.statement, query.bind(**values))

    def execute_all(self, wanted: Sequence[Wanted]) -> list[list[Row]]:
        """Run several statements, in one round trip where there is a trip; the rows of each."""
        return [self.execute(name, **values) for name, values in wanted]


class Work(Statements):
    """One write transaction."""

    def __init__(self, connection: Executes, queries: Mapping[str, Query], probe: Probe | None) -> None:
        super().__init__(connection, queries)
        self.probe = probe
        self.passed: list[str] = []

    def passing(self, points: Sequence[str]) -> None:
        """Name fault points that this transaction passes, before it does."""
        self.passed += points
        if self.probe is not None:
            for point in points:
                self.probe(f"before:{point}")

    def commit_with(self, writes: Sequence[Wanted], reads: Sequence[Wanted]) -> list[list[Row]]:
        """Run the last statements of this transaction, and read in it; the rows of what was read.

        Where there is a trip they go out with the commit. Nothing may follow.
        """
        return self.execute_all([*writes, *reads])[len(writes) :]

    def commit_if(self, guard: Wanted, writes: Sequence[Wanted], reads: Sequence[Wanted]) -> list[list[Row]] | None:
        """`commit_with` if the guard finds a row; None, and nothing is changed, if it does not."""
        name, values = guard
        return self.commit_with(writes, reads) if self.execute(name, **values) else None

    def was_in_vain(self) -> None:
        """Nothing was changed: where there is a trip its end need not be durable."""

    def lock(self, name: str, /, **values: Any) -> None:
        """Keep others from what a query names until the end; nothing to do where one writes at a time."""

    def announce(self, *, signalled: tuple[str, str] | None = None) -> None:
        """Tell other processes, once this is committed, that something may be due; nothing where they look anyway.

        `signalled`: it is the run of this namespace and id, for which a signal was kept, and nothing else.
        """
