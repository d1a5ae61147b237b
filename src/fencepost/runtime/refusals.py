"""What becomes of an owner's results when the ledger refuses its moves: nothing that it saw is lost with them.

Where it still owns the run, and only its next step was refused since a cancel was accepted, its results stand by
themselves; so do they where the ledger had no room for that next step. Where it does not, they settle what its heir
does not know: its authority is gone, its evidence is not.
How evidence settles an operation is in `late`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import takewhile

from fencepost.core.contract import Contract
from fencepost.core.errors import MovesRefused, StoreUnavailable
from fencepost.core.records import Run
from fencepost.core.states import OperationState
from fencepost.core.transitions import OperationEvent
from fencepost.runtime.late import reports_in, take_in
from fencepost.store.api import Answer, Group, Store
from fencepost.store.journal import Journal
from fencepost.store.moves import DispatchOperation, Move, MoveOperation, MoveRun, NewAttempt, NewOperation

_NAMED_MAX = 5
"""So many refused moves are named to a person; the first of them is most often the one."""

_BEGINNINGS = (NewOperation, DispatchOperation, NewAttempt, MoveRun)

_WITH_A_HOLD = {
    (OperationState.RESERVED, OperationEvent.REFUSE),
    (OperationState.UNKNOWN, OperationEvent.LOSE),
}
"""How the moves begin that belong to a hold (`effects.conclusion.Holding.with_hold`)."""


class Refusals:
    """The groups of one life that were refused, and those that came after the first of them and were not sent."""

    __slots__ = ("_first", "_refused", "_unsent")

    def __init__(self) -> None:
        self._first: Group | None = None
        self._refused: list[Group] = []
        self._unsent: list[Group] = []

    def refuse(self, group: Group) -> None:
        """Note a group that the ledger refused; its observations are appended already."""
        self._first = self._first or group
        self._refused.append(group)

    def withhold(self, group: Group) -> None:
        """Note a group that is not sent any more."""
        if group.moves or group.observations:
            self._unsent.append(group)

    def error(self, answer: Answer, run: Run) -> MovesRefused:
        """What to tell a person of a run whose moves are refused however often it is loaded."""
        moves = self._first.moves if self._first is not None else []
        wanted = ", ".join(_named(move) for move in moves[:_NAMED_MAX]) or "what it wrote"
        return MovesRefused(
            f"the ledger refused it as {answer}, although this worker owns the run: {wanted}",
            hint="a row was changed by other hands, or this is a fault of Fencepost; resume it once that is mended",
            ids={"run": run.id},
        )

    async def keep(
        self, answer: Answer, journal: Journal, store: Store, contract_of: Callable[[str], Contract]
    ) -> None:
        """Keep what is in them; `answer` is the first refusal, `contract_of` gives the contract of a position.

        Raises `StoreUnavailable` where the ledger has no room for it either; what is left may be kept later.
        """
        while self._refused:
            with _first_of(self._refused) as group:
                results = Group(group.run, group.generation, results_in(group), audits=group.audits)
                if answer is Answer.STALE or await journal.submit(results) is not Answer.MOVED:
                    await _report(group, store, contract_of)
        while self._unsent:
            with _first_of(self._unsent) as group:
                results = Group(group.run, group.generation, results_in(group), group.observations, audits=group.audits)
                if await journal.submit(results) is not Answer.MOVED:
                    await _report(group, store, contract_of)


@contextmanager
def _first_of(groups: list[Group]) -> Iterator[Group]:
    """Take the first group, which goes back if the ledger cannot be written."""
    group = groups.pop(0)
    try:
        yield group
    except StoreUnavailable:
        groups.insert(0, group)
        raise


def results_in(group: Group) -> list[Move]:
    """What a group had to say before the first thing that it wanted to begin: it may stand without the rest."""
    return list(takewhile(lambda move: not (isinstance(move, _BEGINNINGS) or _gives_up(move)), group.moves))


def _gives_up(move: Move) -> bool:
    return isinstance(move, MoveOperation) and (move.expected, move.event) in _WITH_A_HOLD


def _named(move: Move) -> str:
    at = getattr(move, "position", None) or getattr(move, "step", None) or getattr(move, "id", None)
    return type(move).__name__ + ("" if at is None else f" at {at!r}")


async def _report(group: Group, store: Store, contract_of: Callable[[str], Contract]) -> None:
    for report in reports_in(group):
        await asyncio.to_thread(take_in, store, report, contract_of(report.position), seen=True)
