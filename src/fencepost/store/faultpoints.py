"""Names the transition rows that a commit passes, so that a test can stop a process right before or after each.

A name is `core.transitions.Row.name`; the store calls its probe with "before:" and "after:" in front. Without a
probe nothing is named. Which rows exist is the transition tables' matter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from fencepost.core.states import OperationState, Outcome, RunState
from fencepost.core.transitions import ATTEMPT, OPERATION, TABLES, AttemptEvent, OperationEvent, RunEvent
from fencepost.store.api import Group, NewRun
from fencepost.store.moves import (
    DispatchOperation,
    Move,
    MoveOperation,
    MoveRun,
    MoveSignal,
    MoveStep,
    NewOperation,
    SettleAttempt,
    SettleFirst,
    StartChild,
    Succeed,
)

Probe = Callable[[str], None]

# A note on an open step is a move, but no transition.
_ROWS = frozenset(row.name for table in TABLES for row in table.rows())

_TABLES: dict[type, str] = {
    MoveOperation: "operation",
    SettleFirst: "attempt",
    SettleAttempt: "attempt",
    MoveStep: "step",
    MoveSignal: "signal",
    MoveRun: "run",
}


_SUCCESS = [
    ATTEMPT.row(Outcome.UNRESOLVED, AttemptEvent.APPLIED).name,
    OPERATION.row(OperationState.DISPATCHED, OperationEvent.APPLY).name,
]


def of_move(move: Move) -> list[str]:
    """The rows that a move takes, such as "operation:dispatched:apply"; none where no table has one."""
    if isinstance(move, NewOperation):
        begun = OperationEvent.DISPATCH if move.state == OperationState.DISPATCHED else OperationEvent.RESERVE
        return [f"operation:nothing:{begun}"]
    if isinstance(move, DispatchOperation):
        return [f"operation:{move.expected}:{OperationEvent.DISPATCH}"]
    if isinstance(move, Succeed):
        return _SUCCESS
    if isinstance(move, StartChild):
        return [f"run:nothing:{RunEvent.RELEASE}"]
    if isinstance(move, (MoveOperation, SettleFirst, SettleAttempt, MoveStep, MoveSignal, MoveRun)):
        row = f"{_TABLES[type(move)]}:{move.expected}:{move.event}"
        return [row] if row in _ROWS else []
    return []


def of_moves(moves: Iterable[Move]) -> list[str]:
    """The rows of several moves, in their order."""
    return [point for move in moves for point in of_move(move)]


def of_entries(entries: Iterable[Group | NewRun]) -> list[str]:
    """The rows of every start and move of a commit."""
    return [
        point
        for entry in entries
        for point in ([of_start(entry)] if isinstance(entry, NewRun) else of_moves(entry.moves))
    ]


def of_start(new: NewRun) -> str:
    """The row that starting a run takes: owned from the first on, or left for somebody to claim."""
    return f"run:nothing:{RunEvent.RELEASE if new.lease is None else RunEvent.CLAIM}"


def of_claim(run_state: str, operation_states: Sequence[str]) -> list[str]:
    """The rows that claiming a run takes: its own, and one per state in which it has operations."""
    unowned = run_state in (RunState.READY, RunState.WAITING)
    event = RunEvent.CLAIM if unowned else RunEvent.TAKE_OVER
    found = (state for state in operation_states if OPERATION.allows(OperationState(state), OperationEvent.TAKE_OVER))
    return [f"run:{run_state}:{event}", *(f"operation:{state}:{OperationEvent.TAKE_OVER}" for state in found)]
