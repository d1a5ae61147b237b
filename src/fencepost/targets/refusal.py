"""How a target says that a token is too low, that it was in the way of somebody, or that it cannot tell which.

Each target decides when it may say which; what an error proves is decided in `core.classify`.
"""

from __future__ import annotations

from fencepost.core.errors import FenceRefused, Transient, Unresolved

TRIES = 20
"""How often a target that compares by version is read anew before it counts as never at rest."""


def refused(resource: str, token: int, known: int | None = None) -> FenceRefused:
    """The target knows a higher token, or was changed in between; in either case this write did nothing."""
    ids = {"resource": resource, "token": str(token)}
    return FenceRefused(
        "the target knows a higher token for this resource",
        hint="somebody newer writes there; this write did nothing",
        ids=ids if known is None else ids | {"known": str(known)},
    )


def changed(resource: str, token: int) -> FenceRefused:
    """Somebody else changed the resource between the look at it and the write, which therefore did nothing."""
    return FenceRefused(
        "the resource was changed while this write was made ready",
        hint="this write did nothing; the next attempt looks again",
        ids={"resource": resource, "token": str(token)},
    )


def repeated(resource: str, token: int) -> Unresolved:
    """The refusal may be meant for a repetition of a request whose first copy was applied."""
    return Unresolved(
        "the target refused the write, and yet it may have applied an earlier copy of the same request",
        hint="something between repeats requests: switch the client's and the proxies' retries off",
        ids={"resource": resource, "token": str(token)},
    )


def unreadable(resource: str) -> Unresolved:
    """The write was refused, and whether by a newer owner or for an earlier copy of itself cannot be seen."""
    return Unresolved(
        "the target refused the write, and why could not be read",
        hint="what happened is settled before anything is sent again",
        ids={"resource": resource},
    )


def restless(resource: str, token: int) -> Transient:
    """The resource is changed all the time, so that the token did not get in."""
    return Transient(
        f"the resource was changed each of {TRIES} times before the token was there",
        hint="nothing is concluded; raise it again later",
        ids={"resource": resource, "token": str(token)},
    )
