"""How this process reaches the outside: the named targets, the HTTP doors and the model endpoint.

One `Outside` belongs to one app or ledger and holds what effects share: connection pools and configuration. Secrets
come from functions that are called for each request, so that they are never stored. What may be sent is decided in
`call` and `http`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fencepost.core.breaker import Breaker
from fencepost.core.errors import Misuse
from fencepost.effects.secret import Provider
from fencepost.effects.transport import AsyncDoor, DoorOptions, SyncDoor

if TYPE_CHECKING:
    from fencepost.effects.model import Source


@dataclass(frozen=True, slots=True)
class Target:
    """An outside system under the name by which effects call it.

    `base_url` is put before relative paths. `headers` gives the headers of each request (credentials belong here).
    `scope` says where operation keys are valid there (account, region); the base URL if not given. A `breaker` stops
    what is sent to it, by all workers, once its credential is refused or it fails again and again.
    """

    base_url: str
    headers: Callable[[], Mapping[str, str]] | None = None
    scope: str | None = None
    breaker: Breaker | None = None

    @property
    def key_scope(self) -> str:
        """Where a key sent to this target is valid."""
        return self.scope if self.scope is not None else self.base_url


@dataclass
class Outside:
    """Targets, doors and model endpoint of one app."""

    targets: Mapping[str, Target] = field(default_factory=dict)
    model: Source | None = None
    options: DoorOptions = field(default_factory=DoorOptions)
    callback_secrets: tuple[bytes, ...] = ()
    """From which the tokens of callbacks are made: new ones from the first; see `core.callback`."""
    secrets: Provider | None = None

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._async_door: AsyncDoor | None = None
        self._sync_door: SyncDoor | None = None

    def target(self, name: str) -> Target:
        """The target of that name; raises `Misuse` with the names there are."""
        found = self.targets.get(name)
        if found is None:
            known = ", ".join(sorted(self.targets)) or "none"
            raise Misuse(
                f"no target is named {name!r}",
                hint=f"pass targets={{{name!r}: Target(base_url=...)}} to App; configured: {known}",
            )
        return found

    def breaker(self, target: str | None) -> Breaker | None:
        """The breaker of a target, if it has one."""
        found = self.targets.get(target) if target is not None else None
        return None if found is None else found.breaker

    def scope(self, declared: str | None, target: str | None) -> str:
        """Where a key is valid: what the effect declares, else the target's scope, else nowhere in particular."""
        if declared is not None:
            return declared
        return self.target(target).key_scope if target is not None and target in self.targets else ""

    def async_door(self) -> AsyncDoor:
        """The door of the event loop's tasks."""
        if self._async_door is None:
            self._async_door = AsyncDoor(self.options)
        return self._async_door

    def sync_door(self) -> SyncDoor:
        """The door of threads."""
        with self._lock:
            if self._sync_door is None:
                self._sync_door = SyncDoor(self.options)
            return self._sync_door

    async def aclose(self) -> None:
        """Close the doors."""
        if self._async_door is not None:
            await self._async_door.aclose()
            self._async_door = None
        self.close()

    def close(self) -> None:
        """Close the threads' door."""
        if self._sync_door is not None:
            self._sync_door.close()
            self._sync_door = None
