"""What the ledger holds of one run, as one JSON document: what `show --json` prints and `timeline` lays out.

Keys are stable: new ones may come, none changes its meaning. Instants are ISO 8601 in UTC; payloads are JSON values;
states are the values of `core.states`, each with its `label`. Reading the ledger is the store's part, which verbs
apply the runtime's.

The document: `run` (who and what, `state`, `owner`, `turn`, `parent`, `carried`, `progress`, `result`, `error`, `hold`,
`held_at`, `cancel`), `waits_for` (texts), `verbs` (names), `children` (the runs that it has started), `cancellation`
(the layers of its cancel, or null), `steps` (in the order of their beginning; an effect has a `key`, `attempts`,
`observations` and the `approval` that it has used, a wait for an approval the digest that it `allows`), `compensation`
(a report, or null), `signals`, and `audit`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from fencepost.console.cancelled import cancellation
from fencepost.console.printable import compact, instant
from fencepost.core.approval import digest_waited_for
from fencepost.core.containment import Containment
from fencepost.core.decisions import decisions
from fencepost.core.queue import QueueStanding
from fencepost.core.records import Attempt, Audit, History, Lease, Observation, Operation, Run, Signal, Step
from fencepost.core.standin import clear_of, missing
from fencepost.core.states import FINAL_RUN_STATES, LeaseState, OperationState, RunState, SignalState, StepState, label
from fencepost.runtime.applicable import goes_back_alone, goes_otherwise, no_new_decision_of, verbs_for
from fencepost.runtime.ends import other_run
from fencepost.runtime.positions import progress_of
from fencepost.runtime.replay import OPERATORS

Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Told:
    """How the story is told: which leases are known, and whether payloads are left out."""

    leases: dict[str, Lease]
    redact: bool = False

    def payload(self, text: str | None) -> Any:
        """A stored JSON text as a value, or how long it is."""
        if text is None:
            return None
        if self.redact:
            return f"redacted ({len(text)} characters)"
        return _value(text)

    def owner(self, lease: str | None, generation: int | None) -> Document | None:
        """The worker life behind a lease; host and pid are null when its row is not at hand any more."""
        if not lease:
            return None
        found = self.leases.get(lease)
        return {
            "lease": lease,
            "generation": generation,
            "host": None if found is None else found.host,
            "pid": None if found is None else found.pid,
            "lease_state": None if found is None else found.state.value,
            "lease_expires_at": None if found is None else instant(found.expires_at),
        }


class Family(NamedTuple):
    """Who belongs to a run: the id of its parent, if it has one, and its children; `now` is the store's clock."""

    parent: str | None
    children: Sequence[Run]
    now: int = 0


def is_carried(run: Run, leases: Iterable[Lease], now: int) -> bool | None:
    """Whether a live worker knows the workflow and version of a run that goes on by itself; None: no worker lives."""
    live = [lease for lease in leases if lease.state is LeaseState.LIVE and lease.expires_at >= now]
    if not live or run.state in FINAL_RUN_STATES or run.state is RunState.HELD:
        return None
    return any([run.namespace, run.workflow, run.workflow_version] in json.loads(lease.carries) for lease in live)


def story(
    history: History,
    leases: Iterable[Lease],
    audits: Iterable[Audit],
    *,
    family: Family | None = None,
    ahead: tuple[str, str] | None = None,
    contained: Sequence[Containment] = (),
    queue: QueueStanding | None = None,
    redact: bool = False,
) -> Document:
    """The document of one run. With `redact`, requests, results, evidence and signals' values are left out.

    `ahead` is the id and state of the run that stands before it in the line of its resource, `contained` what is
    contained now, `queue` how its queue stands.
    """
    told = Told({lease.id: lease for lease in leases}, redact)
    family = family or Family(None, history.children)
    recorded = (step for step in history.steps if step.kind != "progress")
    steps = [(step.opened_at, step.position, _step(step, told)) for step in recorded]
    otherwise, alone = goes_otherwise(history), goes_back_alone(history)
    for one in history.operations:
        applies = {"goes_otherwise": one.position in otherwise, "goes_back_alone": one.position in alone}
        steps.append((one.reserved_at, one.position, _operation(one, told) | applies))
    return {
        "run": _run(history, told, family),
        "waits_for": waits_for(_unsaid(history) if redact else history, ahead, contained, queue),
        "verbs": verbs_for(history),
        "decisions": [one.position for one in decisions(history) if no_new_decision_of(history, one) is None],
        "children": [_child(child) for child in family.children],
        "cancellation": cancellation(history, told),
        "steps": [document for _, _, document in sorted(steps, key=lambda one: one[:2])],
        "compensation": compensation_of(history),
        "signals": [_signal(signal, told, history.steps) for signal in history.signals],
        "audit": [_audit(row) for row in audits],
    }


