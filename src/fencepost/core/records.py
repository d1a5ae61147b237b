"""What the ledger holds, as plain records: the only input of every decision.

`core` decides over these, `store` loads them, screens show them. Instants are microseconds of the store's clock unless
a name says otherwise; payloads are canonical JSON text. Records hold facts; what follows from them is decided in
`outcome`, `recovery` and `compensation`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fencepost.core.position import effect_position
from fencepost.core.states import LeaseState, OperationState, Outcome, RunState, SignalState, StepState

if TYPE_CHECKING:
    from fencepost.core.cancellation import Cancellation


@dataclass(slots=True)
class Attempt:
    """One dispatch of an operation.

    `send_by` is when its last byte must have left, `span_ends_at` when every trace of it must be dead and digested:
    dispatch + attempt timeout + settle.
    """

    number: int
    dispatched_at: int
    send_by: int
    span_ends_at: int
    lease: str
    generation: int
    outcome: Outcome = Outcome.UNRESOLVED
    token: int | None = None
    evidence: str | None = None
    sends: int | None = None
    settled_at: int | None = None


REQUEST = "request"
"""Kind of an observation: the digest of the request that leaves under the key, written down before it does."""

REPLY = "reply"
"""Kind: what came back of an attempt, by its owner or by somebody too late."""

REFERENCE = "reference"
"""Kind: the remote object's id, known before the call ended."""

CALLBACK = "callback"
"""Kind: the digest of a token that was handed out for reports on a job; written down before the token leaves."""

REPORTED = "reported"
"""Kind: somebody who holds the operation's callback token has reported: its request has reached somebody."""

LOOK_UP = "look-up"
"""Kind: the target's answer to our question."""

REPLAYED_FAILURE = "replayed failure"
"""Kind: a failure that the target stored under the key and repeats; sending the key again cannot help."""

IN_PROGRESS = "in progress"
"""Kind: the target's word that it is still at work on this very key; costs no attempt."""

LOST_TIME = "lost time"
"""Kind: a dispatch may have been made in the time that a restored ledger has forgotten; costs no attempt."""

CONTAINED = "contained"
"""Kind: a dispatch has met something that is contained; the time until the next `RELEASED` counts against no budget."""

KEPT_OUT = "credential refused"
"""Kind: an attempt was refused because of its credential, and a breaker has opened; costs no attempt."""

RELEASED = "released"
"""Kind: what kept a dispatch back is contained no more."""

STATEMENT = "statement"
"""Kind: what a person says happened, or did not."""

CONFLICT_SETTLED = "conflict settled"
"""Kind: what a person says stands, after what contradicted itself was put right at the target."""

VERDICT = "verdict"
"""Kind: what a policy said when it was asked anew, of a compensation that somebody has tried again."""

RESTS_ON = "rests on"
"""Kind: the effects on which this one rests, as its workflow said; written down with its intent."""

ASK_AGAIN = "ask again"
"""Kind: a person wants the target asked anew, whatever it answered so far."""

CANCEL_ACCEPTED = "cancel accepted"
"""Kind, of a run: the worker that owns it has heard of its cancel, and begins nothing more."""

BODY_TOLD = "body told"
"""Kind: a body that ran when its run's cancel was accepted was told of it; the evidence says how."""

WAITED_NO_LONGER = "waited for no longer"
"""How a body is told last: it has ended in no time that it was given, and its run goes on without it."""

NOT_BEGUN = "not begun"
"""What evidence says of an attempt that was permitted, and whose body did not begin since its run was cancelled."""

RUNS_ON = "runs on"
"""What a reply says of a body whose thread was not waited for: what comes of it is another reply."""

BODY_ENDED = "body ended"
"""Kind: a body that was told of a cancel runs no more."""

CANCEL_SENT = "cancel sent"
"""Kind: the target is about to be asked to cancel the operation; written down before it is."""

CANCEL_ANSWERED = "cancel answered"
"""Kind: what came of asking the target to cancel. Evidence of what it said, and proof of nothing."""


