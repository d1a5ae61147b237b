"""The order in which a run's effects are made acceptable again, who may start that, and what the result is called.

Pure. An effect is compensated by an operation of its own, with its own key, contract and budget; carrying it out is
`effects` and `runtime`. Nothing is compensated while it is in flight or unknown: that is settled first. The last
completed comes first, and what rests on another effect before that one; if it cannot be compensated, what it rests on
is held back, and everything else goes on.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from fencepost.core.contract import Contract
from fencepost.core.position import plain
from fencepost.core.records import Operation, Run
from fencepost.core.recovery import Moment, span_remaining
from fencepost.core.states import OperationState
from fencepost.core.transitions import RunEvent

WORKFLOW = "workflow"
"""The role of a workflow's own code, and of what it declares."""

OPERATOR = "operator"
"""The role of any person who may have a run compensated."""

UNSETTLED = frozenset({OperationState.DISPATCHED, OperationState.UNKNOWN})


def may_start(permitted: Collection[str], roles: Collection[str]) -> bool:
    """Whether somebody with these roles may start a compensation that is permitted to those."""
    return not set(permitted).isdisjoint(roles)


# -- what must be known before ----------------------------------------------------------------------------------------


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


# -- the order --------------------------------------------------------------------------------------------------------


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
    """What stands, in the order in which to compensate it: the reverse of that in which one rests on another.

    Among those that rest on nothing of each other the last completed comes first (`protocol` F3). Compensations
    themselves and effects that did not happen are left out. Completion is the order of delivery; what was never
    delivered to the workflow (a race's loser) completed when its row last changed.
    """
    stands: list[Operation | AttachedChild] = [
        operation
        for operation in operations
        if operation.state is OperationState.SUCCEEDED and operation.compensates is None
    ]
    found = sorted([*stands, *children], key=_completed, reverse=True)
    rests_on = foundations(one for one in found if isinstance(one, Operation))
    return _resting_first(found, rests_on) if rests_on else found


def _completed(one: Operation | AttachedChild) -> tuple[int, int]:
    undelivered = one.delivered is None
    return (1 if undelivered else 0, one.changed_at if undelivered else one.delivered or 0)


def foundations(operations: Iterable[Operation]) -> dict[str, tuple[str, ...]]:
    """On which of these operations each one rests, by position; those that rest on none are left out.

    What was done another way stands for what it was done instead of.
    """
    found = list(operations)
    places: defaultdict[tuple[str, str | None], list[str]] = defaultdict(list)
    for one in found:
        step = plain(one.step)
        places[step, None].append(one.position)
        if one.item is not None:
            places[step, one.item].append(one.position)
    rests_on = {
        one.position: tuple(place for named in one.after for place in places.get(named, ()) if place != one.position)
        for one in found
        if one.after
    }
    return {position: below for position, below in rests_on.items() if below}


def undone(operations: Iterable[Operation]) -> set[str]:
    """The positions of the effects whose compensation has succeeded."""
    return {
        one.compensates for one in operations if one.compensates is not None and one.state is OperationState.SUCCEEDED
    }


def resting_on(position: str, operations: Iterable[Operation]) -> list[str]:
    """What rests on this effect, and stands or may: it has to be compensated before this one is."""
    found = list(operations)
    rests_on, gone = foundations(found), undone(found)
    return [
        one.position
        for one in found
        if position in rests_on.get(one.position, ())
        and one.compensates is None
        and one.position not in gone
        and (one.state is OperationState.SUCCEEDED or one.state in UNSETTLED)
    ]


def _resting_first(
    latest_first: list[Operation | AttachedChild], rests_on: Mapping[str, tuple[str, ...]]
) -> list[Operation | AttachedChild]:
    """Each one behind all that rest on it; of a circle, which code can name, the last completed breaks it."""
    burdens = Counter(place for below in rests_on.values() for place in below)
    left, found = list(latest_first), []
    while left:
        free = next((one for one in left if not burdens[one.position]), left[0])
        left.remove(free)
        found.append(free)
        burdens.subtract(rests_on.get(free.position, ()))
        burdens[free.position] = 0
    return found


# -- the end ----------------------------------------------------------------------------------------------------------


def ending(succeeded: Collection[bool]) -> RunEvent:
    """How a run ends whose compensations are over: compensated only if every one succeeded (law 10)."""
    if all(succeeded):
        return RunEvent.END_COMPENSATED
    return RunEvent.END_PARTLY_COMPENSATED if any(succeeded) else RunEvent.END_COMPENSATION_FAILED
