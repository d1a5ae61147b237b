"""Hands signals and approvals to a run's ledger row: kept, or refused to the sender with a reason and an audit row.

An approval is a signal whose value names the call that it allows. What a person was shown is compared with what waits,
so that nobody approves what has changed under their eyes; the worker that delivers compares again (`positions`). A
refusal is audited in the commit that refuses; what was never kept is audited by itself.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fencepost.core.approval import Answer, answer_in, digest_waited_for
from fencepost.core.errors import Misuse, NotPermitted, RunNotFound, VerbRefused
from fencepost.core.identity import canonical, check_name, digest_text
from fencepost.core.records import Audit, History, Run, Signal, Step
from fencepost.core.states import SignalState, StepState
from fencepost.effects.values import Door
from fencepost.runtime import audit
from fencepost.runtime.permits import require
from fencepost.runtime.taken import described, reads_itself, require_fit

if TYPE_CHECKING:
    from fencepost.runtime.deeds import Desk
    from fencepost.store.api import Store


def send(
    app: Desk, run_id: str, name: str, value: Any, *, id: str | None, sender: str, by: str | None = None,
    reason: str = "",
) -> Signal:  # fmt: skip
    """Send a plain signal; see `App.signal`."""
    if by is not None:
        _require(app, audit.SIGNAL, run_id, name, by)
    payload = Door(Any if value is None else type(value), where=f"signal {name}").encode(value)
    answer, who = answer_in(payload), sender if by is None else by
    if answer is not None and who.strip():
        # It may be taken for an approval, whose giver is the signal's sender: that takes the role by this door too.
        _require(app, answer.verb, run_id, name, who)
    signal = _signal(app, name, payload, id=id or secrets.token_hex(16), sender=by or sender)
    at_once = _at_once(app, run_id, signal, value) if by is None else None
    history = None if at_once is not None else app.store.heard_by(app.namespace, run_id, name, signal.id)
    # A signal's own row says who sent what and when; the chain is for what a person does by hand.
    says = None if by is None else reason or f"sent by hand: {name}"
    return keep(app, run_id, signal, verb=audit.SIGNAL, history=history, says=says, at_once=at_once)


def _at_once(app: Desk, run_id: str, signal: Signal, value: Any) -> Signal | None:
    """The signal, where it can be kept without a look at its waits: what it is says that they can take it.

    Not a mapping or a list: it mostly stands for a type of its own, and would have taken another trip in vain.
    """
    if isinstance(value, Mapping | list):
        return None
    takes = described(type(value))
    if takes is None or not reads_itself(type(value), signal.payload):
        return None
    return app.store.signal_at_once(app.namespace, run_id, signal, takes=takes)


def approve(
    app: Desk, run_id: str, name: str, *, by: str, approved: bool, comment: str, digest: str | None, id: str | None
) -> Signal:
    """Send a person's answer to the wait for an approval of that name; see `App.approve`."""
    verb = Answer(approved, "").verb
    _require(app, verb, run_id, name, by)
    history = app.store.heard_by(app.namespace, run_id, check_name(name, what="signal name"))
    waits = [] if history is None else waits_for_approval(history, name)
    waiting = {found: step for step in waits if (found := digest_waited_for(step)) is not None}
    try:
        chosen = _chosen(waiting, digest, by=by, ids={"run": run_id, "signal": name})
    except Misuse as refused:
        if history is None:
            raise _unknown(app, run_id, name, by, verb) from None
        blank = _signal(app, name, canonical(None), id="", sender=by)
        app.store.audit(audit.of_signal(history, blank, refused.message, app.store.now(), verb=verb))
        raise
    place = waiting[chosen].position if chosen in waiting else name
    once = digest_text(canonical([place, chosen, by]).encode())[:32]
    signal = _signal(app, name, Answer(approved, chosen, comment).as_text(), id=id or once, sender=by)
    return keep(app, run_id, signal, verb=verb, history=history, says=comment)


def waits_for_approval(history: History, name: str) -> list[Step]:
    """The open waits of that name that are for an approval, in the order in which they were opened."""
    return [
        step
        for step in history.steps
        if step.name == name and step.state is StepState.OPEN and digest_waited_for(step) is not None
    ]


