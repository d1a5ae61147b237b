"""What a worker takes from the ledger: whatever is due, or the one run that it was told of; always on a thread.

Who is told that a signal was kept knows which run it is for, and claims and loads that one in a single round trip. When
to claim is `worker`'s matter; which runs may be claimed, the store's.
"""

from __future__ import annotations

from contextlib import suppress
from itertools import zip_longest
from typing import TYPE_CHECKING

from fencepost.core.errors import StoreUnavailable
from fencepost.core.records import History, Run

if TYPE_CHECKING:
    from fencepost.runtime.firing import Firings
    from fencepost.runtime.host import Host
    from fencepost.store.changes import Signalled

LOADED_TOGETHER = 100
"""So many claimed runs share a round trip that loads them."""

Claimed = list[tuple[Run, History | None]]
"""Runs with their histories; None: to be loaded where it is lived."""


def take_due(host: Host, firings: Firings, *, margin: int, room: int, suspects: int) -> Claimed:
    """Fire and claim what is due, and load it at once where that takes a network's time."""
    store = host.store
    firings.fire_due()
    claimed = store.claim(
        host.lease.id, list(host.workflows), namespace=host.namespace, now=store.now(), margin=margin, limit=room,
        suspects=suspects, asks=not store.is_remote, queues=host.has_queues,
    )  # fmt: skip
    histories: list[History] = []
    if store.is_remote:
        with suppress(StoreUnavailable):  # each is claimed, and will be loaded, or given up, where it is lived
            for first in range(0, len(claimed), LOADED_TOGETHER):
                histories += store.load_all([run.no for run in claimed[first : first + LOADED_TOGETHER]])
    return list(zip_longest(claimed, histories))


def take_signalled(host: Host, signalled: Signalled) -> Claimed:
    """Claim the run that a signal has made due, unless somebody else was sooner."""
    store = host.store
    found = store.claim_signalled(
        signalled, host.lease.id, list(host.workflows), namespace=host.namespace, now=store.now()
    )
    return [] if found is None else [(found.run, found)]