def _unsaid(history: History) -> History:
    """A history without what jobs say of themselves."""
    return replace(history, steps=[replace(step, progress=None) for step in history.steps])


def _child(child: Run) -> Document:
    hold = _value(child.hold)
    return {
        "id": child.id,
        "workflow": child.workflow,
        "workflow_version": child.workflow_version,
        "attached_at": child.parent_step,
        "state": child.state.value,
        "label": label(child.state),
        "hold": hold,
        "created_at": instant(child.created_at),
        "ended_at": instant(child.ended_at),
    }


def progress_of_run(history: History) -> Document | None:
    """What the run has said last of how far it is, and when; None if nothing."""
    step = next((step for step in history.steps if step.kind == "progress"), None)
    if step is None:
        return None
    value, at = progress_of(step)
    return {"value": _value(value), "at": instant(at)}


def _run(history: History, told: Told, family: Family) -> Document:
    run = history.run
    progress = progress_of_run(history)
    if progress is not None and told.redact:
        progress["value"] = "redacted"
    return {
        "id": run.id,
        "namespace": run.namespace,
        "workflow": run.workflow,
        "workflow_version": run.workflow_version,
        "on_behalf_of": _shown(run.principal),
        "resource": run.resource,
        "queue": run.queue,
        "queue_key": run.queue_key,
        "priority": run.priority,
        "state": run.state.value,
        "label": label(run.state),
        "generation": run.generation,
        "version": run.version,
        "owner": told.owner(run.lease, run.generation),
        "turn": run.turn,
        "parent": family.parent,
        "carried": is_carried(run, told.leases.values(), family.now),
        "progress": progress,
        "input": told.payload(run.input),
        "result": told.payload(run.result),
        "error": _error(run.error),
        "hold": _value(run.hold),
        "held_at": held_at(history),
        "cancel": _value(run.cancel),
        "created_at": instant(run.created_at),
        "changed_at": instant(run.changed_at),
        "ended_at": instant(run.ended_at),
        "wake_at": instant(run.wake_at),
    }


def _step(step: Step, told: Told) -> Document:
    return {
        "position": step.position,
        "kind": step.kind,
        "name": step.name,
        "version": step.version,
        "state": step.state.value,
        "label": label(step.state),
        "request": told.payload(step.request),
        "detail": told.payload(step.detail),
        "allows": digest_waited_for(step),
        "result": told.payload(step.result),
        "error": _error(step.error),
        "began_at": instant(step.opened_at),
        "due_at": instant(step.due_at),
        "ended_at": instant(step.closed_at),
        "delivered": step.delivered,
    }


def _operation(operation: Operation, told: Told) -> Document:
    return {
        "position": operation.position,
        "kind": "effect",
        "name": operation.step,
        "item": operation.item,
        "effect": operation.effect,
        "version": operation.contract_version,
        "state": operation.state.value,
        "label": label(operation.state),
        "conflict": operation.conflict,
        "compensates": operation.compensates,
        "after": [step if item is None else f"{step}[{item}]" for step, item in operation.after],
        "key": operation.key,
        "key_scheme": operation.key_scheme,
        "scope": operation.scope,
        "request": told.payload(operation.request),
        "fingerprint": _shown(operation.fingerprint),
        "policy": _value(operation.policy),
        "approval": operation.approval,
        "reference": operation.reference,
        "result": told.payload(operation.result),
        "error": _error(operation.error),
        "lookups": operation.lookups,
        "began_at": instant(operation.reserved_at),
        "first_dispatched_at": instant(operation.first_dispatched_at),
        "not_before": instant(operation.not_before),
        "changed_at": instant(operation.changed_at),
        "delivered": operation.delivered,
        "attempts": [_attempt(attempt, operation, told) for attempt in operation.attempts],
        "observations": [_observation(seen, told) for seen in operation.observations],
    }