@dataclass(slots=True)
class Observation:
    """Something seen, by whoever saw it; appended, never changed.

    `says` is "applied", "not applied", "found", "absent", "inconclusive" or None (a reference, raw bytes).
    """

    kind: str
    says: str | None
    evidence: str
    seen_at: int
    attempt: int | None = None
    began_at: int | None = None
    lease: str | None = None
    generation: int | None = None
    current: bool = True
    no: int = 0


_OPPOSITES = {("applied", Outcome.NOT_APPLIED), ("not applied", Outcome.APPLIED)}


@dataclass(slots=True)
class Operation:
    """The ledger's record of one logical effect, with its attempts in order.

    `approval` is the position of the wait whose answer its dispatch has used.
    """

    run: int
    step: str
    item: str | None
    effect: str
    contract_version: int
    key: str
    key_scheme: int
    request: str
    fingerprint: str
    state: OperationState
    reserved_at: int
    scope: str = ""
    policy: str | None = None
    conflict: bool = False
    lookups: int = 0
    generation: int = 0
    version: int = 0
    compensates: str | None = None
    reference: str | None = None
    result: str | None = None
    error: str | None = None
    delivered: int | None = None
    delivered_at: int | None = None
    not_before: int | None = None
    first_dispatched_at: int | None = None
    budget_from: int = 0
    changed_at: int = 0
    approval: str | None = None
    attempts: list[Attempt] = field(default_factory=list)
    observations: list[Observation] = field(default_factory=list)
    after: tuple[tuple[str, str | None], ...] = ()
    """The effects on which it rests, each a step with its item; without one, whatever was done by that step."""
    flagged: bool = False
    """Whether its row says that there is a conflict; `conflict` is also what was learnt of one."""

    @property
    def position(self) -> str:
        """Where it stands in its run, as the driver names it; see `core.position`."""
        return effect_position(self.step, self.item)

    def learn(self) -> None:
        """Take in what its observations say beside its row: a crash may have come before the move that says it too.

        A reference that a body learnt in mid-call; the look-ups, since nobody may have asked more often than is
        counted; the start of a time of which the ledger knows nothing, since a key's window counts from there; a late
        reply that contradicts what is proved, whose bearer died before it could raise the flag; what it rests on; and
        what its policy said last.
        """
        contradicted = False
        for seen in self.observations:
            if seen.kind == REFERENCE and self.reference is None:
                self.reference = json.loads(seen.evidence).get("reference")
            elif seen.kind == LOST_TIME and self.first_dispatched_at is not None:
                self.first_dispatched_at = min(self.first_dispatched_at, int(json.loads(seen.evidence)["lost_from"]))
            elif seen.kind == REPLY and self._is_contradicted_by(seen):
                contradicted = True
            elif seen.kind == CONFLICT_SETTLED:
                contradicted = False
            elif seen.kind == RESTS_ON:
                named = ((step, item) for step, item in json.loads(seen.evidence)["after"])
                self.after = tuple(dict.fromkeys((*self.after, *named)))
            elif seen.kind == VERDICT:
                self.policy = seen.evidence
        self.flagged, self.conflict = self.conflict, self.conflict or contradicted
        self.lookups = max(self.lookups, sum(seen.kind == LOOK_UP for seen in self.observations))

    def _is_contradicted_by(self, reply: Observation) -> bool:
        if reply.attempt is None or not 1 <= reply.attempt <= len(self.attempts):
            return False
        opposed = (reply.says, self.attempts[reply.attempt - 1].outcome) in _OPPOSITES
        return opposed and not self.refutes(reply.says, reply.evidence)

    def refutes(self, says: str | None, evidence: str) -> bool:
        """Whether this is a look-up that found nothing of a job on which somebody reports under its own token.

        Its owner believed it before the report was there, and was refused for that; so it proves nothing.
        """
        if says != Outcome.NOT_APPLIED or not any(seen.kind == REPORTED for seen in self.observations):
            return False
        seen = json.loads(evidence)
        return isinstance(seen, dict) and seen.get("kind") == LOOK_UP


