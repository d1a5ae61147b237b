"""The passage of what stands beside the lives of runs: people, what is contained, queues, many runs, audit, purge.

As in `passage`, which has the verbs that a worker lives by: texts go in sealed and come out as they were.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from fencepost.core.accounts import Account, Invitation, Session
from fencepost.core.api_tokens import ApiToken
from fencepost.core.bulk import Bulk, BulkRun, BulkState, Tick
from fencepost.core.containment import Containment
from fencepost.core.proposals import Closing, Proposal
from fencepost.core.queue import QueueStanding
from fencepost.core.records import Audit, Run
from fencepost.store.governing import AuditFilter, Purging, RunSearch, Searched
from fencepost.store.texts import WHY_REFUSED
from fencepost.store.transit import Transit


class GoverningPassage(Transit):
    """The part of a `Passage` that people and the app itself use."""

    def purge(self, wanted: Purging, audit: Callable[[list[str]], Audit]) -> list[tuple[int, str]]:
        """See `Store.purge`."""
        return self.inner.purge(wanted, lambda runs: self._audit(audit(runs)))

    # -- people ---------------------------------------------------------------------------------------------------

    def declare_policy(self, namespace: str, policy: str, audit: Callable[[str | None, int], Audit]) -> None:
        """See `Store.declare_policy`."""
        self.inner.declare_policy(namespace, policy, lambda before, now: self._audit(audit(before, now)))

    def add_api_token(self, new: ApiToken, audit: Callable[[ApiToken], Audit]) -> ApiToken:
        """See `Store.add_api_token`."""
        return self.inner.add_api_token(new, lambda kept: self._audit(audit(kept)))

    def revoke_api_token(self, namespace: str, no: int, *, by: str, audit: Audit) -> bool:
        """See `Store.revoke_api_token`."""
        return self.inner.revoke_api_token(namespace, no, by=by, audit=self._audit(audit))

    def search_runs(self, wanted: RunSearch, most: int) -> Searched:
        """See `Store.search_runs`. What is stored encrypted is not found by its words."""
        found = self.inner.search_runs(wanted, most)
        return found._replace(runs=[self._run(run) for run in found.runs])

    def add_invitation(self, new: Invitation, audit: Audit) -> None:
        """See `Store.add_invitation`."""
        self.inner.add_invitation(new, self._audit(audit))

    def let_in(
        self, session: Session, audit: Audit, *, invitation: str | None = None, account: Account | None = None
    ) -> bool:
        """See `Store.let_in`."""
        return self.inner.let_in(session, self._audit(audit), invitation=invitation, account=account)

    def end_session(self, digest: str, audit: Audit) -> bool:
        """See `Store.end_session`."""
        return self.inner.end_session(digest, self._audit(audit))

    def close_account(self, namespace: str, person: str, audit: Audit) -> bool:
        """See `Store.close_account`."""
        return self.inner.close_account(namespace, person, self._audit(audit))

    def propose(self, new: Proposal, audit: Callable[[Proposal], Audit]) -> Proposal:
        """See `Store.propose`. Its digest is that of what is asked for, and not of what is stored."""
        kept = self.inner.propose(self._proposal(new), lambda kept: self._audit(audit(self._read_proposal(kept))))
        return self._read_proposal(kept)

    def proposal(self, namespace: str, no: int) -> Proposal | None:
        """See `Store.proposal`."""
        found = self.inner.proposal(namespace, no)
        return None if found is None else self._read_proposal(found)

    def proposals(self, namespace: str, *, every: bool, limit: int) -> list[Proposal]:
        """See `Store.proposals`."""
        return [self._read_proposal(one) for one in self.inner.proposals(namespace, every=every, limit=limit)]

    def decline(self, closing: Closing, audit: Audit) -> bool:
        """See `Store.decline`."""
        return self.inner.decline(closing, self._audit(audit))

    def contained(self, namespace: str) -> list[Containment]:
        """See `Store.contained`."""
        return [self._read_containment(one) for one in self.inner.contained(namespace)]

    def contain(self, wanted: Containment, audit: Audit) -> tuple[Containment, bool]:
        """See `Store.contain`."""
        found, changed = self.inner.contain(self._containment(wanted), self._audit(audit))
        return self._read_containment(found), changed

    def release(self, mark: str, audit: Audit) -> Containment | None:
        """See `Store.release`."""
        found = self.inner.release(mark, self._audit(audit))
        return None if found is None else self._read_containment(found)

    def probed(self, mark: str, run: int, *, cool_down: int | None, now: int, audit: Audit) -> bool:
        """See `Store.probed`."""
        return self.inner.probed(mark, run, cool_down=cool_down, now=now, audit=self._audit(audit))

    def queues(self, namespace: str) -> list[QueueStanding]:
        """See `Store.queues`."""
        return [self._read_standing(namespace, one) for one in self.inner.queues(namespace)]

    def pause_queue(self, namespace: str, name: str, *, actor: str | None, audit: Audit) -> bool:
        """See `Store.pause_queue`."""
        return self.inner.pause_queue(namespace, name, actor=actor, audit=self._audit(audit))

    # -- many runs ------------------------------------------------------------------------------------------------

    def start_bulk(self, new: Bulk, runs: Sequence[Run]) -> tuple[Bulk, bool]:
        """See `KeepsBulks.start_bulk`."""
        kept, is_new = self.inner.start_bulk(self._bulk(new), runs)
        return self._read_bulk(kept), is_new

    def bulk(self, namespace: str, no: int) -> Bulk | None:
        """See `KeepsBulks.bulk`."""
        found = self.inner.bulk(namespace, no)
        return None if found is None else self._read_bulk(found)

    def bulks(self, namespace: str, *, every: bool, limit: int) -> list[Bulk]:
        """See `KeepsBulks.bulks`."""
        return [self._read_bulk(one) for one in self.inner.bulks(namespace, every=every, limit=limit)]

    def bulk_runs(self, no: int, *, every: bool, after: int, limit: int) -> list[BulkRun]:
        """See `KeepsBulks.bulk_runs`."""
        return [self._read_bulk_run(one) for one in self.inner.bulk_runs(no, every=every, after=after, limit=limit)]

    def refuse_in_bulk(self, ticks: Tick, says: str) -> bool:
        """See `KeepsBulks.refuse_in_bulk`."""
        return self.inner.refuse_in_bulk(ticks, self._sealed(says, WHY_REFUSED, self._owner(ticks.run), ""))

    def move_bulk(self, no: int, *, expected: BulkState, to: BulkState, audit: Audit) -> bool:
        """See `KeepsBulks.move_bulk`."""
        return self.inner.move_bulk(no, expected=expected, to=to, audit=self._audit(audit))

    # -- audit ----------------------------------------------------------------------------------------------------

    def audit(self, row: Audit) -> Audit:
        """See `Store.audit`."""
        return self._read_audit(self.inner.audit(self._audit(row)))

    def audits(self, namespace: str | None, run_id: str | None) -> list[Audit]:
        """See `Store.audits`. Of rows that are sealed the hash covers what is stored: `walk` has them like that."""
        return [self._read_audit(row) for row in self.inner.audits(namespace, run_id)]

    def list_audits(self, wanted: AuditFilter) -> list[Audit]:
        """See `Store.list_audits`."""
        return [self._read_audit(row) for row in self.inner.list_audits(wanted)]
