"""A fence in a document that its store writes only if it is unchanged: the token is part of what is stored.

The store compares versions (an ETag), not tokens. So the token is kept with the content, and every write says which
version it has read: what was read held no higher token, and if it is still there, no higher one is known now. Raising
the token is a write too. It must change the version, or an old writer who looked before it would still be let in; that
is checked, not believed. The stores are `http` and `objects`.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

from fencepost.core.errors import Permanent
from fencepost.targets.refusal import TRIES, changed, refused, repeated, restless, unreadable

Content = dict[str, Any]
"""A JSON object, without the token."""


class Seen(NamedTuple):
    """A document as it was read: `version` is None where there is none, `token` 0 where it holds none."""

    content: Content
    token: int
    version: str | None


class Put(NamedTuple):
    """What became of a conditional write; `maybe_earlier`: an earlier copy of the request may have been applied."""

    stored: bool
    maybe_earlier: bool = False


class Documents(ABC):
    """Documents with a token each; derived classes read and write one."""

    @abstractmethod
    def read(self, resource: str) -> Seen:
        """The document as its store has it now. For look-ups, if the store's reads never lag."""

    @abstractmethod
    def _put(self, resource: str, content: Content, token: int, version: str | None) -> Put:
        """Store content and token if the document still has this version (None: if there is none)."""

    def raise_to(self, resource: str, token: int) -> None:
        """See `Fence.raise_to`. Where there is no document yet, one is stored that holds only the token."""
        for _ in range(TRIES):
            seen = self._read_for(resource, token)
            if seen.token == token:
                return
            if self._put(resource, seen.content, token, seen.version).stored:
                self._check_raised(resource, token, seen)
                return
        raise restless(resource, token)

    def write(self, resource: str, token: int, change: Callable[[Content], Content]) -> Content:
        """Store what `change` makes of the content ({} if there is none), if no higher token is known; returns it.

        Raises:
            FenceRefused: a higher token is known, or the document was changed after it was read; nothing was written.
            Unresolved: it was refused, and yet an earlier copy of the same request may have been applied.
        """
        seen = self._read_for(resource, token)
        content = change(dict(seen.content))
        put = self._put(resource, content, token, seen.version)
        if put.stored:
            return content
        if put.maybe_earlier:
            raise repeated(resource, token)
        now = self._read_after_refusal(resource)
        if now.token == token:
            raise repeated(resource, token)
        raise changed(resource, token) if now.token < token else refused(resource, token, now.token)

    def _read_for(self, resource: str, token: int) -> Seen:
        seen = self.read(resource)
        if seen.token > token:
            raise refused(resource, token, seen.token)
        return seen

    def _read_after_refusal(self, resource: str) -> Seen:
        try:
            return self.read(resource)
        except Exception as error:
            # Its own failure says which bytes of the look left, and would be taken for the write's.
            raise unreadable(resource) from error

    def _check_raised(self, resource: str, token: int, before: Seen) -> None:
        after = self.read(resource)
        if after.token < token:
            raise Permanent(
                "the target answered that it stored the token, and does not hold it",
                hint="it drops the field or header, or its reads lag: it is no fence as it is declared",
                ids={"resource": resource, "token": str(token)},
            )
        if after.version == before.version:
            raise Permanent(
                "the target stored the token, and its version is still the same",
                hint="its ETag does not cover the place of the token: put the token where it does",
                ids={"resource": resource, "token": str(token)},
            )


# -- the token in a field of the content --------------------------------------------------------------------------


def with_token(content: Content, field: str | None, token: int) -> bytes:
    """The JSON that is stored; `field` is None where the token has another place."""
    return json.dumps(content if field is None else content | {field: token}, ensure_ascii=False).encode()


def without_token(body: bytes, field: str | None, resource: str) -> tuple[Content, int]:
    """Content and token of what is stored; raises `Permanent` for what is no JSON object with a whole number there."""
    try:
        content = {**json.loads(body)}
        token = 0 if field is None else int(content.pop(field, 0))
    except (ValueError, TypeError) as error:
        raise Permanent(
            f"the document of {resource!r} is no JSON object with a whole number in {field!r}: {error}",
            hint="a fence in a document needs a JSON object; for anything else there is no place for the token",
            ids={"resource": resource},
        ) from error
    return content, token
