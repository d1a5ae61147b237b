"""One worker life's lease: taken once, renewed by a thread while the working loop moves, never reused.

Safety does not rest on it: the generation in every write does. The lease says when others may take over, and stops
this process from starting a send that it could not finish in time. Claiming runs is `worker`.
"""

from __future__ import annotations

import os
import secrets
import socket
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

from fencepost.core.duration import SECOND, spelled
from fencepost.core.epoch import Epoch
from fencepost.core.errors import DeclarationError, LeaseLost, LedgerWentBack, StoreFailed, StoreUnavailable
from fencepost.core.records import Lease
from fencepost.core.states import LeaseState
from fencepost.effects.deadline import boot_now
from fencepost.store.api import Store

RENEWALS_PER_LEASE = 3
STALL_MAX = 5 * 60 * SECOND
"""However long the timeouts of the steps that run now: a loop that stands still for longer loses its lease."""


def check_margin(length: int, margin: int) -> None:
    """Raise `DeclarationError` for a margin that leaves too little of a lease of this length to send in."""
    if margin * 2 >= length:
        raise DeclarationError(
            f"a margin of {spelled(margin)} does not fit into a lease of {spelled(length)}",
            hint="make the lease at least three times as long as the margin",
        )


def check_margin_beside(leases: Iterable[Lease], margin: int, now: int) -> None:
    """Raise `DeclarationError` for a margin below that of a worker that is alive on the ledger.

    Whoever takes over must wait at least as long as the owner was told that everybody waits.
    """
    alive = (lease for lease in leases if lease.state is LeaseState.LIVE and lease.expires_at + lease.margin > now)
    largest = max(alive, key=lambda lease: lease.margin, default=None)
    if largest is not None and largest.margin > margin:
        raise DeclarationError(
            f"a margin of {spelled(margin)} is below the {spelled(largest.margin)} of a worker on the same ledger",
            hint="give all workers of a ledger one margin; to lower it, first end those with the larger one",
            ids={"lease": largest.id, "host": largest.host, "pid": str(largest.pid)},
        )


class LeaseHolder:
    """The lease of this process life.

    `length` and `margin` are microseconds: a send starts only while more than `margin` is left, and others take over no
    earlier than `margin` after the end.
    """

    def __init__(self, store: Store, *, length: int, margin: int) -> None:
        self.store = store
        self.length = length
        self.margin = margin
        self.id = secrets.token_hex(8)
        self.carries: Callable[[], str] = lambda: "[]"
        """Which workflows this process knows, as `Lease.carries`; told with each renewal."""
        self._good_until = 0
        self.lost = False
        """Whether this life is over: expired by others, given up, or not renewed in time."""
        self._why_lost = ""
        self.went_back = False
        """Whether the ledger was restored under this life, and nobody has said so yet."""
        self._renewed_at = 0
        self._epoch: Epoch | None = None
        self.ticked_at = 0
        """When the working loop moved last, by the boot-time clock."""
        self.stall_allowed = SECOND
        """How much later it has announced to move again, at the latest."""
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def take(self) -> None:
        """Insert the lease and start renewing it."""
        asked_at = boot_now()
        now = self.store.now()
        self.store.take_lease(
            Lease(
                id=self.id,
                host=socket.gethostname(),
                boot_id=_boot_id(),
                pid=os.getpid(),
                process_started=_process_started(),
                state=LeaseState.LIVE,
                taken_at=now,
                renewed_at=now,
                expires_at=now + self.length,
                margin=self.margin,
                carries=self.carries(),
            )
        )
        self._epoch = self.store.epoch()
        self._renewed_at = now
        self._good_until = asked_at + self.length - self.margin
        self.ticked_at = asked_at
        self._thread = threading.Thread(target=self._renew_until_stopped, name="fencepost-lease", daemon=True)
        self._thread.start()

    def tick(self, longest_step: int = SECOND) -> None:
        """The working loop moves; `longest_step` is the longest attempt timeout of the steps that run on it now."""
        self.ticked_at = boot_now()
        self.stall_allowed = min(max(longest_step, self.length), STALL_MAX)

    def begins(self, timeout: int) -> None:
        """A step begins on the working loop, which it may keep from ticking until its attempt timeout is over."""
        self.stall_allowed = max(self.stall_allowed, min(timeout, STALL_MAX))

    def check(self) -> None:
        """Raise `LeaseLost` if no send may start now."""
        if self.lost or boot_now() >= self._good_until:
            raise LeaseLost(
                self._why_lost or "the lease is too near its end, or over",
                hint="nothing was sent; whoever owns the run next goes on",
                ids={"lease": self.id},
            )

    @property
    def is_taken(self) -> bool:
        """Whether this life has begun; it may be over by now."""
        return self._thread is not None

    @property
    def is_over(self) -> bool:
        """Whether this life has ended, in whatever way."""
        return self._stopping.is_set() or self.lost

    def give_up(self, why: str) -> None:
        """End this life early: nothing is sent under it any more."""
        self.lost, self._why_lost = True, self._why_lost or why

    def end(self) -> None:
        """Stop renewing and give the lease back, so that its runs can be claimed at once."""
        self._stopping.set()
        if self._thread is not None:
            self._thread.join()
        try:
            self.store.end_lease(self.id, now=self.store.now())
        except StoreUnavailable:
            self.give_up("the ledger could not be reached to give the lease back; it runs out by itself")

    def _renew_until_stopped(self) -> None:
        pause = self.length / RENEWALS_PER_LEASE / SECOND
        while not self._stopping.wait(pause):
            if boot_now() - self.ticked_at > self.stall_allowed:
                continue  # the loop is stuck: let the lease run out, so that somebody else goes on
            if not self._renew():
                return

    def _renew(self) -> bool:
        asked_at = boot_now()
        now = self.store.now()
        try:
            seen = self._renewed_at
            renewed = self.store.renew_lease(
                self.id, now=now, expires_at=now + self.length, seen=seen, carries=self.carries()
            )
            gone_back = not renewed and self.store.has_gone_back(self.id, seen) and self.store.epoch() == self._epoch
        except StoreFailed as error:
            self.give_up(f"the ledger failed: {error}")
            return False
        except LedgerWentBack as error:
            self.went_back = True
            self.give_up(error.message)
            return False
        except StoreUnavailable:
            return True  # tried again at the next turn; sends stop by themselves at the margin
        if renewed:
            self._renewed_at = max(seen, now)
            self._good_until = asked_at + self.length - self.margin
        elif gone_back:
            self.went_back = True
            self.give_up("the ledger is older than what this process has seen in it")
        else:
            self.give_up("the lease was expired by another process")
        return renewed


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        return "unknown"


def _process_started() -> int:
    """Start time of this process in clock ticks since boot; with the boot id and pid it names one life."""
    try:
        return int(Path("/proc/self/stat").read_text("ascii").rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return 0
