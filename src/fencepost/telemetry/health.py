"""Whether this process does its work: its working loop moves in the time it announced, its lease and ledger are good.

It is asked from another thread than the loop's, so that a loop that is stuck cannot keep it from being said; where both
are one, such as an endpoint of the same loop, the question itself gets no answer, which says the same. What other
processes do is seen in the ledger alone (`workers_seen`). Ending or replacing a process is its supervisor's part.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from fencepost.core.duration import SECOND, spelled
from fencepost.core.errors import FencepostError
from fencepost.core.states import LeaseState
from fencepost.effects.deadline import boot_now

if TYPE_CHECKING:
    from fencepost.core.records import Lease
    from fencepost.runtime.app import App
    from fencepost.runtime.host import Host
    from fencepost.store.api import Store


@dataclass(frozen=True, slots=True)
class Health:
    """The answer: `troubles` are sentences, none where all is well; `does_work`: this process has a worker."""

    does_work: bool
    troubles: tuple[str, ...]

    @property
    def is_well(self) -> bool:
        """Whether nothing is wrong."""
        return not self.troubles


class Progress(NamedTuple):
    """How long ago the working loop moved last, and by how much that is more than it had announced; microseconds."""

    age: int
    overdue: int


def health(app: App) -> Health:
    """Whether this process does its work; for a supervisor or load balancer to ask.

    With a worker in this process: that its loop moves, its lease is not lost and its journal has not failed. Always:
    that the ledger answers. Blocks as long as the ledger takes; ask it from a thread, with a time limit.
    """
    host = app.host
    moves = progress(host)
    troubles: list[str] = []
    if moves is not None and moves.overdue:
        troubles.append(
            f"the working loop has not moved for {_seconds(moves.age)}, {_seconds(moves.overdue)} longer than announced"
        )
    if host.lease.is_taken and host.lease.is_over:
        troubles.append("the worker's lease is over: it is lost, or the worker has ended")
    if host.journal.failed is not None:
        troubles.append(f"the journal has stopped: {host.journal.failed.message}")
    try:
        host.store.now()
        host.store.epoch()
    except FencepostError as error:
        troubles.append(f"the ledger does not answer: {error.message}")
    return Health(host.lease.is_taken, tuple(troubles))


def progress(host: Host) -> Progress | None:
    """How the working loop of this process moves; None where there is none."""
    lease = host.lease
    if not lease.is_taken or lease.is_over:
        return None
    age = max(0, boot_now() - lease.ticked_at)
    return Progress(age, max(0, age - lease.stall_allowed))


class Seen(NamedTuple):
    """A worker as the ledger shows it: its lease, when it was renewed last, and by how much that is too late."""

    lease: Lease
    renewed_ago: int
    overdue: int


def workers_seen(store: Store) -> list[Seen]:
    """The workers that hold a live lease, in every process; one whose loop is stuck does not renew, and is overdue.

    Raises:
        StoreUnavailable: the ledger cannot be read.
    """
    now = store.now()
    live = [lease for lease in store.leases() if lease.state is LeaseState.LIVE]
    return [Seen(one, now - one.renewed_at, max(0, now - one.expires_at)) for one in live]


def _seconds(microseconds: int) -> str:
    return spelled(max(SECOND, microseconds // SECOND * SECOND))
