"""What the HTTP API answers of one run, as the schema has it: the document of `story`, with a type for each key.

What the keys mean is said there and in `core.states`; a document that does not fit is an error of ours, which tests
find.
"""

from __future__ import annotations

from pydantic import Field

from fencepost.console.api_answers import Instant, Shown, Value
from fencepost.core.states import OperationState, Outcome, RunState, SignalState, StepState


class Owner(Shown):
    """A worker life; host and pid are null when its row is not at hand any more."""

    lease: str
    generation: int | None
    host: str | None
    pid: int | None
    lease_state: str | None
    lease_expires_at: Instant | None


class ErrorShown(Shown):
    """An error: its class and what it says."""

    class_name: str = Field(alias="class", examples=["fencepost.core.errors.NotSent"])
    message: str


class Progress(Shown):
    """How far the run says it is, and when it said so."""

    value: Value
    at: Instant


class RunShown(Shown):
    """The run itself."""

    id: str = Field(examples=["invoice:tenant-42:inv-1847"])
    namespace: str = Field(examples=["default"])
    workflow: str = Field(examples=["approve_invoice"])
    workflow_version: int
    on_behalf_of: str | None
    resource: str | None
    queue: str | None
    queue_key: str | None
    priority: int
    state: RunState
    label: str
    generation: int
    version: int
    owner: Owner | None
    turn: int
    parent: str | None = Field(description="The id of the run that has started it.")
    carried: bool | None
    progress: Progress | None
    input: Value
    result: Value
    error: ErrorShown | None
    hold: Value = Field(description="Why it is held: `reason`, `step`, `detail` and more; null otherwise.")
    held_at: str | None
    cancel: Value
    created_at: Instant
    changed_at: Instant
    ended_at: Instant | None
    wake_at: Instant | None


class Child(Shown):
    """A run that this one has started."""

    id: str
    workflow: str
    workflow_version: int
    attached_at: str | None = Field(description="The position that waits for it; null of a detached one.")
    state: RunState
    label: str
    hold: Value
    created_at: Instant
    ended_at: Instant | None


class Attempt(Shown):
    """One dispatch of an effect."""

    number: int
    outcome: Outcome
    label: str
    evidence: Value
    sends: int | None = Field(description="How often it was physically sent; null where that cannot be counted.")
    token: int | None
    owner: Owner | None
    dispatched_at: Instant | None
    send_by: Instant | None
    span_ends_at: Instant | None
    settled_at: Instant | None


class Observation(Shown):
    """Something that was seen of an effect, by whoever saw it."""

    kind: str
    says: str | None
    attempt: int | None
    evidence: Value
    by_current_owner: bool
    owner: Owner | None
    began_at: Instant | None
    seen_at: Instant | None


class EffectShown(Shown):
    """An effect: its operation with every attempt and observation."""

    position: str
    kind: str = Field(examples=["effect"])
    name: str
    item: str | None
    effect: str
    version: int
    state: OperationState
    label: str
    conflict: bool
    compensates: str | None
    after: list[str]
    key: str
    key_scheme: int
    scope: str | None
    request: Value
    fingerprint: str | None
    policy: Value
    approval: str | None
    reference: str | None
    result: Value
    error: ErrorShown | None
    lookups: int
    goes_otherwise: bool = Field(description="Whether `forward` may have it done the other way.")
    goes_back_alone: bool = Field(description="Whether `compensate step` may take it back by itself.")
    began_at: Instant | None
    first_dispatched_at: Instant | None
    not_before: Instant | None
    changed_at: Instant | None
    delivered: int | None = Field(description="In which order the workflow was told; null: it was not.")
    attempts: list[Attempt]
    observations: list[Observation]


class StepShown(Shown):
    """Any other step: a wait, a sleep, a read, a computation, a model's answer, a child."""

    position: str
    kind: str
    name: str
    version: int
    state: StepState
    label: str
    request: Value
    detail: Value
    allows: str | None = Field(description="Of a wait for an approval, the digest of the call that it allows.")
    result: Value
    error: ErrorShown | None
    began_at: Instant | None
    due_at: Instant | None
    ended_at: Instant | None
    delivered: int | None = Field(description="In which order the workflow was told; null: it was not.")


class SignalShown(Shown):
    """A signal to the run."""

    id: str
    name: str
    value: Value
    state: SignalState
    label: str
    reason: str | None
    sender: str
    unclaimed: bool
    position: str | None
    sent_at: Instant | None
    closed_at: Instant | None


class AuditShown(Shown):
    """What a person did to the run."""

    number: int
    at: Instant
    actor: str
    verb: str
    step: str | None
    item: str | None
    outcome: str
    reason: str | None
    before: Value
    after: Value
    hash: str


class Story(Shown):
    """Everything that is known of a run: the document of `fencepost show --json`."""

    run: RunShown
    waits_for: list[str] = Field(description="What has to happen before it goes on, in words.")
    verbs: list[str] = Field(description="The verbs that apply.")
    decisions: list[str] = Field(description="Positions of the model's decisions that may be made anew.")
    children: list[Child]
    cancellation: dict[str, Value] | None = Field(description="A cancel, layer by layer.")
    steps: list[EffectShown | StepShown] = Field(description="In the order of their beginning.")
    compensation: dict[str, Value] | None = Field(description="The report of the last compensation.")
    signals: list[SignalShown]
    audit: list[AuditShown]
