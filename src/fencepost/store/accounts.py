"""The store's verbs about people at the console: let in, seen, and shut out, with their audit rows.

Who may be let in, and for how long, is `runtime.accounts`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fencepost.core.accounts import SESSION_LASTS, Account, Invitation, Session
from fencepost.core.records import Audit
from fencepost.store.verbs import Verbs, whole

if TYPE_CHECKING:
    from fencepost.store.statements import Work


KEPT_FOR = 2 * SESSION_LASTS
"""For so long after it began a session's row is kept; the audit has who came in, for ever."""


class AccountVerbs(Verbs):
    """What both stores do alike with people at the console."""

    @whole
    def account(self, namespace: str, person: str) -> Account | None:
        """See `Store.account`."""
        found = self._read("account_of", namespace=namespace, person=person)
        return Account(*found[0]) if found else None

    @whole
    def accounts(self, namespace: str) -> list[Account]:
        """See `Store.accounts`."""
        return [Account(*row) for row in self._read("list_accounts", namespace=namespace)]

    @whole
    def invitation(self, digest: str) -> Invitation | None:
        """See `Store.invitation`."""
        found = self._read("invitation_with", digest=digest)
        return Invitation(*found[0]) if found else None

    @whole
    def was_anybody_invited(self, namespace: str) -> bool:
        """See `Store.was_anybody_invited`."""
        return bool(self._read("anybody_invited", namespace=namespace))

    @whole
    def add_invitation(self, new: Invitation, audit: Audit) -> None:
        """See `Store.add_invitation`."""
        with self._writing() as work:
            self._keep(work, "add_invitation", new)
            self._append(work, audit)

    @whole
    def let_in(
        self, session: Session, audit: Audit, *, invitation: str | None = None, account: Account | None = None
    ) -> bool:
        """See `Store.let_in`."""
        with self._writing() as work:
            if invitation is not None and not work.change("use_invitation", digest=invitation, now=session.began_at):
                work.was_in_vain()
                return False
            if account is not None:
                self._keep(work, "keep_account", account)
            before = session.began_at - KEPT_FOR
            work.change("forget_sessions", namespace=session.namespace, before=before)
            self._keep(work, "begin_session", session)
            self._append(work, audit)
            return True

    @whole
    def session(self, digest: str) -> Session | None:
        """See `Store.session`."""
        found = self._read("session_with", digest=digest)
        return Session(*found[0]) if found else None

    @whole
    def note_session(self, digest: str, now: int) -> None:
        """See `Store.note_session`."""
        with self._writing() as work:
            if not work.change("note_session", digest=digest, now=now):
                work.was_in_vain()

    @whole
    def end_session(self, digest: str, audit: Audit) -> bool:
        """See `Store.end_session`."""
        with self._writing() as work:
            if not work.change("end_session", digest=digest, now=self.now()):
                work.was_in_vain()
                return False
            self._append(work, audit)
            return True

    @whole
    def close_account(self, namespace: str, person: str, audit: Audit) -> bool:
        """See `Store.close_account`."""
        whom = {"namespace": namespace, "person": person}
        with self._writing() as work:
            now = self.now()
            ended = [
                work.change("remove_account", **whom),
                work.change("end_invitations_of", now=now, **whom),
                work.change("end_sessions_of", now=now, **whom),
            ]
            if not any(ended):
                work.was_in_vain()
                return False
            self._append(work, audit)
            return True

    def _keep(self, work: Work, name: str, record: Account | Invitation | Session) -> None:
        work.change(name, **{one: getattr(record, one) for one in self.queries[name].parameters})
