"""The second person's part: a proposal is carried out by the verb's own function, or declined; nobody does both parts.

The proposal is closed in the commit in which the verb changes the run, so that it is carried out once or not at all,
whatever dies in between. The verb compares the row version that the first person saw. Making a proposal is `proposing`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from fencepost.core.errors import Misuse, NotPermitted, NotThere, VerbRefused
from fencepost.core.identity import canonical
from fencepost.core.permissions import VERBS
from fencepost.core.proposals import Closing, Proposal, ProposalState
from fencepost.core.records import Audit, Run
from fencepost.runtime.deeds import Desk
from fencepost.runtime.permits import refuse, require, require_a_word
from fencepost.runtime.repertoire import ON_RUNS

if TYPE_CHECKING:
    from fencepost.runtime.workflow import Workflow
    from fencepost.store.api import Store

CONFIRM, DECLINE = "confirm", "decline"


class Seconded:
    """Stands in for an app while a second person's verb is carried out: what it does closes the proposal."""

    def __init__(self, app: Desk, proposal: Proposal) -> None:
        self.store: Store = app.store
        self.workflows: Mapping[tuple[str, int], Workflow[..., Any]] = app.workflows
        self.namespace = app.namespace
        self.policy = app.policy
        self.login = app.login
        self.seconded: Proposal | None = proposal


def confirm(app: Desk, no: int, *, by: str, reason: str) -> Run:
    """Carry out what another person proposed, as if both did it; the run as it is then.

    Raises:
        VerbRefused: it is closed, or over, or one's own; or the verb is refused, such as for a run that has changed.
        NotPermitted: one of the two lacks the verb's role.
    """
    found = _found(app, no, CONFIRM, by=by, reason=reason)
    with_both = f"{found.reason} (proposed by {found.proposed_by}; {reason})"
    _or_refuse(app, found, CONFIRM, lambda: _require_second(app, found, by), by=by, reason=reason)
    run = app.store.load(found.run).run
    arguments = json.loads(found.arguments)
    return ON_RUNS[found.verb](Seconded(app, found), run, by=by, reason=with_both, version=found.seen, **arguments)


def decline(app: Desk, no: int, *, by: str, reason: str) -> Proposal:
    """Close a proposal without carrying it out; also one's own. Raises `VerbRefused` where it is closed, or over."""
    found = _found(app, no, DECLINE, by=by, reason=reason)
    said = canonical({"proposal": no, "verb": found.verb, "proposed by": found.proposed_by})
    row = Audit(
        app.store.now(), by, DECLINE, found.run_id, "done", reason, canonical({"proposal": no}), said,
        namespace=app.namespace,
    )  # fmt: skip
    if not app.store.decline(Closing(no, by), row):
        _or_refuse(app, found, DECLINE, lambda: _require_open(app, no), by=by, reason=reason)
    return _of(app, no) or found


def _found(app: Desk, no: int, verb: str, *, by: str, reason: str) -> Proposal:
    """The proposal, asked for by somebody who may. Raises `Misuse` and leaves a row otherwise."""
    found = _of(app, no)

    def asked() -> None:
        require_a_word(verb, by, reason, ids={"proposal": str(no)})
        if found is None:
            raise NotThere(
                f"there is no proposal {no}", hint="`fencepost proposals` lists them", ids={"proposal": str(no)}
            )
        require(app, verb, by)

    _or_refuse(app, found, verb, asked, by=by, reason=reason)
    assert found is not None, "refused just now otherwise"
    return found


def _require_second(app: Desk, found: Proposal, by: str) -> None:
    _require_open(app, found.no)
    if by == found.proposed_by:
        raise VerbRefused(
            f"{by!r} has proposed it, and cannot be the second person",
            hint="ask somebody else, or decline it",
            ids={"run": found.run_id, "proposal": str(found.no)},
        )
    if found.is_purged():
        raise VerbRefused(
            f"run {found.run_id!r} was purged, and what was proposed for it as well",
            hint="decline it",
            ids={"run": found.run_id, "proposal": str(found.no)},
        )
    if not found.is_whole():
        raise VerbRefused(
            "the proposal's row is not as it was written", hint="decline it", ids={"proposal": str(found.no)}
        )
    policy = app.policy()
    lacks = None if policy is None else policy.lacks(found.proposed_by, found.verb)
    if lacks is not None:
        raise NotPermitted(
            f"{found.proposed_by!r}, who proposed it, lacks the role {lacks} for {found.verb} by now",
            hint="somebody who has it must propose it anew",
            ids={"run": found.run_id, "proposal": str(found.no)},
        )


def _require_open(app: Desk, no: int) -> None:
    found = _of(app, no)
    assert found is not None, "nothing removes a proposal"
    state = found.stands_at(app.store.now())
    if state is not ProposalState.OPEN:
        by = f" by {found.closed_by}" if found.closed_by else ""
        raise VerbRefused(
            f"proposal {no} is {state}{by}",
            hint="propose it anew if it is still wanted",
            ids={"run": found.run_id, "proposal": str(no)},
        )


def _of(app: Desk, no: int) -> Proposal | None:
    return app.store.proposal(app.namespace, no)


def _or_refuse(app: Desk, found: Proposal | None, verb: str, ask: Callable[[], None], *, by: str, reason: str) -> None:
    """Ask, and leave the row of a refusal."""
    assert verb in VERBS, "it needs a role"
    try:
        ask()
    except Misuse as refused:
        about = "" if found is None else found.run_id
        refuse(app, verb, about, by=by, reason=reason, why=refused.message)
        raise