def _chosen(waiting: dict[str, Step], digest: str | None, *, by: str, ids: dict[str, str]) -> str:
    """The digest of the call that the person means, compared with what waits."""
    if not by.strip():
        raise Misuse("an approval needs who gives it", hint="give by=", ids=ids)
    if digest is None:
        if not waiting:
            raise VerbRefused(
                f"nothing waits for an approval under the name {ids['signal']!r}",
                hint="`fencepost show` lists the waits; one that comes before its wait needs its digest",
                ids=ids,
            )
        if len(waiting) > 1:
            raise VerbRefused(
                f"{len(waiting)} calls wait for an approval under the name {ids['signal']!r}",
                hint=f"say which one by its digest: {', '.join(waiting)}",
                ids=ids,
            )
        return next(iter(waiting))
    if waiting and digest not in waiting:
        raise VerbRefused(
            f"what waits is not what was shown: it waits for {', '.join(one[:12] for one in waiting)}, "
            f"not for {digest[:12]}",
            hint="look again, then decide",
            ids=ids,
        )
    return digest


def _require(app: Desk, verb: str, run_id: str, name: str, by: str) -> None:
    """Refuse what the person has no role for, with its row."""
    try:
        require(app, verb, by)
    except NotPermitted as refused:
        _audit_refusal(app, verb, run_id, name, refused, by=by)
        raise


def _signal(app: Desk, name: str, payload: str, *, id: str, sender: str) -> Signal:
    return Signal(
        id=id,
        name=check_name(name, what="signal name"),
        payload=payload,
        state=SignalState.KEPT,
        sent_at=app.store.now(),
        sender=sender,
        fingerprint=digest_text(payload.encode()),
    )


def keep(
    app: Desk, run_id: str, signal: Signal, *, verb: str, history: History | None, says: str | None = None,
    at_once: Signal | None = None,
) -> Signal:  # fmt: skip
    """Store the signal; `says` is what a person's answer gives as its reason, whose acceptance is audited too.

    `at_once`: it is stored already, and this is how.
    """

    def audited(run: Run, stored: Signal) -> Audit | None:
        if stored.state is SignalState.REFUSED:
            return audit.of_signal(History(run), stored, stored.reason or "", app.store.now(), verb=verb)
        if says is None:
            return None
        return audit.of_signal(History(run), stored, says, app.store.now(), verb=verb, outcome="done")

    try:
        if history is not None:
            known = (history.run.workflow, history.run.workflow_version) in app.workflows
            require_fit(history, signal, by_type=known)
            at_once = None if says is not None else app.store.signal_at_once(app.namespace, run_id, signal)
        # What is refused, audited, or for a later turn takes another trip.
        kept = at_once or app.store.signal(app.namespace, run_id, signal, audited)
        if kept.fingerprint != signal.fingerprint or kept.name != signal.name:
            raise VerbRefused(  # noqa: TRY301 - audited below, as every refusal of what was not kept
                f"signal id {kept.id!r} came before with another name or value",
                ids={"run": run_id, "signal": kept.id},
            )
    except RunNotFound:
        raise _unknown(app, run_id, signal.name, signal.sender, verb) from None
    except VerbRefused as refused:
        found = history or app.store.heard_by(app.namespace, run_id, signal.name)
        assert found is not None, "only for a run that exists anything else is refused"
        app.store.audit(audit.of_signal(found, signal, refused.message, app.store.now(), verb=verb))
        raise
    if kept.state is SignalState.REFUSED:
        raise VerbRefused(f"signal {signal.name!r} is refused: {kept.reason}", ids={"run": run_id, "signal": kept.id})
    return kept


def _unknown(app: Desk, run_id: str, name: str, sender: str, verb: str) -> RunNotFound:
    """The refusal of what is meant for a run that does not exist, audited under the id that was given."""
    told = RunNotFound(
        f"no run has the id {run_id!r}",
        hint="check the id and the namespace; a signal is only kept for a run that was started",
        ids={"namespace": app.namespace, "run": run_id, "signal": name},
    )
    _audit_refusal(app, verb, run_id, name, told, by=sender)
    return told


def _audit_refusal(app: Desk, verb: str, run_id: str, name: str, refused: Misuse, *, by: str) -> None:
    row = audit.of_refusal(
        app.namespace, verb, run_id, by=by or audit.NOBODY, why=refused.message, now=app.store.now(), step=name
    )
    app.store.audit(row)


def audit_what_ends_have_refused(store: Store) -> None:
    """Append the audit rows of signals that were refused as their runs ended, of which their owners had not heard."""

    def audited(run: Run, refused: Signal) -> Audit:
        return audit.of_signal(History(run), refused, refused.reason or "", store.now())

    while store.audit_left(audited):
        pass
