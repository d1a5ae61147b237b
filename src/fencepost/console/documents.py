"""The documents of what is listed, one for each row: the same for `--json` on the command line and for the HTTP API.

Keys are stable: new ones may come, none changes its meaning. Instants are ISO 8601 in UTC. A run with its steps is
`story`'s matter; which rows there are is the store's.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from fencepost.console.printable import instant
from fencepost.core.duration import spelled
from fencepost.core.schedule import note_of
from fencepost.core.states import FINAL_RUN_STATES, RunState, label

if TYPE_CHECKING:
    from fencepost.core.accounts import Account, Invitation
    from fencepost.core.api_tokens import ApiToken
    from fencepost.core.bulk import Bulk, BulkRun
    from fencepost.core.containment import Containment
    from fencepost.core.proposals import Proposal
    from fencepost.core.queue import QueueStanding
    from fencepost.core.records import Audit, Run
    from fencepost.core.schedule import Plan
    from fencepost.core.trace import Trace, TraceSpan
    from fencepost.runtime.alerting import Measurement
    from fencepost.runtime.checking import Checked
    from fencepost.runtime.rehearsal import Rehearsal
    from fencepost.store.chain import Verdict

Document = dict[str, Any]


def run_row(run: Run) -> Document:
    """A run as lists show it."""
    return {
        "id": run.id,
        "workflow": run.workflow,
        "workflow_version": run.workflow_version,
        "state": run.state.value,
        "label": label(run.state),
        "generation": run.generation,
        "version": run.version,
        "created_at": instant(run.created_at),
        "changed_at": instant(run.changed_at),
        "ended_at": instant(run.ended_at),
        "wake_at": instant(run.wake_at),
        "hold": None if run.hold is None else json.loads(run.hold),
        "turn": run.turn,
        "parent": run.parent is not None,
    }


def outcome(run: Run) -> Document:
    """How a run has ended, if it has; of its error without where it was raised."""
    error = None if run.error is None else json.loads(run.error)
    if isinstance(error, dict):
        error.pop("traceback", None)
    return {
        "run": run_row(run),
        "over": run.state in FINAL_RUN_STATES and run.state is not RunState.CONTINUED,
        "result": None if run.result is None else {"value": json.loads(run.result)},
        "error": error,
        "cancelled": run.cancel is not None,
    }


def rehearsed_document(run: Run, to: int, came: Rehearsal) -> Document:
    """What a replay against another version of its workflow came to, and why the run may not be pinned to it anyway."""
    from fencepost.runtime.migrating import barred

    barrier = barred(run, to)
    return {
        "run": run.id,
        "from": run.workflow_version,
        "to": to,
        "fits": came.fits,
        "difference": None if came.difference is None else came.difference.message,
        "refused": None if barrier is None else barrier.message,
        "delivered": came.delivered,
        "waits_for": list(came.waits_for),
    }


def bulk_row(job: Bulk) -> Document:
    """A job on many runs: who began it, why, and how far it is."""
    return {
        "no": job.no,
        "verb": job.verb,
        "arguments": json.loads(job.arguments),
        "actor": job.actor,
        "reason": job.reason,
        "state": job.state.value,
        "started_at": instant(job.started_at),
        "closed_at": instant(job.closed_at),
        "runs": job.runs,
        "done": job.done,
        "refused": job.refused,
        "left": job.left,
    }


def bulk_run_row(one: BulkRun) -> Document:
    """One run of a job: as it was seen, as it is now, and what became of it."""
    return {
        "run": one.run.id,
        "version": one.seen,
        "was": one.was,
        "is": one.run.state.value,
        "outcome": None if one.outcome is None else one.outcome.value,
        "refused": one.says,
    }


def trace_document(trace: Trace) -> Document:
    """A run's trace: its id, and every span with its place in the tree."""
    return {
        "trace": trace.id,
        "run": trace.run_id,
        "namespace": trace.namespace,
        "spans": [_span(one) for one in trace.spans],
    }


def _span(one: TraceSpan) -> Document:
    said = asdict(one)
    del said["settled_at"]
    return said | {"began_at": instant(one.began_at), "ended_at": instant(one.ended_at)}


def alert_row(one: Measurement) -> Document:
    """An alert as it is measured now; time is in microseconds."""
    return {
        "name": one.name,
        "severity": one.alert.severity.value,
        "fires": one.fires,
        "value": one.value,
        "threshold": one.threshold,
        "unit": one.alert.unit.value,
        "says": one.says,
        "measures": one.alert.measures,
        "runbook": page_of(one.name),
    }


def page_of(name: str) -> str:
    """The runbook's page of an alert."""
    return f"alert-{name.replace(' ', '-')}.md"


