"""Lets people into the console and shuts them out: by a link that is good once, or by the password of their account.

A link and a session's secret are shown once; the ledger keeps digests, roles and audit rows. What somebody may do once
they are in is asked for each verb, in `permits`. Hashing a password, and how often one may be tried, is the console's.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable

from fencepost.core.accounts import INVITATION_LASTS, Account, Invitation, Session
from fencepost.core.api_tokens import SECRET_BYTES, digest_of
from fencepost.core.errors import Misuse, VerbRefused
from fencepost.core.identity import canonical, check_name
from fencepost.core.permissions import Role
from fencepost.core.records import Audit
from fencepost.runtime.permits import Asked, ask

INVITE, CLOSE = "invite", "close account"
"""The verbs of people about people."""

SIGN_IN, SIGN_OUT = "sign in", "sign out"
"""The audit rows of somebody's own coming and going."""


def invite(app: Asked, person: str, roles: Iterable[str], *, by: str, reason: str) -> tuple[str, Invitation]:
    """Make a link by which somebody comes in once: its secret, which nothing can show again, and what is kept of it.

    Args:
        app: in whose namespace it is good.
        person: under whose name everything is done by whoever comes in.
        roles: beyond which they may do nothing; the person's own roles are not widened by them.
        by: who asks them in.
        reason: what for.

    Raises:
        Misuse: the name is none, there are no roles or none of this name, or who or why is missing.
        NotPermitted: they lack the verb's role.
    """
    check_name(person, what="person")
    wanted = sorted(set(roles))
    strange = [one for one in wanted if one not in set(Role)]
    if strange or not wanted:
        what = f"{strange[0]!r} is no role" if strange else "somebody without a role could do nothing"
        raise Misuse(what, hint=f"give some of: {', '.join(Role)}")
    ask(app, INVITE, about(person), by=by, reason=reason)
    secret, now = secrets.token_urlsafe(SECRET_BYTES), app.store.now()
    new = Invitation(digest_of(secret), app.namespace, person, canonical(wanted), by, now, now + INVITATION_LASTS)
    app.store.add_invitation(new, _row(app, INVITE, person, by=by, reason=reason, after={"roles": wanted}))
    return secret, new


def invited(app: Asked, secret: str) -> Invitation | None:
    """The link that this secret is of, if somebody can come in by it now; None says nothing of why not."""
    found = app.store.invitation(digest_of(secret))
    if found is None or found.namespace != app.namespace:
        return None
    return found if found.is_good_at(app.store.now()) else None


def come_in(app: Asked, secret: str, *, password: str | None = None) -> str | None:
    """Use a link: the new session's secret; None: it is not good, or not any more.

    With the hash of a password, they have an account from now on, and come in with that the next time.
    """
    found, now = invited(app, secret), app.store.now()
    if found is None:
        return None
    account = None if password is None else Account(app.namespace, found.person, found.roles, password, now)
    opened, session = _session(app, found.person, found.roles, now)
    how = "by a link" if account is None else "by a link, and has chosen a password"
    row = _row(app, SIGN_IN, found.person, by=found.person, reason=how)
    return opened if app.store.let_in(session, row, invitation=found.digest, account=account) else None


def sign_in(app: Asked, account: Account) -> str:
    """Let in whoever has proved to be somebody with an account: the new session's secret."""
    opened, session = _session(app, account.person, account.roles, app.store.now())
    app.store.let_in(session, _row(app, SIGN_IN, account.person, by=account.person, reason="with a password"))
    return opened


def enter(app: Asked, person: str, roles: Iterable[str], *, how: str) -> str:
    """Let in whoever has proved elsewhere to be this person: the new session's secret. `how` stands in the audit."""
    opened, session = _session(app, person, canonical(sorted(set(roles))), app.store.now())
    app.store.let_in(session, _row(app, SIGN_IN, person, by=person, reason=how))
    return opened


def visitor(app: Asked, secret: str, *, is_used: bool = True) -> Session | None:
    """The session that this secret is of, if it is open now in this namespace; that it is used is noted."""
    found, now = app.store.session(digest_of(secret)), app.store.now()
    if found is None or found.namespace != app.namespace or not found.is_open_at(now):
        return None
    if is_used and found.is_to_be_noted_at(now):
        app.store.note_session(found.digest, now)
    return found


def sign_out(app: Asked, session: Session) -> None:
    """End a session; one that is over already stays so."""
    row = _row(app, SIGN_OUT, session.person, by=session.person, reason="by the button")
    app.store.end_session(session.digest, row)


def close(app: Asked, person: str, *, by: str, reason: str) -> None:
    """End somebody's account, links and sessions, from the next request on. Their API tokens are `api_tokens`'.

    Raises:
        VerbRefused: they have none of these.
        NotPermitted: they lack the verb's role.
    """
    ask(app, CLOSE, about(person), by=by, reason=reason)
    if not app.store.close_account(app.namespace, person, _row(app, CLOSE, person, by=by, reason=reason)):
        raise VerbRefused(f"{person!r} has neither an account nor a session", hint="`fencepost account` lists them")


def about(person: str) -> str:
    """Under what the audit rows about somebody stand."""
    return f"account:{person}"


def _session(app: Asked, person: str, roles: str, now: int) -> tuple[str, Session]:
    secret = secrets.token_urlsafe(SECRET_BYTES)
    return secret, Session(digest_of(secret), app.namespace, person, roles, now, now)


def _row(app: Asked, verb: str, person: str, *, by: str, reason: str, after: object = None) -> Audit:
    return Audit(
        app.store.now(), by, verb, about(person), "done", reason, canonical(None), canonical(after),
        namespace=app.namespace,
    )  # fmt: skip
