"""Writes the groups of one commit on SQLite: kind by kind when that is certain to mean the same, else group by group.

Fast: each kind of move is one `executemany` whose changed rows are counted. A group whose own order matters is written
by itself, and so is everything when a count is short or a row is refused: then each group has its own savepoint and its
own answer. Which order is certain is `groups`'s matter; this file neither begins nor commits; `sqlite` does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from fencepost.store.api import Answer, Group
from fencepost.store.connection import MISMATCH, Connection, SqliteError
from fencepost.store.failures import (
    CONSTRAINT,
    CONSTRAINT_NOTNULL,
    CONSTRAINT_PRIMARYKEY,
    CONSTRAINT_ROWID,
    CONSTRAINT_UNIQUE,
)
from fencepost.store.groups import KINDS, RANK, Outcome, in_kinds, refused, reports
from fencepost.store.moves import Move, Observe
from fencepost.store.queries import Query, Row

_TOO_BIG = 18


class Writer:
    """Writes groups on one connection, inside a transaction that its caller began."""

    def __init__(self, connection: Connection, queries: Mapping[str, Query]) -> None:
        self._connection = connection
        self._kinds: tuple[tuple[str, Callable[[Any], Row]], ...] = tuple(
            (queries[name].statement, queries[name].binder(kind)) for kind, name in KINDS
        )
        self._observe = queries["observe"].statement
        self._bind_observation = queries["observe"].binder(Observe)
        self._generation_of = queries["generation_of"].statement

    def write_fast(self, groups: Sequence[Group]) -> list[Outcome] | None:
        """Write all groups kind by kind; None when one was refused: then undo the transaction and `write_each`."""
        buckets, apart = in_kinds(groups)
        try:
            for (statement, bind), moves in zip(self._kinds, buckets, strict=True):
                if moves and self._connection.change_many(statement, map(bind, moves)) != len(moves):
                    return None
            observations = [seen for group in groups if group.observations for seen in group.observations]
            if observations:
                self.observe(observations)
            for group in apart:
                if self.write(group.moves) is not None:
                    return None
        except SqliteError as error:
            if _is_of_one_record(error):
                return None
            raise
        return [Answer.MOVED] * len(groups)

    def write_each(self, groups: Sequence[Group]) -> list[Outcome]:
        """Write group by group, each under its own savepoint; what each was answered."""
        return [self._write_alone(group) for group in groups]

    def write(self, moves: Iterable[Move]) -> Move | None:
        """Write moves in their own order; the first one whose guard refused, or None."""
        for move in moves:
            statement, bind = self._kinds[RANK[type(move)]]
            if self._connection.change(statement, bind(move)) != 1:
                return move
        return None

    def observe(self, observations: Iterable[Observe]) -> None:
        """Append observations."""
        self._connection.change_many(self._observe, map(self._bind_observation, observations))

    def _write_alone(self, group: Group) -> Outcome:
        self._connection.execute("SAVEPOINT one")
        answer = self._try(group)
        if answer is not Answer.MOVED:
            self._connection.execute("ROLLBACK TO one")
            answer = answer if self._owns(group) else Answer.STALE
        self._connection.execute("RELEASE one")
        if answer is not Answer.MOVED:
            self._keep_what_was_seen([*group.observations, *group.if_refused, *reports(group)])
        return answer

    def _try(self, group: Group) -> Outcome:
        try:
            if self.write(group.moves) is not None:
                return Answer.ILLEGAL
            self.observe(group.observations)
        except SqliteError as error:
            if not _is_of_one_record(error):
                raise
            return _answer_to(error, group)
        return Answer.MOVED

    def _keep_what_was_seen(self, observations: Iterable[Observe]) -> None:
        """Append what a refused group saw. What the database cannot hold was the reason of a refusal already."""
        for seen in observations:
            try:
                self.observe([seen])
            except SqliteError as error:
                if not _is_of_one_record(error):
                    raise

    def _owns(self, group: Group) -> bool:
        return self._connection.execute(self._generation_of, (group.run,)) == [(group.generation,)]


def _is_of_one_record(error: SqliteError) -> bool:
    """Whether one record is to blame, and not the file or the disk."""
    return error.primary in (CONSTRAINT, MISMATCH, _TOO_BIG)


def _answer_to(error: SqliteError, group: Group) -> Outcome:
    if error.code in (CONSTRAINT_PRIMARYKEY, CONSTRAINT_UNIQUE, CONSTRAINT_ROWID):
        return Answer.DUPLICATE
    # An insert's guard yields NULL for the run where it refuses, or for the namespace that it takes from there.
    if error.code == CONSTRAINT_NOTNULL and str(error).endswith((".run", ".namespace")):
        return Answer.ILLEGAL
    return refused(error, group)
