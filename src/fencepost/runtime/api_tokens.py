"""Makes and revokes the tokens by which services and people call over HTTP, and finds whose one is.

A token is shown once, by whoever made it; the ledger keeps its digest, its scopes and an audit row. Scopes are roles,
and narrow what the namespace's permissions give: `core.api_tokens`. Taking a token from a request is the console's.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from dataclasses import replace
from datetime import timedelta

from fencepost.core.api_tokens import PREFIX, SECRET_BYTES, ApiToken, TokenState, digest_of
from fencepost.core.duration import microseconds
from fencepost.core.errors import Misuse, VerbRefused
from fencepost.core.identity import canonical, check_name
from fencepost.core.permissions import Role
from fencepost.core.records import Audit
from fencepost.runtime.permits import Asked, ask

MAKE, REVOKE = "make token", "revoke token"
"""The verbs of their audit rows."""

NEVER = ""
"""Instead of a duration: the token does not expire."""


def make(
    app: Asked, person: str, roles: Iterable[str], *, by: str, reason: str, lasts: str | timedelta = "90d"
) -> tuple[str, ApiToken]:
    """Make a token: the token itself, which nothing can show again, and what the ledger holds of it.

    Args:
        app: in whose namespace it is good.
        person: under whose name everything is done that is done with it.
        roles: its scopes; the person's own roles are not widened by them.
        by: who makes it.
        reason: what for.
        lasts: until it expires; `NEVER` if it does not.

    Raises:
        Misuse: the name is none, there are no roles or none of this name, or who or why is missing.
        NotPermitted: they lack the verb's role.
    """
    check_name(person, what="person")
    scopes = sorted({_role(one).value for one in roles})
    if not scopes:
        raise Misuse("a token without a role could do nothing", hint=f"give some of: {', '.join(Role)}")
    ask(app, MAKE, _about(person), by=by, reason=reason)
    text, now = PREFIX + secrets.token_urlsafe(SECRET_BYTES), app.store.now()
    until = None if lasts == NEVER else now + max(microseconds(lasts, what="lasts"), 1)
    new = ApiToken(0, app.namespace, person, canonical(scopes), digest_of(text), by, now, until)
    return text, app.store.add_api_token(
        new, lambda kept: _audit(kept, MAKE, by=by, reason=reason, at=now, before=None, after=kept)
    )


def revoke(app: Asked, no: int, *, by: str, reason: str) -> ApiToken:
    """Take a token no more, from the next request on.

    Raises:
        VerbRefused: there is no such token here, or it is revoked already.
        NotPermitted: they lack the verb's role.
    """
    found = next((one for one in app.store.api_tokens(app.namespace) if one.no == no), None)
    ask(app, REVOKE, _about(f"number {no}" if found is None else found.person), by=by, reason=reason)
    if found is None:
        raise VerbRefused(f"there is no token with the number {no}", hint="`fencepost token` lists them")
    now = app.store.now()
    after = replace(found, revoked_by=by, revoked_at=now)
    row = _audit(found, REVOKE, by=by, reason=reason, at=now, before=found, after=after)
    if not app.store.revoke_api_token(app.namespace, no, by=by, audit=row):
        raise VerbRefused(f"token {no} is revoked already", hint="`fencepost token` lists them")
    return after


def holder(app: Asked, text: str) -> ApiToken | None:
    """The token that this text is, if it is taken now in this namespace; None says nothing of why it is not."""
    if not text.startswith(PREFIX):
        return None
    found = app.store.api_token(digest_of(text))
    if found is None or found.namespace != app.namespace:
        return None
    return found if found.stands_at(app.store.now()) is TokenState.LIVE else None


def _role(name: str) -> Role:
    if name not in set(Role):
        raise Misuse(f"{name!r} is no role", hint=f"one of: {', '.join(Role)}")
    return Role(name)


def _about(person: str) -> str:
    return f"token:{person}"


def _audit(
    token: ApiToken, verb: str, *, by: str, reason: str, at: int, before: ApiToken | None, after: ApiToken | None
) -> Audit:
    return Audit(
        at, by, verb, _about(token.person), "done", reason, _summary(before), _summary(after), namespace=token.namespace
    )


def _summary(token: ApiToken | None) -> str:
    if token is None:
        return canonical(None)
    return canonical(
        {
            "number": token.no,
            "person": token.person,
            "roles": token.scopes,
            "expires_at": token.expires_at,
            "revoked": token.revoked_at is not None,
        }
    )
