"""What becomes of an owner's results when the ledger refuses its moves: nothing that it saw is lost with them.

Where it still owns the run, and only its next step was refused since a cancel was accepted, its results stand by
themselves. Where it does not, they settle what its heir does not know: its authority is gone, its evidence is not.
How evidence settles an operation is in `late`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import takewhile

from fencepost.core.contract import Contract
from fencepost.core.errors import MovesRefused
from fencepost.core.records import Run
from fencepost.runtime.late import reports_in, take_in
from fencepost.store.api import Answer, Group, Store
from fencepost.store.journal import Journal
from fencepost.store.moves import DispatchOperation, Move, MoveRun, NewAttempt, NewOperation

_NAMED_MAX = 5
"""So many refused moves are named to a person; the first of them is most often the one."""

_BEGINNINGS = (NewOperation, DispatchOperation, NewAttempt, MoveRun)


class Refusals:
    """The groups of one life that were refused, and those that came after the first of them and were not sent."""

    __slots__ = ("_refused", "_unsent")

    def __init__(self) -> None:
        self._refused: list[Group] = []
        self._unsent: list[Group] = []

    def refuse(self, group: Group) -> None:
        """Note a group that the ledger refused; its observations are appended already."""
        self._refused.append(group)

    def withhold(self, group: Group) -> None:
        """Note a group that is not sent any more."""
        if group.moves or group.observations:
            self._unsent.append(group)

    def error(self, answer: Answer, run: Run) -> MovesRefused:
        """What to tell a person of a run whose moves are refused however often it is loaded."""
        moves = self._refused[0].moves if self._refused else []
        wanted = ", ".join(_named(move) for move in moves[:_NAMED_MAX]) or "what it wrote"
        return MovesRefused(
            f"the ledger refused it as {answer}, although this worker owns the run: {wanted}",
            hint="a row was changed by other hands, or this is a fault of Fencepost; resume it once that is mended",
            ids={"run": run.id},
        )

    async def keep(
        self, answer: Answer, journal: Journal, store: Store, contract_of: Callable[[str], Contract]
    ) -> None:
        """Keep what is in them; `answer` is the first refusal, `contract_of` gives the contract of a position."""
        for group in self._refused:
            results = Group(group.run, group.generation, results_in(group))
            is_kept = answer is not Answer.STALE and await journal.submit(results) is Answer.MOVED
            if not is_kept:
                await _report(group, store, contract_of)
        for group in self._unsent:
            results = Group(group.run, group.generation, results_in(group), group.observations)
            if await journal.submit(results) is not Answer.MOVED:
                await _report(group, store, contract_of)


def results_in(group: Group) -> list[Move]:
    """What a group had to say before the first thing that it wanted to begin: it may stand without the rest."""
    return list(takewhile(lambda move: not isinstance(move, _BEGINNINGS), group.moves))


def _named(move: Move) -> str:
    at = getattr(move, "position", None) or getattr(move, "step", None) or getattr(move, "id", None)
    return type(move).__name__ + ("" if at is None else f" at {at!r}")


async def _report(group: Group, store: Store, contract_of: Callable[[str], Contract]) -> None:
    for report in reports_in(group):
        await asyncio.to_thread(take_in, store, report, contract_of(report.position), seen=True)
