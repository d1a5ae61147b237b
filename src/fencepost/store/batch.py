"""Writes the groups of one commit: kind by kind when that is certain to mean the same, else group by group.

Fast: the moves of all groups are sorted into kinds, and each kind is one `executemany` whose changed rows are
counted. The kinds go in the order of `KINDS`: outcomes and closings, then what begins, then runs. A group whose own
order contradicts that order on a row that it touches twice is written by itself, in its own order, and so is
everything when a count is short or a row is refused: then each group has its own savepoint and its own answer.

This file neither begins nor commits; `sqlite` does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from fencepost.core.errors import ValueRefused
from fencepost.core.records import REPLY
from fencepost.store.api import Answer, Group, Started
from fencepost.store.connection import MISMATCH, Connection, SqliteError
from fencepost.store.failures import (
    CONSTRAINT,
    CONSTRAINT_NOTNULL,
    CONSTRAINT_PRIMARYKEY,
    CONSTRAINT_ROWID,
    CONSTRAINT_UNIQUE,
)
from fencepost.store.moves import (
    SETTLING,
    DeliverOperation,
    DispatchOperation,
    Move,
    MoveOperation,
    MoveRun,
    MoveSignal,
    MoveStep,
    NewAttempt,
    NewOperation,
    Observe,
    OpenStep,
    SettleAttempt,
    SettleFirst,
    Succeed,
)
from fencepost.store.queries import Query, Row

# The order of the fast path. An attempt is inserted after its operation was dispatched; a run moves after
# everything that was done under its state.
KINDS: tuple[tuple[type[Any], str], ...] = (
    (Succeed, "succeed"),
    (SettleFirst, "settle_first"),
    (SettleAttempt, "settle_attempt"),
    (MoveOperation, "move_operation"),
    (DeliverOperation, "deliver_operation"),
    (MoveStep, "move_step"),
    (MoveSignal, "move_signal"),
    (NewOperation, "new_operation"),
    (DispatchOperation, "dispatch_operation"),
    (NewAttempt, "new_attempt"),
    (OpenStep, "open_step"),
    (MoveRun, "move_run"),
)

_RANK: dict[type[Any], int] = {kind: rank for rank, (kind, _) in enumerate(KINDS)}
_RANK_OF_RUN = _RANK[MoveRun]
_TOO_BIG = 18

# A contradiction leaves its attempt unresolved and says neither; its evidence is kept all the same.
_SAYS = {"applied": "applied", "not applied": "not applied"}

Outcome = Answer | Started | ValueRefused


def touches(move: Move) -> tuple[tuple[Any, ...], ...]:
    """The rows that a move writes or whose state its guard reads, the run's own row left out."""
    if isinstance(move, (SettleFirst, SettleAttempt)):
        return (("attempt", move.step, move.item, move.number),)
    if isinstance(move, (NewAttempt, DispatchOperation)):
        return (("attempt", move.step, move.item, move.number), ("operation", move.step, move.item))
    if isinstance(move, (NewOperation, Succeed)):
        return (("attempt", move.step, move.item, 1), ("operation", move.step, move.item))
    if isinstance(move, (MoveOperation, DeliverOperation)):
        return (("operation", move.step, move.item),)
    if isinstance(move, (OpenStep, MoveStep)):
        return (("step", move.position),)
    if isinstance(move, MoveSignal):
        return (("signal", move.id),)
    return ()


def keeps_order(moves: Iterable[Move]) -> bool:
    """Whether the order of `KINDS` means the same as the moves' own order, for the moves of one run.

    Two moves may change places unless they touch one row. Every guard reads the run, and a run that is given up reads
    its waits and signals, so that nothing may follow a `MoveRun`.
    """
    highest: dict[tuple[Any, ...], int] = {}
    ended = False
    for move in moves:
        rank = _RANK[type(move)]
        if ended:
            return False
        ended = rank == _RANK_OF_RUN
        for row in touches(move):
            if rank < highest.get(row, 0):
                return False
            highest[row] = rank
    return True


