"""What is asked of a target that compares tokens, so that an old owner who wakes up can change nothing there.

A *token* is a whole number that the ledger issues per resource, ever larger, one for each dispatch and each look-up
that is to be believed. A *fence* is a target that refuses every write below the highest token it was told. The order
matters: raise the token first, then look up, then send (the ladder in `core.guarantee`).

How a target compares is one file each in `targets`; issuing tokens is the store's, asking for them `effects.perform`.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol


class Fence(Protocol):
    """A target that can be told a token and compares it with that of every later write."""

    @property
    def name(self) -> str:
        """What it is called in contracts and evidence, such as "etcd key"."""

    @property
    def weakness(self) -> str | None:
        """Why it is no fence, in one clause, or None.

        A target that only remembers the largest token seen, and learns it from writers alone, lets an old writer in
        that arrives first. It is shown with its contract, and counts as unfenced.
        """

    def raise_to(self, resource: str, token: int) -> Awaitable[None] | None:
        """Make the target refuse every write to `resource` below `token`; return when that is certain.

        Safe to repeat. Raises `FenceRefused` when the target knows a higher token; after any other error nothing may
        be concluded from a look-up.
        """