@dataclass(slots=True)
class Step:
    """A recorded position of a run that is not an effect."""

    position: str
    kind: str
    name: str
    fingerprint: str
    state: StepState
    opened_at: int
    version: int = 0
    request: str | None = None
    detail: str | None = None
    result: str | None = None
    error: str | None = None
    delivered: int | None = None
    due_at: int | None = None
    closed_at: int | None = None
    beaten_at: int | None = None
    """When the job that a wait is for was heard of last, and `progress` what it said of itself (JSON)."""
    progress: str | None = None


@dataclass(slots=True)
class Signal:
    """A message to a run: kept, applied to a wait, or refused with a reason."""

    id: str
    name: str
    payload: str
    state: SignalState
    sent_at: int
    sender: str = ""
    fingerprint: str = ""
    reason: str | None = None
    position: str | None = None
    closed_at: int | None = None


@dataclass(slots=True)
class Run:
    """One execution of a workflow. `no` is the ledger's number for it, `id` the business event's name."""

    no: int
    namespace: str
    id: str
    workflow: str
    workflow_version: int
    input: str
    fingerprint: str
    state: RunState
    generation: int
    version: int
    created_at: int
    changed_at: int
    principal: str | None = None
    lease: str | None = None
    wake_at: int | None = None
    parent: int | None = None
    result: str | None = None
    error: str | None = None
    hold: str | None = None
    cancel: str | None = None
    delivered: int = 0
    ended_at: int | None = None
    takeovers: int = 0
    """How often it was taken over from a worker that was lost, since anything of it was answered; see `core.poison`."""
    resource: str | None = None
    """What it keeps its place in line for: it begins when every earlier run of the same resource has ended."""
    parent_step: str | None = None
    """The parent's position that waits for it; None for a run without a parent, and for a detached child."""
    turn: int = 0
    """How often it has continued as a new turn: each turn has a row, and a history, of its own."""
    behind: str | None = None
    """The marks of what is contained and keeps it from going on; see `core.containment`."""
    queue: str | None = None
    """The queue whose limits its claims keep; see `core.queue`."""
    queue_key: str | None = None
    priority: int = 0


@dataclass(slots=True)
class Lease:
    """One worker life's claim to be alive; never reused."""

    id: str
    host: str
    boot_id: str
    pid: int
    process_started: int
    state: LeaseState
    taken_at: int
    renewed_at: int
    expires_at: int
    closed_at: int | None = None
    margin: int = 0
    """How long after its end nobody takes over, as its owner was configured."""
    carries: str = "[]"
    """The workflows that its process knows: a JSON list of [namespace, name, version]."""


@dataclass(slots=True)
class Audit:
    """Who did what to which run or operation, why, and what it changed; chained by hash to the row before."""

    at: int
    actor: str
    verb: str
    run_id: str
    outcome: str
    reason: str
    before: str
    after: str
    namespace: str = "default"
    step: str | None = None
    item: str | None = None
    no: int = 0
    previous: str = ""
    hash: str = ""


@dataclass(slots=True)
class History:
    """Everything the ledger holds of one run, loaded in one query per table kind."""

    run: Run
    steps: list[Step] = field(default_factory=list)
    operations: list[Operation] = field(default_factory=list)
    signals: list[Signal] = field(default_factory=list)
    children: list[Run] = field(default_factory=list)
    """The runs that it has started by `run.child`, as they stand; of each only its last turn."""
    observations: list[Observation] = field(default_factory=list)
    """What was seen of the run itself and of its steps that are no effects: who accepted its cancel, and told whom."""
    rival: str | None = None
    """Of a run that has ended: another one that stands for the same in its queue, and goes on; for people."""

    @property
    def cancellation(self) -> Cancellation | None:
        """What is known of the run's cancel, layer by layer; None if nobody has asked for one."""
        from fencepost.core.cancellation import cancellation_of

        return cancellation_of(self)