def _attempt(attempt: Attempt, operation: Operation, told: Told) -> Document:
    return {
        "number": attempt.number,
        "outcome": attempt.outcome.value,
        "label": label(attempt.outcome),
        "evidence": told.payload(attempt.evidence),
        "sends": attempt.sends if attempt.sends is not None else _sends_seen(attempt, operation),
        "token": attempt.token,
        "owner": told.owner(attempt.lease, attempt.generation),
        "dispatched_at": instant(attempt.dispatched_at),
        "send_by": instant(attempt.send_by),
        "span_ends_at": instant(attempt.span_ends_at),
        "settled_at": instant(attempt.settled_at),
    }


def _sends_seen(attempt: Attempt, operation: Operation) -> int | None:
    """How often an attempt that nothing has settled was sent, where what it brought says so."""
    brought = [_value(seen.evidence) for seen in operation.observations if seen.attempt == attempt.number]
    return max((one["sends"] for one in brought if isinstance(one, dict) and "sends" in one), default=None)


def _observation(seen: Observation, told: Told) -> Document:
    return {
        "kind": seen.kind,
        "says": seen.says,
        "attempt": seen.attempt,
        "evidence": told.payload(seen.evidence),
        "by_current_owner": seen.current,
        "owner": told.owner(seen.lease, seen.generation),
        "began_at": instant(seen.began_at),
        "seen_at": instant(seen.seen_at),
    }


def _is_unclaimed(signal: Signal, steps: Iterable[Step]) -> bool:
    """Whether it came after the last wait that could take it so far; only a name that is waited for again keeps it."""
    waits = [step for step in steps if step.kind == "wait" and step.name == signal.name]
    return signal.state is SignalState.KEPT and bool(waits) and all(step.state is not StepState.OPEN for step in waits)


def _signal(signal: Signal, told: Told, steps: Iterable[Step]) -> Document:
    return {
        "id": signal.id,
        "name": signal.name,
        "value": told.payload(signal.payload),
        "state": signal.state.value,
        "label": label(signal.state),
        "reason": _shown(signal.reason),
        "sender": signal.sender,
        "unclaimed": _is_unclaimed(signal, steps),
        "position": signal.position,
        "sent_at": instant(signal.sent_at),
        "closed_at": instant(signal.closed_at),
    }


def _audit(row: Audit) -> Document:
    return {
        "number": row.no,
        "at": instant(row.at),
        "actor": row.actor,
        "verb": row.verb,
        "step": row.step,
        "item": row.item,
        "outcome": row.outcome,
        "reason": _shown(row.reason),
        "before": _value(row.before),
        "after": _value(row.after),
        "hash": row.hash,
    }


# -- read out of the rows ---------------------------------------------------------------------------------------------


def _value(text: str | None) -> Any:
    """A stored JSON text as a value; of what is no JSON the text itself, of what is not here why it is not."""
    if text is None:
        return None
    why = missing(text)
    if why is not None:
        return {**clear_of(text), "not here": why} if clear_of(text) else why
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _shown(text: str | None) -> str | None:
    """A stored text, or why it is not here."""
    return missing(text) or text


def _error(text: str | None) -> Document | None:
    """Class and message of a stored error; the traceback stays in the ledger's own text."""
    found = _value(text)
    if isinstance(found, dict) and "class" in found:
        return {"class": found["class"], "message": found.get("message", found.get("not here", ""))}
    return None if found is None else {"class": "", "message": str(found)}


def compensation_of(history: History) -> Document | None:
    """The report of the last compensation that ended; None when there is none."""
    done = [
        step
        for step in history.steps
        if step.kind == "compensate" and step.state is StepState.DONE and step.result is not None
    ]
    found = _value(max(done, key=lambda step: step.closed_at or 0).result) if done else None
    return found if isinstance(found, dict) else None


