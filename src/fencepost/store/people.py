"""The store's verbs about people: who may do what, and the proposals that wait for a second person.

What is proposed is closed in the commit of the verb that it was made for (`verbs.decide`), so that a crash leaves both
or neither. Who may do what, and when two persons are needed, is decided in `core.permissions`.
"""

from __future__ import annotations

from collections.abc import Callable

from fencepost.core.proposals import Closing, Proposal, ProposalState
from fencepost.core.records import Audit
from fencepost.store import rows
from fencepost.store.queries import Row
from fencepost.store.verbs import Verbs, whole


class PeopleVerbs(Verbs):
    """What both stores do alike with people."""

    @whole
    def policy(self, namespace: str) -> str | None:
        """See `Store.policy`."""
        found = self._read("permission_of", namespace=namespace)
        return str(found[0][0]) if found else None

    @whole
    def policies(self) -> dict[str, str]:
        """See `Store.policies`."""
        return dict(self._read("all_permissions"))

    @whole
    def declare_policy(self, namespace: str, policy: str, audit: Callable[[str | None, int], Audit]) -> None:
        """See `Store.declare_policy`."""
        if self.policy(namespace) == policy:
            return
        now = self.now()
        with self._writing() as work:
            # The chain's lock is that of the policy too: what is read here is what the row says was before.
            work.lock("lock_audit")
            found = work.execute("permission_of", namespace=namespace)
            before = str(found[0][0]) if found else None
            if before != policy:
                work.change("declare_permission", namespace=namespace, policy=policy, now=now)
                self._append(work, audit(before, now))

    @whole
    def propose(self, new: Proposal, audit: Callable[[Proposal], Audit]) -> Proposal:
        """See `Store.propose`."""
        values = {name: getattr(new, name) for name in self.queries["add_proposal"].parameters}
        with self._writing() as work:
            found: list[Row] = []
            is_new = False
            while not found:  # the same one that was open may be closed before it is read
                work.change("expire_proposals", run=new.run, now=new.proposed_at)
                is_new = work.change("add_proposal", **values) == 1
                found = work.execute("open_proposal", run=new.run, digest=new.digest)
            kept = rows.proposal(found[0])
            if is_new:
                self._append(work, audit(kept))
            return kept

    @whole
    def proposal(self, namespace: str, no: int) -> Proposal | None:
        """See `Store.proposal`."""
        found = self._read("find_proposal", namespace=namespace, no=no)
        return rows.proposal(found[0]) if found else None

    @whole
    def proposals(self, namespace: str, *, every: bool, limit: int) -> list[Proposal]:
        """See `Store.proposals`."""
        found = self._read("list_proposals", namespace=namespace, every=int(every), now=self.now(), limit=limit)
        return [rows.proposal(row) for row in found]

    @whole
    def decline(self, closing: Closing, audit: Audit) -> bool:
        """See `Store.decline`."""
        with self._writing() as work:
            declined = ProposalState.DECLINED.value
            if not work.change("close_proposal", no=closing.no, state=declined, by=closing.by, now=self.now()):
                return False
            self._append(work, audit)
            return True