class Shape(NamedTuple):
    """What the kinds of a group's moves say of its order, whatever the moves hold. Few different ones ever occur."""

    ranks: tuple[int, ...]
    lowest: int
    highest: int
    is_in_order: bool


@cache
def _shape(kinds: tuple[type[Any], ...]) -> Shape:
    ranks = tuple(_RANK[kind] for kind in kinds)
    in_order = list(ranks) == sorted(ranks) and _RANK_OF_RUN not in ranks[:-1]
    return Shape(ranks, min(ranks, default=_RANK_OF_RUN), max(ranks, default=0), in_order)


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
        buckets, apart = self._sort(groups)
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
            statement, bind = self._kinds[_RANK[type(move)]]
            if self._connection.change(statement, bind(move)) != 1:
                return move
        return None

    def observe(self, observations: Iterable[Observe]) -> None:
        """Append observations."""
        self._connection.change_many(self._observe, map(self._bind_observation, observations))

    def _sort(self, groups: Sequence[Group]) -> tuple[list[list[Move]], list[Group]]:
        """The moves by kind, and the groups that must be written apart, in their own order."""
        buckets: list[list[Move]] = [[] for _ in KINDS]
        highest: dict[int, int] = {}
        doubtful: set[int] = set()
        for group in groups:
            shape = _shape(tuple(map(type, group.moves)))
            before = highest.get(group.run, 0)
            if not shape.is_in_order or shape.lowest < before or before == _RANK_OF_RUN:
                doubtful.add(group.run)
            highest[group.run] = max(before, shape.highest)
            for rank, move in zip(shape.ranks, group.moves, strict=True):
                buckets[rank].append(move)
        # Two groups of one run in a batch are judged together: the second stands on the first.
        apart = {run for run in doubtful if not keeps_order(m for g in groups if g.run == run for m in g.moves)}
        if not apart:
            return buckets, []
        kept = [[move for move in bucket if move.run not in apart] for bucket in buckets]
        return kept, [group for group in groups if group.run in apart]

    def _write_alone(self, group: Group) -> Outcome:
        self._connection.execute("SAVEPOINT one")
        answer = self._try(group)
        if answer is not Answer.MOVED:
            self._connection.execute("ROLLBACK TO one")
            answer = answer if self._owns(group) else Answer.STALE
        self._connection.execute("RELEASE one")
        if answer is not Answer.MOVED:
            self._keep_what_was_seen([*group.observations, *group.if_refused, *_reports(group)])
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


def _reports(group: Group) -> list[Observe]:
    """What a refused group's owner saw of its attempts: its authority is gone, its evidence is not."""
    return [
        Observe(
            move.run, move.step, move.item, move.number, REPLY, _SAYS.get(move.to), move.evidence, None,
            group.generation, 0, None, move.at,
        )
        for move in group.moves
        if isinstance(move, SETTLING)
    ]  # fmt: skip


def _is_of_one_record(error: SqliteError) -> bool:
    """Whether one record is to blame, and not the file or the disk."""
    return error.primary in (CONSTRAINT, MISMATCH, _TOO_BIG)


def _answer_to(error: SqliteError, group: Group) -> Outcome:
    if error.code in (CONSTRAINT_PRIMARYKEY, CONSTRAINT_UNIQUE, CONSTRAINT_ROWID):
        return Answer.DUPLICATE
    # An insert's guard yields NULL for the run where it refuses.
    if error.code == CONSTRAINT_NOTNULL and str(error).endswith(".run"):
        return Answer.ILLEGAL
    return _refused(error, group)


def _refused(error: SqliteError, group: Group) -> ValueRefused:
    return ValueRefused(
        f"the ledger cannot hold this record: {error}",
        hint="a state lacks its evidence, or a value is of a type or size that the database does not take",
        ids={"run": str(group.run), "generation": str(group.generation)},
    )
