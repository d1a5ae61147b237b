"""The codec that ships: AES-256 in Galois/Counter Mode, from the library `cryptography`.

Each value has a random 96-bit nonce of its own, kept in front of what it sealed. A key should seal fewer than 2**32
values (NIST SP 800-38D): name a new one before that, and keep the old ones to open what they have sealed. Where keys
are kept, and who may read them, is the app's matter; `sealed` says what is bound to what.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from fencepost.core.errors import KeyUnavailable, Misuse
from fencepost.core.identity import check_name

_NONCE_BYTES = 12
_KEY_BYTES = (16, 24, 32)
_KEY_ID_CHARACTERS_MAX = 64


class AesGcm:
    """Encrypts every payload of a ledger; pass it as `App(codec=...)`. Needs `pip install fencepost[encryption]`.

    Args:
        keys: by id, each of 16, 24 or 32 random bytes, such as `secrets.token_bytes(32)`. An id stands beside what its
            key has sealed, so that it must never name another key.
        seal_with: the id of the key that seals from now on; the others only open. Not needed where there is one key.

    Raises:
        Misuse: there is no key, one has another length, `seal_with` names none, or `cryptography` is not installed.
    """

    def __init__(self, keys: Mapping[str, bytes], *, seal_with: str | None = None) -> None:
        try:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
        except ImportError as error:
            raise Misuse(
                "encryption needs the library cryptography, which is not installed",
                hint="pip install fencepost[encryption]",
            ) from error
        for name, key in keys.items():
            check_name(name, what="key id")
            if len(name) > _KEY_ID_CHARACTERS_MAX or not isinstance(key, bytes) or len(key) not in _KEY_BYTES:
                raise Misuse(
                    f"key {name[:_KEY_ID_CHARACTERS_MAX]!r} is no AES key",
                    hint="a key is 32 random bytes under a short id; keep it as base64 and decode it",
                )
        sealing = next(iter(keys), None) if seal_with is None and len(keys) == 1 else seal_with
        if sealing is None or sealing not in keys:
            raise Misuse(
                "no key seals" if sealing is None else f"key {sealing!r}, which is to seal, is not among the keys",
                hint=f"name one of {sorted(keys)} as seal_with=" if keys else "give it a key",
            )
        self._sealing = sealing
        self._ciphers: dict[str, Any] = {name: AESGCM(key) for name, key in keys.items()}

    def __repr__(self) -> str:
        return f"AesGcm(keys={sorted(self._ciphers)}, seal_with={self._sealing!r})"

    @property
    def key(self) -> str:
        """The id of the key that seals now."""
        return self._sealing

    def seal(self, plain: bytes, *, bound_to: bytes) -> bytes:
        """See `Codec.seal`."""
        nonce = os.urandom(_NONCE_BYTES)
        sealed: bytes = self._ciphers[self._sealing].encrypt(nonce, plain, bound_to)
        return nonce + sealed

    def open(self, key: str, sealed: bytes, *, bound_to: bytes) -> bytes:
        """See `Codec.open`."""
        from cryptography.exceptions import InvalidTag

        cipher = self._ciphers.get(key)
        if cipher is None:
            raise KeyUnavailable(
                f"the ledger holds values that are encrypted by key {key!r}, which is not here",
                hint=f"add it to the codec's keys, which are {sorted(self._ciphers)}; old keys are kept to open",
                ids={"key": key},
            )
        try:
            plain: bytes = cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], bound_to)
        except InvalidTag as error:
            raise ValueError("it was not sealed like this under this key") from error
        return plain
