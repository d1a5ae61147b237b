"""Encrypts the texts of a ledger on their way in and decrypts them on their way out, each bound to its place.

A text is sealed with what says where it belongs (namespace, run id, column, and the step or signal), so that one that
is moved to another run or column does not open. The key that seals is named beside it; keys that only open are for what
was sealed before. What is sealed and when is `passage`'s matter, the cipher a codec's: `aes_gcm` is one.
"""

from __future__ import annotations

import base64
import json
from typing import Any, Protocol

from fencepost.core.errors import KeyUnavailable
from fencepost.core.identity import canonical
from fencepost.core.standin import ENCRYPTED, stand_in, told_by
from fencepost.store.texts import CLEAR


class Codec(Protocol):
    """Seals and opens the bytes of one value; `bound_to` is authenticated along with them, and is not secret.

    Both are called on any thread, often, and must not wait for a network.
    """

    @property
    def key(self) -> str:
        """The id of the key that seals now: 1 to 64 printable characters."""

    def seal(self, plain: bytes, *, bound_to: bytes) -> bytes:
        """Encrypt under the key that seals now."""

    def open(self, key: str, sealed: bytes, *, bound_to: bytes) -> bytes:
        """Decrypt what was sealed under the key with this id.

        Raises:
            KeyUnavailable: there is no such key here.
            ValueError: the bytes, or what they are bound to, are not those that were sealed under it.
        """


class Sealing:
    """Seals and opens texts with one codec."""

    __slots__ = ("_codec",)

    def __init__(self, codec: Codec) -> None:
        self._codec = codec

    def seal(self, text: str, column: str, *place: str) -> str:
        """What is stored for a text of this column."""
        sealed = self._codec.seal(text.encode(), bound_to=_bound_to(column, place))
        about = {"key": self._codec.key, "text": base64.b64encode(sealed).decode()}
        return stand_in(ENCRYPTED, about, _in_the_clear(text, CLEAR.get(column)))

    def open(self, stored: str, column: str, *place: str) -> str:
        """The text of what is stored; as it is if it was never sealed.

        Raises:
            KeyUnavailable: its key is not here, or is another one under the same id; or somebody changed it.
        """
        told = told_by(stored, ENCRYPTED)
        if told is None:
            return stored
        key = str(told["key"])
        try:
            sealed = base64.b64decode(told["text"], validate=True)
            return self._codec.open(key, sealed, bound_to=_bound_to(column, place)).decode()
        except ValueError as error:
            raise KeyUnavailable(
                f"what the ledger holds as {column} of {' '.join(place[:2])!r} does not open with key {key!r}",
                hint="another key has this id now, or the row was changed or moved by other hands; give the codec the "
                "key that sealed it, under the same id",
                ids={"key": key, "column": column},
            ) from error


def _in_the_clear(text: str, names: frozenset[str] | None) -> dict[str, Any]:
    if names is None:
        return {}
    said = json.loads(text)
    return {name: value for name, value in said.items() if name in names} if isinstance(said, dict) else {}


def _bound_to(column: str, place: tuple[str, ...]) -> bytes:
    return canonical(["fencepost 1", column, *place]).encode()