def audit_row(one: Audit) -> Document:
    """Who did what to which run, and why."""
    return {
        "no": one.no,
        "at": instant(one.at),
        "actor": one.actor,
        "verb": one.verb,
        "run": one.run_id,
        "step": one.step,
        "item": one.item,
        "outcome": one.outcome,
        "reason": one.reason,
        "before": json.loads(one.before),
        "after": json.loads(one.after),
        "hash": one.hash,
    }


def queue_row(one: QueueStanding, due: int, waiting: int) -> Document:
    """A queue with its limits and how full it is: so many runs are `due`, so many `waiting` for something else."""
    return {
        "name": one.name,
        "concurrency": one.concurrency,
        "per_key": one.per_key,
        "rate": one.rate,
        "rate_within": None if one.rate_within is None else spelled(one.rate_within),
        "in_work": one.owned,
        "due": due,
        "waiting": waiting,
        "paused_at": instant(one.paused_at),
        "paused_by": one.paused_by,
        "paused_because": one.paused_because,
        "version": one.version,
    }


def schedule_row(plan: Plan, *, works: bool) -> Document:
    """A schedule; `works` says whether any worker lives."""
    definition = plan.definition
    return {
        "name": plan.name,
        "formerly": plan.formerly,
        "workflow": definition.workflow,
        "workflow_version": definition.workflow_version,
        "cron": definition.cron,
        "zone": definition.zone,
        "overlap": definition.overlap,
        "catch_up": definition.catch_up,
        "catch_up_within": spelled(definition.catch_up_within),
        "state": schedule_state(plan, works=works),
        "workers": plan.carriers,
        "next_at": instant(plan.next_at),
        "waits": plan.waits,
        "last_at": instant(plan.last_at),
        "last_run": plan.last_run_id,
        "last_run_state": None if plan.last_run_state is None else plan.last_run_state.value,
        "passed": plan.passed,
        "note": note_of(plan) or None,
        "version": plan.version,
    }


def schedule_state(plan: Plan, *, works: bool) -> str:
    """How a schedule stands: `active`, `paused`, `orphaned`, or `no worker` while none lives at all."""
    if plan.paused_at is not None:
        return "paused"
    if plan.is_orphaned:
        return "orphaned" if works else "no worker"
    return "active"


def proposal_row(one: Proposal, now: int) -> Document:
    """What one person has asked for and a second one has to confirm; `now` is the store's clock."""
    return {
        "proposal": one.no,
        "run": one.run_id,
        "verb": one.verb,
        "arguments": json.loads(one.arguments),
        "version": one.seen,
        "reason": one.reason,
        "proposed_by": one.proposed_by,
        "proposed_at": instant(one.proposed_at),
        "expires_at": instant(one.expires_at),
        "state": one.stands_at(now).value,
        "closed_by": one.closed_by,
        "closed_at": instant(one.closed_at),
    }


def containment_row(one: Containment) -> Document:
    """What nothing new is sent toward."""
    return {
        "kind": one.kind.value,
        "name": one.name,
        "by": one.actor,
        "reason": one.reason,
        "at": instant(one.at),
        "probe_at": instant(one.probe_at),
        "probe_run": one.probe_run,
    }


def token_row(one: ApiToken, now: int) -> Document:
    """What is known of an API token, without the token."""
    return {
        "number": one.no,
        "name": one.person,
        "roles": one.scopes,
        "state": one.stands_at(now).value,
        "made_by": one.made_by,
        "made_at": instant(one.made_at),
        "expires_at": instant(one.expires_at),
        "revoked_by": one.revoked_by,
        "revoked_at": instant(one.revoked_at),
    }


def account_row(one: Account) -> Document:
    """Somebody who comes to the console with a password, without it."""
    return {"name": one.person, "roles": one.scopes, "changed_at": instant(one.changed_at)}


def invitation_row(one: Invitation) -> Document:
    """What is known of a sign-in link, without what makes it one."""
    return {"name": one.person, "roles": json.loads(one.roles), "expires_at": instant(one.expires_at)}


def checked_document(checked: Checked) -> Document:
    """What came of looking for contradictions, with a sentence for each rule that is broken."""
    from fencepost.runtime.checking import SENTENCES

    broken = dict.fromkeys(one.rule for one in checked.found)
    return {
        "runs": checked.runs,
        "operations": checked.operations,
        "audits": checked.audits,
        "contradictions": checked.count,
        "found": [asdict(one) for one in checked.found],
        "rules": {name: SENTENCES[name] for name in broken},
    }


def verdict_document(verdict: Verdict) -> Document:
    """Whether the audit is as it was written: `intact`, `broken`, or `unanchored`: intact as far as can be told."""
    broken = verdict.broken
    said = None
    if broken is not None:
        said = {name: getattr(broken, name) for name in ("at", "how", "says", "expected", "found")}
    return {
        "answer": "broken" if broken else "intact" if verdict.anchored else "unanchored",
        "rows": verdict.rows,
        "last": {"no": verdict.last.no, "hash": verdict.last.hash},
        "broken": said,
    }
