"""Decides which fault strikes a request, and keeps those that are held until somebody lets them go.

A fault with a rate is drawn from the seed, the service, the fault's label, the key or body, and how often that key or
body has come: never from the order of arrival, so that two runs of one seed meet the same faults however their requests
interleave. What a fault then does on the wire is not decided here but in `conduct`, `web` and `smtp`.
"""

import asyncio
import hashlib
from collections import Counter
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from fencepost.testing.world.behaviour import Fault, FaultMoment

_WRITING = frozenset({"POST", "PUT", "DATA"})


class Target(NamedTuple):
    """What a fault can match: the request as far as it is known (`body` is empty at the head)."""

    method: str
    collection: str
    path: str
    key: str
    body: str
    subject: str
    ordinal: int


def drawn(seed: int, service: str, label: str, subject: str, ordinal: int) -> float:
    """Return the draw for one request, uniform in [0, 1) and the same for the same arguments on every machine."""
    digest = hashlib.sha256("\x1f".join((str(seed), service, label, subject, str(ordinal))).encode()).digest()
    return int.from_bytes(digest[:8], "big") / (1 << 64)


class Faults:
    """The faults of one service, in order, with how often each has matched and struck."""

    def __init__(self, service: str, seed: int) -> None:
        """Begin with none."""
        self._service = service
        self._seed = seed
        self.replace(())

    def replace(self, faults: Sequence[Fault]) -> None:
        """Take these in place of those before, with fresh counts."""
        self._faults = tuple(faults)
        self._passed: Counter[int] = Counter()
        self._struck: Counter[int] = Counter()
        self._over: set[str] = set()

    def finish(self, name: str) -> None:
        """Let the fault of that name strike no more."""
        self._over.add(name)

    def choose(self, target: Target, moments: frozenset[FaultMoment]) -> Fault | None:
        """Return the first fault that strikes this request at one of these moments, and count it; or None."""
        for index, fault in enumerate(self._faults):
            if fault.moment not in moments or not self._matches(fault, target):
                continue
            if self._passed[index] < fault.skip:
                self._passed[index] += 1
                continue
            if fault.times is not None and self._struck[index] >= fault.times:
                continue
            if drawn(self._seed, self._service, fault.label, target.subject, target.ordinal) >= fault.rate:
                continue
            self._struck[index] += 1
            return fault
        return None

    def _matches(self, fault: Fault, target: Target) -> bool:
        return (
            fault.name not in self._over
            and (target.method in _WRITING if fault.method is None else target.method == fault.method)
            and (fault.ordinal is None or fault.ordinal == target.ordinal)
            and fnmatchcase(target.collection, fault.collection)
            and fnmatchcase(target.path, fault.path)
            and fnmatchcase(target.key, fault.key)
            and fault.body in target.body
        )


class Holds:
    """Requests that wait until the name of their fault is released; one set of names for the whole world."""

    def __init__(self) -> None:
        """Begin with nobody waiting."""
        self._released: dict[str, asyncio.Event] = {}
        self._waiting: Counter[str] = Counter()

    async def pause(self, fault: Fault) -> None:
        """Wait as long as the fault says: so many real milliseconds, and until its name is released if it holds."""
        if fault.milliseconds:
            await asyncio.sleep(fault.milliseconds / 1000)
        if fault.hold:
            await self._until_released(fault.name)

    async def _until_released(self, name: str) -> None:
        released = self._released.setdefault(name, asyncio.Event())
        self._waiting[name] += 1
        try:
            await released.wait()
        finally:
            self._waiting[name] -= 1

    def release(self, name: str) -> int:
        """Let everybody who waits under this name go on; returns how many."""
        let_go = self._waiting[name]
        if name in self._released:
            self._released.pop(name).set()
        return let_go

    def waiting(self) -> dict[str, int]:
        """Return how many requests wait now, by name."""
        return {name: count for name, count in self._waiting.items() if count}
