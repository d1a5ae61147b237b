"""Keeps what a first person asked for, where the verb takes two: one row, with the run as that person saw it.

The verb has been tried over what the ledger holds before it is proposed, so that nobody is asked to confirm what does
not apply. When two persons are needed is decided in `core.permissions`; the second person's part is `confirming`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fencepost.core.duration import spelled
from fencepost.core.errors import SecondPersonNeeded
from fencepost.core.identity import canonical
from fencepost.core.proposals import Proposal, digest
from fencepost.core.records import Audit, History
from fencepost.runtime import audit

if TYPE_CHECKING:
    from fencepost.store.api import Store

PROPOSE = "propose"


def propose(
    store: Store, history: History, verb: str, *, why: str, arguments: Mapping[str, Any], by: str, reason: str,
    lasts: int,
) -> SecondPersonNeeded:  # fmt: skip
    """Keep a verb for a second person, and say so: `why` two are needed, `lasts` (microseconds) how long it can be.

    Asked for once more, by whomever, the same verb on the same run as it was then is the same proposal.
    """
    run, now = history.run, store.now()
    text = canonical(dict(arguments))
    new = Proposal(
        0, run.no, run.namespace, run.id, verb, text, digest(run.id, verb, text, run.version), run.version, reason, by,
        now, now + lasts,
    )  # fmt: skip
    kept = store.propose(new, lambda stored: _row(history, stored))
    if kept.proposed_by == by:
        hint = f"within {spelled(lasts)} somebody else: fencepost confirm {kept.no}"
    else:
        hint = f"{kept.proposed_by} has proposed it already; confirm it: fencepost confirm {kept.no}"
    return SecondPersonNeeded(
        f"two persons are needed for {why}: it is kept as proposal {kept.no}",
        hint=hint,
        ids={"run": run.id, "proposal": str(kept.no)},
    )


def _row(history: History, kept: Proposal) -> Audit:
    same = audit.summary(history.run)
    said = {"proposal": kept.no, "verb": kept.verb, "digest": kept.digest, "run version": kept.seen}
    return audit.row(
        history, verb=PROPOSE, by=kept.proposed_by, reason=kept.reason, now=kept.proposed_at, before=same,
        after=canonical(said),
    )  # fmt: skip
