"""What holds of groups on every database: in which order their moves may be written, and what a refused one leaves.

The moves of a commit are written kind by kind, in the order of `KINDS`: outcomes and closings, then what begins, then
runs. That order means the same as the moves' own, except for groups that touch a row twice in another one: those are
told apart here. How moves are written, and what a refusal looks like, is `batch`'s part and `postgres_batch`'s.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any, NamedTuple

from fencepost.core.errors import ValueRefused
from fencepost.core.records import REPLY, Audit
from fencepost.store.api import Answer, Group, Started
from fencepost.store.moves import (
    SETTLING,
    DeliverOperation,
    DispatchOperation,
    KeepPiece,
    Move,
    MoveOperation,
    MoveRun,
    MoveSignal,
    MoveStep,
    NewAttempt,
    NewOperation,
    NextTurn,
    Observe,
    OpenStep,
    PinRun,
    SettleAttempt,
    SettleFirst,
    StartChild,
    Succeed,
)

# The order of the fast path. What a value's row refers to is there before it. An attempt is inserted after its
# operation was dispatched; a run moves after everything that was done under its state.
KINDS: tuple[tuple[type[Any], str], ...] = (
    (KeepPiece, "keep_piece"),
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
    (StartChild, "start_child"),
    (PinRun, "pin_run"),
    (MoveRun, "move_run"),
    (NextTurn, "next_turn"),
)

RANK: dict[type[Any], int] = {kind: rank for rank, (kind, _) in enumerate(KINDS)}
RANK_OF_RUN = RANK[MoveRun]

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
    if isinstance(move, StartChild):
        return (("child", move.id),)
    return ()


def keeps_order(moves: Iterable[Move], *, at_once: bool = False) -> bool:
    """Whether the order of `KINDS` means the same as the moves' own order, for the moves of one run.

    `at_once`: all moves of a kind are one statement, which changes no row twice. Two moves may change places unless
    they touch one row. Every guard reads the run, and a run that is given up reads its waits and signals, so that
    nothing may follow a `MoveRun`.
    """
    highest: dict[tuple[Any, ...], int] = {}
    ended = False
    for move in moves:
        rank = RANK[type(move)]
        if ended:
            return False
        ended = rank == RANK_OF_RUN
        for row in touches(move):
            if rank < highest.get(row, 0) or (at_once and rank == highest.get(row)):
                return False
            highest[row] = rank
    return True


class Shape(NamedTuple):
    """What the kinds of a group's moves say of its order, whatever the moves hold. Few different ones ever occur."""

    ranks: tuple[int, ...]
    lowest: int
    highest: int
    is_in_order: bool
    repeats: bool


@cache
def _shape(kinds: tuple[type[Any], ...]) -> Shape:
    ranks = tuple(RANK[kind] for kind in kinds)
    in_order = list(ranks) == sorted(ranks) and RANK_OF_RUN not in ranks[:-1]
    repeats = len(set(ranks)) < len(ranks)
    return Shape(ranks, min(ranks, default=RANK_OF_RUN), max(ranks, default=0), in_order, repeats)


def in_kinds(groups: Sequence[Group], *, at_once: bool = False) -> tuple[list[list[Move]], list[Group]]:
    """The moves of all groups by kind, and the groups that must be written apart, in their own order.

    `at_once` as in `keeps_order`.
    """
    buckets: list[list[Move]] = [[] for _ in KINDS]
    highest: dict[int, int] = {}
    doubtful: set[int] = set()
    for group in groups:
        shape = _shape(tuple(map(type, group.moves)))
        before = highest.get(group.run, -1)
        follows = shape.lowest > before if at_once else shape.lowest >= before
        if not shape.is_in_order or not follows or before == RANK_OF_RUN or (at_once and shape.repeats):
            doubtful.add(group.run)
        highest[group.run] = max(before, shape.highest)
        for rank, move in zip(shape.ranks, group.moves, strict=True):
            buckets[rank].append(move)
    # Two groups of one run in a batch are judged together: the second stands on the first.
    apart = {
        run
        for run in doubtful
        if not keeps_order((move for group in groups if group.run == run for move in group.moves), at_once=at_once)
    }
    if not apart:
        return buckets, []
    kept = [[move for move in bucket if move.run not in apart] for bucket in buckets]
    return kept, [group for group in groups if group.run in apart]


def audits(groups: Sequence[Group], answers: Sequence[Outcome]) -> list[Audit]:
    """The audit rows of the groups that moved; `answers` begin with theirs, in their order."""
    return [
        row for place, group in enumerate(groups) if group.audits and answers[place] is Answer.MOVED
        for row in group.audits
    ]  # fmt: skip


def reports(group: Group) -> list[Observe]:
    """What a refused group's owner saw of its attempts: its authority is gone, its evidence is not."""
    return [
        Observe(
            move.run, move.step, move.item, move.number, REPLY, _SAYS.get(move.to), move.evidence, None,
            group.generation, 0, None, move.at,
        )
        for move in group.moves
        if isinstance(move, SETTLING)
    ]  # fmt: skip


def refused(error: Exception, group: Group) -> ValueRefused:
    """Why one record of a group cannot be held."""
    return ValueRefused(
        f"the ledger cannot hold this record: {error}",
        hint="a state lacks its evidence, or a value is of a type or size that the database does not take",
        ids={"run": str(group.run), "generation": str(group.generation)},
    )
