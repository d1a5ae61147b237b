"""After the ledger was restored from a backup, or fell back to a replica that lagged: a new epoch, and its end.

Beginning one voids every lease, generation and token of before, and from then on each first dispatch is reconciled by
its rung first, since it may have been made in the time that the ledger has forgotten (`protocol` D2). Ending it is a
person's word that nothing more turns up from that time. What is supposed of an operation is `effects.entry`'s matter.
"""

from __future__ import annotations

from fencepost.core.epoch import Epoch
from fencepost.core.errors import VerbRefused
from fencepost.core.identity import canonical
from fencepost.core.records import Audit
from fencepost.runtime.permits import Asked, ask, refuse

RESTORED = "restored"
CLOSED = "close lost time"


def restored(app: Asked, *, by: str, reason: str) -> Epoch:
    """Begin a new epoch; audited. Call it once after each restore, before or after workers have started."""
    ask(app, RESTORED, "", by=by, reason=reason)

    def audit(epoch: Epoch) -> Audit:
        return _audit(app, epoch, RESTORED, by=by, reason=reason, at=epoch.began_at)

    return app.store.begin_epoch(audit)


def close_lost_time(app: Asked, *, by: str, reason: str) -> Epoch:
    """Say that nothing more will turn up from the time lost with the last restore; audited.

    Raises:
        VerbRefused: the ledger was never restored, or its lost time is closed already.
    """
    ask(app, CLOSED, "", by=by, reason=reason)

    def audit(epoch: Epoch) -> Audit:
        assert epoch.closed_at is not None, "it was just closed"
        return _audit(app, epoch, CLOSED, by=by, reason=reason, at=epoch.closed_at)

    closed = app.store.close_lost_span(audit)
    if closed is None:
        none = "there is no lost time to close"
        refuse(app, CLOSED, "", by=by, reason=reason, why=none)
        raise VerbRefused(none, hint="the ledger was never restored, or somebody has closed it already")
    return closed


def _audit(app: Asked, epoch: Epoch, verb: str, *, by: str, reason: str, at: int) -> Audit:
    lost = canonical({"epoch": epoch.number, "lost_from": epoch.lost_from, "began_at": epoch.began_at})
    return Audit(
        at=at, actor=by, verb=verb, run_id="", outcome="done", reason=reason, before="{}", after=lost,
        namespace=app.namespace,
    )  # fmt: skip
