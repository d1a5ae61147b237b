"""Writes the groups of one commit on PostgreSQL: one statement a kind and one round trip a batch, else group by group.

Fast: the moves of each kind become one statement with an array a column, and everything from BEGIN to COMMIT goes out
at once; a statement that changes a row less than it was given ends the transaction on the server. Then, or where a
group's own order matters, each group has its own savepoint and its own answer, as on SQLite (`batch`). The runs of a
batch are locked first: what its guards read stays true until it is committed.

Which order is certain is `groups`'s matter; sending, and finding out what became of a commit, is `postgres_commit`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, get_type_hints

from fencepost.store.api import Answer, Group, NewRun
from fencepost.store.groups import KINDS, RANK, Outcome, in_kinds, refused, reports
from fencepost.store.moves import Move, NewOperation, Observe, Piece, Succeed
from fencepost.store.postgres_connection import (
    UNENCODABLE,
    Encoded,
    PostgresConnection,
    PostgresError,
    encoded_text,
)
from fencepost.store.postgres_failures import GUARD_REFUSED, UNIQUE, is_of_one_record
from fencepost.store.queries import Query, Row

SAVE, SAVED, UNDO = ("SAVEPOINT one", ()), ("RELEASE SAVEPOINT one", ()), ("ROLLBACK TO SAVEPOINT one", ())


def numbers(column: Sequence[int | None]) -> bytes:
    """An array of integers as PostgreSQL reads it."""
    return b"{%s}" % b",".join([b"NULL" if value is None else b"%d" % value for value in column])


def texts(column: Sequence[str | None]) -> bytes:
    """An array of texts as PostgreSQL reads it; a column without NULL is quoted in one go."""
    if None in column or not column:
        quoted = ["NULL" if text is None else f'"{_escaped(text)}"' for text in column]
        return b"{%s}" % encoded_text(",".join(quoted))
    together = "\0".join(column)  # type: ignore[arg-type]  # none of them is None
    if together.count("\0") >= len(column):
        return encoded_text(together)  # which refuses it
    return encoded_text("".join(('{"', _escaped(together).replace("\0", '","'), '"}')))


def _escaped(text: str) -> str:
    return str.replace(text, "\\", r"\\").replace('"', r"\"")


class Columns:
    """Turns records of one kind into what its statement takes: arrays, or a lone record's own values.

    `alone` is the statement for a lone record, where there is one.
    """

    def __init__(self, query: Query, record: type[Any], alone: Query | None = None) -> None:
        self._statement = query.statement
        fields: tuple[str, ...] = record._fields
        numeric = {name for name, hint in get_type_hints(record).items() if hint is int or hint == int | None}
        self._columns: list[tuple[int, Callable[[Any], bytes]]] = [
            (fields.index(name), numbers if name in numeric else texts) for name in query.parameters
        ]
        self._alone = "" if alone is None else alone.statement
        self._values: list[tuple[int, Callable[[Any], bytes]]] = [
            (fields.index(name), _number if name in numeric else encoded_text) for name in (alone or query).parameters
        ]

    def step(self, records: Sequence[Any]) -> Encoded:
        """The statement for these records. Raises `PostgresError` for a value that PostgreSQL cannot hold."""
        try:
            if self._alone and len(records) == 1:
                lone = records[0]
                return self._alone, [None if lone[at] is None else encode(lone[at]) for at, encode in self._values]
            columns = list(zip(*records, strict=True))
            return self._statement, [encode(columns[place]) for place, encode in self._columns]
        except (TypeError, ValueError) as error:
            raise PostgresError(UNENCODABLE, str(error)) from error


def _number(value: int) -> bytes:
    return b"%d" % value


ALONE: dict[type[Any], str] = {NewOperation: "new_operation_alone", Succeed: "succeed_alone"}
"""The kinds of which a lone move has a statement of its own."""


class Batch(NamedTuple):
    """What one commit writes."""

    groups: Sequence[Group]
    starts: Sequence[NewRun]

    @property
    def runs(self) -> list[int]:
        """The numbers of the runs that it changes, and of those that it wakes."""
        found = {group.run for group in self.groups if group.moves}
        return list(found | {group.wakes for group in self.groups if group.wakes is not None})


class Writer:
    """Knows the statements of moves; writes on whatever connection it is given, in a transaction its caller began."""

    def __init__(self, queries: Mapping[str, Query]) -> None:
        self._kinds = [Columns(queries[name], kind, queries.get(ALONE.get(kind, ""))) for kind, name in KINDS]
        self._observe = Columns(queries["observe"], Observe)
        self._start = Columns(queries["start_run"], NewRun)
        self._started = Columns(queries["started_runs"], NewRun)
        self._pieces = Columns(queries["keep_piece_of_start"], Piece)
        self._lock = queries["lock_runs"].statement
        self._generation_of = queries["generation_of"].statement

    # -- all at once ----------------------------------------------------------------------------------------------

    def steps(self, batch: Batch) -> list[Encoded]:
        """The statements that write a whole batch, locks first, and the starts' two last.

        Raises `PostgresError` for a value that cannot be sent: then `write_each` finds out whose it is.
        """
        buckets, apart = in_kinds(batch.groups, at_once=True)
        steps = self.locks(batch.runs)
        steps += [columns.step(moves) for columns, moves in zip(self._kinds, buckets, strict=True) if moves]
        observations = [seen for group in batch.groups for seen in group.observations]
        if observations:
            steps.append(self._observe.step(observations))
        steps += [self._one(move) for group in apart for move in group.moves]
        return steps + self.starts(batch.starts)

    def locks(self, runs: Sequence[int]) -> list[Encoded]:
        """What keeps runs from everybody else."""
        return [(self._lock, [numbers(runs)])] if runs else []

    def starts(self, starts: Sequence[NewRun]) -> list[Encoded]:
        """The statements that start runs; the last two: the numbers of those that are new, every row asked for."""
        if not starts:
            return []
        pieces = [piece for new in starts for piece in new.pieces]
        kept = [self._pieces.step(pieces)] if pieces else []
        return [*kept, self._start.step(starts), self._started.step(starts)]

    def start(self, connection: PostgresConnection, new: NewRun) -> tuple[bool, Row]:
        """Start one run: whether it is new, and its row."""
        *_, made, found = connection.run_encoded(self.starts([new]))
        return bool(made.rows), found.rows[0]

    # -- one by one -----------------------------------------------------------------------------------------------

    def write_each(self, connection: PostgresConnection, groups: Sequence[Group]) -> list[Outcome]:
        """Write group by group, each under its own savepoint; what each was answered."""
        return [self._write_alone(connection, group) for group in groups]

    def write(self, connection: PostgresConnection, moves: Iterable[Move]) -> Move | None:
        """Write moves in their own order; the first one whose guard refused, or None. The transaction is over then."""
        for move in moves:
            try:
                connection.run_encoded([self._one(move)])
            except PostgresError as error:
                if error.code != GUARD_REFUSED:
                    raise
                return move
        return None

    def observe(self, connection: PostgresConnection, observations: Sequence[Observe]) -> None:
        """Append observations."""
        if observations:
            connection.run_encoded([self._observe.step(observations)])

    def _one(self, move: Move) -> Encoded:
        return self._kinds[RANK[type(move)]].step([move])

    def _write_alone(self, connection: PostgresConnection, group: Group) -> Outcome:
        try:
            steps = [self._one(move) for move in group.moves]
            if group.observations:
                steps.append(self._observe.step(group.observations))
        except PostgresError as error:
            answer: Outcome = refused(error, group)
        else:
            answer = self._try(connection, steps, group)
        if answer is Answer.MOVED:
            return answer
        answer = answer if self._owns(connection, group) else Answer.STALE
        for seen in [*group.observations, *group.if_refused, *reports(group)]:
            self._keep(connection, seen)
        return answer

    def _try(self, connection: PostgresConnection, steps: Sequence[Encoded], group: Group) -> Outcome:
        try:
            connection.run_encoded([SAVE, *steps, SAVED])
        except PostgresError as error:
            if not is_of_one_record(error):
                raise
            connection.run_encoded([UNDO, SAVED])
            return _answer_to(error, group)
        return Answer.MOVED

    def _keep(self, connection: PostgresConnection, seen: Observe) -> None:
        """Append what a refused group saw. What the database cannot hold was the reason of a refusal already."""
        try:
            step = self._observe.step([seen])
        except PostgresError:
            return
        try:
            connection.run_encoded([SAVE, step, SAVED])
        except PostgresError as error:
            if not is_of_one_record(error):
                raise
            connection.run_encoded([UNDO, SAVED])

    def _owns(self, connection: PostgresConnection, group: Group) -> bool:
        return connection.execute(self._generation_of, (group.run,)) == [(group.generation,)]


def _answer_to(error: PostgresError, group: Group) -> Outcome:
    if error.code == UNIQUE:
        return Answer.DUPLICATE
    return Answer.ILLEGAL if error.code == GUARD_REFUSED else refused(error, group)
