"""Runs the body of an atomic effect inside the ledger's own transaction: its writes and its result are one commit.

What did not commit did not happen, whoever finds out: an error of the body is proof, and so is a takeover, since the
result's moves carry the generation and are the transaction's last statements. Only a commit of unknown result is not.
The transaction is the store's; leading the operation on is `perform`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from fencepost.core.duration import SECOND
from fencepost.core.errors import StoreFailed
from fencepost.core.identity import canonical
from fencepost.core.states import Outcome
from fencepost.effects.attempting import Attempting
from fencepost.effects.call import SyncCall
from fencepost.effects.deadline import boot_now
from fencepost.effects.entry import Entry, Proof, Result
from fencepost.effects.needs import Committed

if TYPE_CHECKING:
    from fencepost.effects.declare import Effect
    from fencepost.store.moves import Move

R = TypeVar("R")

COMMITTED = canonical({"kind": "committed"})
"""The evidence of an atomic attempt: its result is in the ledger."""


class Transactions(Protocol):
    """What is needed of the store."""

    def now(self) -> int:
        """The store's clock."""

    def transact(self, run: int, work: Callable[[Any], tuple[R, Sequence[Move]]], *, patience: float) -> R:
        """Do the work and make its moves in one commit; see `Store.transact`."""


def in_transaction(
    effect: Effect[..., Any], entry: Entry, number: int, attempting: Attempting, store: Transactions
) -> Callable[..., Committed]:
    """The body of `effect` as one that commits attempt `number` of `entry` with its own writes."""

    def body(call: SyncCall, *args: Any, **kwargs: Any) -> Committed:
        def work(connection: Any) -> tuple[Committed, Sequence[Move]]:
            attempting.connection = connection
            try:
                value = effect.body(call, *args, **kwargs)
            finally:
                attempting.connection = None
            carried = effect.carry_result(value)
            reference = attempting.reference or effect.reference_of(value)
            committed = Committed(carried, store.now(), Result(result=carried.text, reference=reference))
            return committed, _record(_copy(entry), number, committed)

        try:
            # Whoever waits for the ledger has its attempt's whole time, and spends no other attempt meanwhile.
            left = max(0, attempting.deadline - boot_now()) / SECOND
            committed = store.transact(entry.operation.run, work, patience=left)
        except StoreFailed:
            raise  # whether it is on disk is not known
        except Exception as error:
            attempting.unsent(error)  # the transaction was taken back, which is proof
            raise
        _record(entry, number, committed)
        return committed

    return body


def _record(entry: Entry, number: int, committed: Committed) -> list[Move]:
    return entry.succeed(Proof(number, Outcome.APPLIED, COMMITTED), committed.at, committed.outcome)


def _copy(entry: Entry) -> Entry:
    """What may still be refused is not written into the record yet."""
    operation = entry.operation
    attempts = [replace(attempt) for attempt in operation.attempts]
    return Entry(replace(operation, attempts=attempts), entry.contract, entry.owner)
