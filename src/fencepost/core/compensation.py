"""The order in which a run's effects are made acceptable again, and what the result is called.

Pure. An effect is compensated by an operation of its own, with its own key, contract and budget; carrying it out is
`effects` and `runtime`. Nothing is compensated while it is in flight or unknown: that is settled first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from fencepost.core.contract import Contract
from fencepost.core.records import Operation, Run
from fencepost.core.recovery import Moment, span_remaining
from fencepost.core.states import OperationState
from fencepost.core.transitions import RunEvent


@dataclass(frozen=True, slots=True)
class Compensation:
    """One effect that stands and what became of making it acceptable: `state` is None before it was begun."""

    of: str
    state: OperationState | None


UNSETTLED = frozenset({OperationState.DISPATCHED, OperationState.UNKNOWN})


def to_settle_first(operations: Iterable[Operation]) -> list[Operation]:
    """The effects that must be known before anything of the run is compensated (`protocol` F3).

    One that contradicts itself is among them: what happened twice is not made acceptable by compensating it once. That
    no compensation begins while another is unknown is asked of `recovery.in_the_way`, as for every new effect.
    """
    return [
        operation
        for operation in operations
        if operation.compensates is None and (operation.state in UNSETTLED or operation.conflict)
    ]


def may_begin_in(operation: Operation, contract: Contract, moment: Moment) -> int:
    """Microseconds until this effect may be compensated; 0 or less: now (`protocol` F3).

    `contract` is the effect's own. A success can stand on its second attempt while the first is still on its way, and
    would land after the compensation; so each attempt without proof is waited out.
    """
    return span_remaining(operation, contract, moment)


@dataclass(frozen=True, slots=True)
class AttachedChild:
    """A child run that has ended, at the position where its parent waited for it; compensated like an effect."""

    position: str
    run: Run
    delivered: int | None

    @property
    def changed_at(self) -> int:
        """When it ended."""
        return self.run.changed_at


def order(operations: Iterable[Operation], children: Iterable[AttachedChild] = ()) -> list[Operation | AttachedChild]:
    """What stands, in the order in which to compensate it: the last completed first (`protocol` F3).

    Compensations themselves and effects that did not happen are left out. Completion is the order of delivery; what
    was never delivered to the workflow (a race's loser) completed when its row last changed.
    """
    stands: list[Operation | AttachedChild] = [
        operation
        for operation in operations
        if operation.state is OperationState.SUCCEEDED and operation.compensates is None
    ]
    return sorted([*stands, *children], key=_completed, reverse=True)


def _completed(one: Operation | AttachedChild) -> tuple[int, int]:
    undelivered = one.delivered is None
    return (1 if undelivered else 0, one.changed_at if undelivered else one.delivered or 0)


def ending(compensations: Sequence[Compensation]) -> RunEvent:
    """How a run ends whose compensations are over: compensated only if every one succeeded (law 10)."""
    succeeded = sum(one.state is OperationState.SUCCEEDED for one in compensations)
    if succeeded == len(compensations):
        return RunEvent.END_COMPENSATED
    return RunEvent.END_PARTLY_COMPENSATED if succeeded else RunEvent.END_COMPENSATION_FAILED
