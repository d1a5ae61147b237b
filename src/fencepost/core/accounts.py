"""People at the console: how one comes in, for how long, and what proves that a form is from the console's own page.

Pure. A secret (the invitation's link, a session's cookie) is stored nowhere: the ledger has its digest. Roles are
scopes, as those of a token: they narrow what the namespace's permissions give. Letting somebody in is
`runtime.accounts`; passwords are hashed in the console.
"""

from __future__ import annotations

import hashlib
import hmac
import json
from dataclasses import dataclass

from fencepost.core.duration import HOUR

INVITATION_LASTS = HOUR
"""Microseconds for which a sign-in link is good, once."""

IDLE_MAX = HOUR
"""Microseconds without a request after which a session is over."""

SESSION_LASTS = 12 * HOUR
"""Microseconds after which a session is over, whatever it is used for."""

SEEN_EVERY = HOUR // 60
"""Microseconds within which a session's use is written down once."""


@dataclass(frozen=True, slots=True)
class Invitation:
    """A sign-in link, good once. `roles` is a JSON list; times are microseconds."""

    digest: str
    namespace: str
    person: str
    roles: str
    made_by: str
    made_at: int
    expires_at: int
    used_at: int | None = None

    def is_good_at(self, now: int) -> bool:
        """Whether somebody can still come in by it."""
        return self.used_at is None and now < self.expires_at


@dataclass(frozen=True, slots=True)
class Account:
    """Somebody who comes in with a password, of which this is the argon2 hash."""

    namespace: str
    person: str
    roles: str
    password: str
    changed_at: int

    @property
    def scopes(self) -> list[str]:
        """The roles that it was given."""
        return list(json.loads(self.roles))


@dataclass(frozen=True, slots=True)
class Session:
    """Somebody who has come in. `seen_at` is when they were last seen, to within `SEEN_EVERY`."""

    digest: str
    namespace: str
    person: str
    roles: str
    began_at: int
    seen_at: int
    ended_at: int | None = None

    @property
    def scopes(self) -> list[str]:
        """The roles beyond which nothing is done in it."""
        return list(json.loads(self.roles))

    def is_open_at(self, now: int) -> bool:
        """Whether it is taken: neither ended, nor idle for too long, nor too old."""
        if self.ended_at is not None:
            return False
        return now < self.seen_at + IDLE_MAX and now < self.began_at + SESSION_LASTS

    def is_to_be_noted_at(self, now: int) -> bool:
        """Whether that somebody was seen now is worth a write."""
        return now >= self.seen_at + SEEN_EVERY


def form_token(secret: str) -> str:
    """What each form of a session carries: whoever has not the session's secret cannot make it."""
    return hmac.new(secret.encode(), b"fencepost console form", hashlib.sha256).hexdigest()


def is_form_token(given: str, secret: str) -> bool:
    """Whether it is that of this session; compared in a time that does not depend on where they differ."""
    return hmac.compare_digest(given.encode("utf-8", "surrogatepass"), form_token(secret).encode())
