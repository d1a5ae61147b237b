"""Where attempts are made: what all of one run's life share, and who keeps what their bodies learn in mid-call.

One attempt, and what its body may do, is `call`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from fencepost.core.records import Operation
    from fencepost.effects.attempting import Attempting
    from fencepost.effects.outside import Outside
    from fencepost.effects.telling import Witness
    from fencepost.store.api import Answer
    from fencepost.store.ticket import Ticket


class Keeper(Protocol):
    """Makes what a body learns in mid-call durable."""

    def note(self, operation: Operation, attempt: int, kind: str, evidence: str) -> Ticket[Answer]:
        """Append an observation to the operation; the ticket is done when it is durable."""


@dataclass(frozen=True, slots=True)
class Site:
    """What all attempts of one run's life share.

    `permission` raises `NotOwner` when no send may start; `now` is the store's clock. `traceparent` is the header by
    which what is sent joins the run's trace; None: nobody traces.
    """

    outside: Outside
    permission: Callable[[], None]
    now: Callable[[], int]
    generation: int
    principal: str | None
    keeper: Keeper | None = None
    witness: Witness | None = None
    traceparent: Callable[[Attempting], str] | None = None
