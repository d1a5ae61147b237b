"""A request as the receiver compares it: the same one, or another one under the same key.

Compared are method, path, query, content type and body, byte for byte: a sender that must send again sends what it has
stored. Reading one off a connection is `asgi`'s and `wsgi`'s matter; what is done about it is decided by `desk`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Request:
    """One whole request. Header names are in lower case; `path` begins where the server's own addresses begin."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def fingerprint(self) -> str:
        """SHA-256 over what makes it this request, each part with its length in front."""
        digest = hashlib.sha256()
        parts = (self.method, self.path, self.query, self.headers.get("content-type", ""))
        for part in (*(part.encode("utf-8", "surrogatepass") for part in parts), self.body):
            digest.update(b"%d:" % len(part))
            digest.update(part)
        return digest.hexdigest()
