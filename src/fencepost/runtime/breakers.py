"""The breakers of one process: they count what attempts say, open in the ledger, and let one run through to see.

An open breaker is a containment, so that all workers obey it and the runs behind it cost rows and no requests. After
its cool-down any worker lets one waiting run through, by a compare-and-set; that run's next attempt closes it for
everybody, or shuts it for longer. Nothing here decides what an attempt proves: that is `core.breaker`.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from fencepost.core.breaker import Says
from fencepost.core.containment import BREAKER, Containment, Kind, mark
from fencepost.core.duration import spelled
from fencepost.runtime.containing import audit

if TYPE_CHECKING:
    from fencepost.core.breaker import Breaker
    from fencepost.core.records import Operation
    from fencepost.effects.needs import Sent
    from fencepost.runtime.heard import Containments
    from fencepost.store.api import Store

LOG = logging.getLogger("fencepost.breakers")


class Breakers:
    """What this process has counted, and the opening and closing of breakers in the ledger."""

    def __init__(self, store: Store, namespace: str, heard: Containments) -> None:
        self._store = store
        self._namespace = namespace
        self._heard = heard
        self._failures: dict[str, int] = {}
        self._opening = asyncio.Lock()

    async def learn(self, breaker: Breaker, target: str, operation: Operation, sent: Sent) -> None:
        """Take in what an attempt brought, and mark it as kept out where a breaker is open for it now.

        Raises `StoreUnavailable`.
        """
        says = breaker.hears(None if sent.error is None else sent.reading)
        if says is Says.NOTHING:
            return
        scope, run = operation.scope, operation.run
        if says is Says.WORKS:
            self._failures.pop(target, None)
        if says is not Says.REFUSES or not scope:
            await self._probed(breaker, target, scope, run, works=says is Says.WORKS)
        if says is Says.REFUSES and scope:
            await self._probed(breaker, target, scope, run, works=False)
            why = f"{target} refused the credential with status {sent.reading.status if sent.reading else None}"
            await self._open(breaker, Kind.CREDENTIAL, scope, why)
            sent.kept_out = True
        elif says is Says.FAILS and breaker.failures is not None:
            self._failures[target] = self._failures.get(target, 0) + 1
            if self._failures[target] >= breaker.failures:
                await self._open(breaker, Kind.TARGET, target, f"{breaker.failures} attempts in a row failed")

    async def _open(self, breaker: Breaker, kind: Kind, name: str, why: str) -> None:
        wanted = mark(self._namespace, kind, name)
        async with self._opening:  # the others that fail in the same moment find it open
            if self._heard.may_stop(wanted):
                return
            now = self._store.now()
            opened = Containment(
                wanted, self._namespace, kind, name, BREAKER, why, now, breaker.cool_down, now + breaker.cool_down
            )
            row = audit(opened, "contain", by=BREAKER, reason=why, after=opened)
            _, is_new = await asyncio.to_thread(self._store.contain, opened, row)
            await asyncio.to_thread(self._heard.refresh)
        if is_new:
            LOG.warning("%s; one run is let through in %s", opened.text, spelled(breaker.cool_down))

    async def _probed(self, breaker: Breaker, target: str, scope: str, run: int, *, works: bool) -> None:
        """If this run was let through a breaker: close it, or shut it for longer."""
        toward = mark(self._namespace, Kind.TARGET, target) + mark(self._namespace, Kind.CREDENTIAL, scope)
        if not self._heard.may_stop(toward):
            return
        for one in await asyncio.to_thread(self._heard.refresh):
            if one.mark not in toward or one.cool_down is None or not one.lets_through(run):
                continue
            now = self._store.now()
            row = audit(replace(one, at=now), "release", by=BREAKER, reason="it works again", before=one)
            longer = None if works else breaker.longer(one.cool_down)
            await asyncio.to_thread(self._store.probed, one.mark, run, cool_down=longer, now=now, audit=row)
            if works:
                LOG.warning("%s %s works again", one.kind, one.name)
        await asyncio.to_thread(self._heard.refresh)
