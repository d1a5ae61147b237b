"""A token by which a service or a person calls over HTTP: what the ledger knows of it, and what its holder may do.

Pure. The token itself is shown once and stored nowhere; the ledger has its digest. Its scopes are roles, and never give
what the namespace's permissions do not: who may do what stays `permissions`. Making and revoking them is
`runtime.api_tokens`.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from fencepost.core.permissions import Permissions, implied_by

PREFIX = "fencepost_"
"""How every token begins, so that a scanner of secrets can tell one."""

SECRET_BYTES = 32


class TokenState(StrEnum):
    """Whether a token is taken."""

    LIVE = "live"
    EXPIRED = "expired"
    REVOKED = "revoked"


@dataclass(frozen=True, slots=True)
class ApiToken:
    """What the ledger holds of a token. `no` is 0 until it is stored, `roles` a JSON list; times are microseconds."""

    no: int
    namespace: str
    person: str
    roles: str
    digest: str
    made_by: str
    made_at: int
    expires_at: int | None = None
    revoked_by: str | None = None
    revoked_at: int | None = None

    @property
    def scopes(self) -> list[str]:
        """The roles that it was given."""
        return list(json.loads(self.roles))

    def stands_at(self, now: int) -> TokenState:
        """Whether it is taken at this instant."""
        if self.revoked_at is not None:
            return TokenState.REVOKED
        return TokenState.EXPIRED if self.expires_at is not None and self.expires_at <= now else TokenState.LIVE


def digest_of(token: str) -> str:
    """What is stored of a token. Its secret is 256 random bits, which no slow hash makes harder to guess."""
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).hexdigest()


def narrowed(policy: Permissions | None, person: str, scopes: Iterable[str]) -> Permissions:
    """What may be done by whoever calls as this person: of their own roles those that these scopes have too.

    Where nobody has said who may do what, the scopes alone say it.
    """
    most = implied_by(scopes)
    if policy is None:
        return Permissions({person: most})
    found = copy.copy(policy)
    found.roles = {**policy.roles, person: policy.of(person) & most}
    found.names_are_given = False
    return found
