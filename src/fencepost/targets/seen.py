"""A target that remembers the largest token it has seen and learns it from writes alone: no fence, and it says so.

Many services that take a "fencing token" or a "version" with each request are of this kind. An old writer who arrives
before the new owner's first write is let in; with a look-up before the two, the effect happens twice. An effect that
declares such a target is shown with this weakness and treated as unfenced: its span is waited out. Where the service
takes a write that changes nothing, raising is that write: give a fence of your own (`core.fence`).
"""

from __future__ import annotations

from fencepost.core.errors import Misuse


class LargestSeen:
    """A service that refuses tokens below the largest one that a write has brought, called `name`."""

    weakness = "it learns tokens from writes alone, so an old writer who arrives before the new one is let in"

    def __init__(self, name: str) -> None:
        self.name = name

    def raise_to(self, resource: str, token: int) -> None:
        """Always raises `Misuse`: there is no way to tell this target a token without writing."""
        raise Misuse(
            f"{self.name} cannot be told a token without a write",
            hint="it counts as unfenced; the span is waited out before an absence is believed",
            ids={"resource": resource, "token": str(token)},
        )
