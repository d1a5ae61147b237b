"""What a first person asked for and a second one has to confirm: one row, and what it is called by.

Pure. When two persons are needed is `permissions`; writing and carrying out a proposal is `runtime.proposing`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from fencepost.core.identity import canonical, digest_text
from fencepost.core.standin import PURGED, told_by


class ProposalState(StrEnum):
    """What became of a proposal. One whose time is over is open in its row until the next one is made for its run."""

    OPEN = "open"
    CONFIRMED = "confirmed"
    DECLINED = "declined"
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True)
class Proposal:
    """A verb on one run that waits for a second person.

    `arguments` is canonical JSON, `seen` the run's row version that the first person decided about, `no` 0 until it is
    stored.
    """

    no: int
    run: int
    namespace: str
    run_id: str
    verb: str
    arguments: str
    digest: str
    seen: int
    reason: str
    proposed_by: str
    proposed_at: int
    expires_at: int
    state: ProposalState = ProposalState.OPEN
    closed_by: str | None = None
    closed_at: int | None = None

    def stands_at(self, now: int) -> ProposalState:
        """Its state at this instant: an open one expires by itself."""
        return ProposalState.EXPIRED if self.state is ProposalState.OPEN and self.expires_at <= now else self.state

    def is_purged(self) -> bool:
        """Whether what it asks for was removed with its run."""
        return told_by(self.arguments, PURGED) is not None

    def is_whole(self) -> bool:
        """Whether it asks for what it was made for: its digest is that of what it says. Not for one that was purged."""
        return self.digest == digest(self.run_id, self.verb, self.arguments, self.seen)


def digest(run_id: str, verb: str, arguments: str, seen: int) -> str:
    """What tells a proposal from another one: the same verb, with the same arguments, on the run as it was seen."""
    return digest_text(canonical([run_id, verb, arguments, seen]).encode())


class Closing(NamedTuple):
    """Which proposal is closed, by whom; with a verb that is carried out, in its commit."""

    no: int
    by: str