def held_at(history: History) -> str | None:
    """Where a held run stands, for people: the operation or the step; None for a run without a hold."""
    hold = _value(history.run.hold)
    if not isinstance(hold, dict):
        return None
    step, item = str(hold.get("step") or "the run"), hold.get("item")
    if step.startswith(OPERATORS):
        unsettled = [one.position for one in history.operations if one.state is OperationState.UNKNOWN or one.conflict]
        return ", ".join(unsettled) or "the compensation that an operator asked for"
    return step if item is None else f"{step}, item {item}"


def waits_for(
    history: History,
    ahead: tuple[str, str] | None = None,
    contained: Sequence[Containment] = (),
    queue: QueueStanding | None = None,
) -> list[str]:
    """What has to happen before the run goes on, in words; empty for one that has ended."""
    run = history.run
    if run.state in FINAL_RUN_STATES:
        return []
    found = ["a person"] if run.state is RunState.HELD else []
    found += kept_back(run, contained)
    found += awaited(history)
    if ahead is not None and run.state is RunState.READY:
        if ahead[1] == RunState.TERMINATED:
            why = "was ended by hand while an operation of it is unknown, which keeps"
            return [f"somebody to settle run {ahead[0]!r}: it {why} the line of {run.resource!r}"]
        return [f"the end of run {ahead[0]!r}, which is {ahead[1]} and comes first for {run.resource!r}"]
    owned = run.lease is not None
    if not owned and run.state is not RunState.HELD and run.wake_at is not None:
        turn = None if queue is None else queue.why_not(run.state)
        found += [f"its turn: {turn}"] if turn is not None else []
        found.append(f"a worker, from {instant(run.wake_at)} on")
    return found


def kept_back(run: Run, contained: Iterable[Containment]) -> list[str]:
    """What is contained and keeps a run from going on, in words."""
    return [f"contained: {one.text}" for one in contained if run.behind is not None and one.mark in run.behind]


def awaited(history: History) -> list[str]:
    """The signals, times, children and targets among what a run waits for."""
    ids = {child.parent_step: f"run {child.id}, {child.state}" for child in history.children}
    found = [
        _awaited(step) + (f" ({ids[step.position]})" if step.position in ids else "")
        for step in history.steps
        if step.state is StepState.OPEN and step.kind in _AWAITED
    ]
    found += [
        f"{one.position}: not before {instant(one.not_before)}"
        for one in history.operations
        if one.not_before is not None
        and one.state in (OperationState.RESERVED, OperationState.UNKNOWN)
        and history.run.state is not RunState.HELD
    ]
    return found


_AWAITED: dict[str, Callable[[Step], str]] = {
    "wait": lambda step: _wait(step) + (f", until {instant(step.due_at)}" if step.due_at else ""),
    "sleep": lambda step: f"the time {instant(step.due_at)}",
    "child": lambda step: f"child {step.name!r}",
    "model": lambda step: f"model {step.name!r}" + (f", not before {instant(step.due_at)}" if step.due_at else ""),
    "read": lambda step: f"read {step.name!r}" + (f", not before {instant(step.due_at)}" if step.due_at else ""),
}


def _awaited(step: Step) -> str:
    return _AWAITED[step.kind](step)


def _wait(step: Step) -> str:
    detail, other = json.loads(step.detail or "{}"), other_run(step)
    if other is not None:
        return f"the end of run {other!r}"
    if detail.get("job") is not None:
        heard = "" if step.beaten_at is None else f", heard of last at {instant(step.beaten_at)}"
        said = "" if step.progress is None else f" ({compact(_value(step.progress))})"
        return f"the report {step.name!r} on a job of {detail['job']}{heard}{said}"
    if digest_waited_for(step) is None:
        return f"signal {step.name!r}"
    call = detail.get("call") or {}
    item = "" if call.get("item") is None else f", item {call['item']}"
    return f"approval {step.name!r} of {call.get('step')}{item}"
