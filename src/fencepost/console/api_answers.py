"""What the HTTP API answers, as the schema has it: the documents of `documents` and `story`, with a type for each key.

Instants are ISO 8601 in UTC. A document that does not fit its form here is an error of ours, which tests find.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from fencepost.core.states import RunState, SignalState

Instant = Annotated[str, Field(examples=["2026-11-30T08:06:00.000000Z"])]
Value = Any
"""What a workflow or the outside handed in: any JSON."""


class Shown(BaseModel):
    """An answer: an object with these names, and no others."""

    model_config = ConfigDict(extra="forbid")


class RunRow(Shown):
    """A run as lists show it."""

    id: str = Field(examples=["invoice:tenant-42:inv-1847"])
    workflow: str = Field(examples=["approve_invoice"])
    workflow_version: int = Field(examples=[1])
    state: RunState
    label: str = Field(description="The state for people.")
    generation: int = Field(description="Raised each time that it changes hands.")
    version: int = Field(description="Of the row: raised by each change.")
    created_at: Instant
    changed_at: Instant
    ended_at: Instant | None
    wake_at: Instant | None
    hold: dict[str, Value] | None = Field(description="Why it is held: `reason`, `step`, `detail` and more.")
    turn: int = Field(description="How often it has continued.")
    parent: bool = Field(description="Whether another run has started it.")


class ListedRun(RunRow):
    """A run on a page of a list."""

    carried: bool | None = Field(
        description="False where no live worker knows its version; null where that is no question."
    )


class Runs(Shown):
    """A page of runs, newest first."""

    runs: list[ListedRun]
    next: int | None = Field(description="`after` of the next page; null at the end.")


class Done(Shown):
    """A run after a verb."""

    verb: str = Field(examples=["cancel"])
    before: RunState
    run: RunRow
    detached: list[str] = Field(default=[], description="Of a cancel: the children that go on.")


class Begun(Shown):
    """A run that was started, or was there already with the same input."""

    run: RunRow


class Result(Shown):
    """What a workflow has returned."""

    value: Value


class Failure(Shown):
    """What a run ended with instead."""

    model_config = ConfigDict(extra="allow")

    message: str = Field(default="")


class Outcome(Shown):
    """How a run has ended, if it has."""

    run: RunRow
    over: bool = Field(description="Whether nothing more happens in it by itself, short of a person.")
    result: Result | None = Field(description="Null where it returned none, or has not.")
    error: Failure | None
    cancelled: bool = Field(description="Whether somebody has asked it to stop.")


class Sent(Shown):
    """A signal, as it is kept."""

    run: str
    signal: str = Field(description="Its id.")
    name: str
    state: SignalState


class Rehearsed(Shown):
    """What a replay against another version came to."""

    run: str
    from_version: int = Field(alias="from", examples=[1])
    to: int = Field(examples=[2])
    fits: bool
    difference: str | None = Field(description="The first difference.")
    refused: str | None = Field(description="Why the run could not be pinned to it all the same, as it is now.")
    delivered: int = Field(description="How many answers were replayed.")
    waits_for: list[str]


class EachRun(Shown):
    """What became of one run of many, or would."""

    run: str
    before: str
    after: str
    moves: list[str] = Field(description="Of a dry run: what would move in it.")
    refused: str | None = Field(description="Why it was refused.")
    version: int = Field(description="Of its row, before.")


class DoneToMany(Shown):
    """One verb on many runs."""

    verb: str
    dry_run: bool
    runs: list[EachRun]


class Job(Shown):
    """A job on many runs: how many of them are done, refused and left."""

    no: int
    verb: str = Field(examples=["resume"])
    arguments: dict[str, Value]
    actor: str
    reason: str
    state: Literal["running", "paused", "done"]
    started_at: Instant
    closed_at: Instant | None
    runs: int
    done: int
    refused: int
    left: int


class Jobs(Shown):
    """Jobs on many runs, newest first."""

    jobs: list[Job]


class JobRun(Shown):
    """One run of a job: as it was seen, as it is now, and what became of it; null while it is left."""

    run: str
    version: int
    was: str
    is_: str = Field(alias="is", examples=["ready"])
    outcome: Literal["done", "refused"] | None
    refused: str | None = Field(description="Why it was refused.")


class JobShown(Shown):
    """A job with each of its runs."""

    job: Job
    each: list[JobRun]


class DoneToJob(Shown):
    """A job after a verb."""

    verb: str
    job: Job


class Schedule(Shown):
    """A schedule, as it stands."""

    name: str
    formerly: str | None
    workflow: str
    workflow_version: int
    cron: str
    zone: str
    overlap: str
    catch_up: str
    catch_up_within: str
    state: Literal["active", "paused", "orphaned", "no worker"]
    workers: int
    next_at: Instant | None
    waits: bool
    last_at: Instant | None
    last_run: str | None
    last_run_state: RunState | None
    passed: int
    note: dict[str, Value] | None
    version: int


class Schedules(Shown):
    """Every schedule of the namespace."""

    schedules: list[Schedule]


class DoneToSchedule(Shown):
    """A schedule after a verb; null once it is removed."""

    verb: str
    schedule: Schedule | None


class Queue(Shown):
    """A queue: its limits, and how full it is."""

    name: str
    concurrency: int | None
    per_key: int | None
    rate: int | None
    rate_within: str | None
    in_work: int
    due: int
    waiting: int
    paused_at: Instant | None
    paused_by: str | None
    paused_because: str | None
    version: int


class Queues(Shown):
    """Every queue of the namespace."""

    queues: list[Queue]


class DoneToQueue(Shown):
    """A queue after a verb."""

    verb: str
    queue: Queue


class Containment(Shown):
    """What nothing new is sent toward."""

    kind: str
    name: str
    by: str
    reason: str
    at: Instant
    probe_at: Instant | None
    probe_run: int | None


class Containments(Shown):
    """Everything that is contained."""

    contained: list[Containment]


class Contained(Shown):
    """Something that is contained now."""

    contained: Containment


class Released(Shown):
    """What was released; null if it was not contained."""

    released: Containment | None


class Proposal(Shown):
    """What one person has asked for, and a second one has to confirm."""

    proposal: int
    run: str
    verb: str
    arguments: dict[str, Value]
    version: int
    reason: str
    proposed_by: str
    proposed_at: Instant
    expires_at: Instant
    state: str
    closed_by: str | None
    closed_at: Instant | None


class Proposals(Shown):
    """Proposals, newest first."""

    proposals: list[Proposal]


class Alert(Shown):
    """An alert as it is measured now. Time is in microseconds."""

    name: str
    severity: str
    fires: bool
    value: int
    threshold: int
    unit: str
    says: str
    measures: str
    runbook: str


class Alerts(Shown):
    """Every alert, and how many fire."""

    alerts: list[Alert]
    firing: int


class AuditRow(Shown):
    """Who did what to which run, and why."""

    no: int
    at: Instant
    actor: str
    verb: str
    run: str
    step: str | None
    item: str | None
    outcome: str
    reason: str
    before: Value
    after: Value
    hash: str


class AuditRows(Shown):
    """A page of audit rows, newest first."""

    rows: list[AuditRow]
    next: int | None = Field(description="`before` of the next page; null at the end.")


class ChainEnd(Shown):
    """The newest audit row that fits: an anchor, to be kept out of the ledger's reach."""

    no: int
    hash: str


class Broken(Shown):
    """The first audit row that does not fit."""

    at: int
    how: str
    says: str
    expected: str | None
    found: str | None


class Verdict(Shown):
    """Whether the audit is as it was written; `unanchored`: rows that were cut off at its end are not missed."""

    answer: Literal["intact", "unanchored", "broken"]
    rows: int
    last: ChainEnd
    broken: Broken | None


class Contradiction(Shown):
    """What contradicts what."""

    rule: str
    namespace: str
    run: str
    where: str
    says: str


class Checked(Shown):
    """How much of the ledger was looked through, and what contradicts what."""

    runs: int
    operations: int
    audits: int
    contradictions: int
    found: list[Contradiction]
    rules: dict[str, str] = Field(description="A sentence for each rule that is broken.")


class Contract(Shown):
    """The recovery table of the console's app: a row for each step, and how many blanks."""

    blanks: int
    steps: list[dict[str, Value]]


class Purged(Shown):
    """How many runs were purged, by state, and how many of that age are needed, and kept."""

    runs: dict[str, int]
    kept: int
    dry_run: bool


class Epoch(Shown):
    """The epoch that began with a restore. Times are microseconds since the Unix epoch."""

    epoch: int
    lost_from: int
    began_at: int
    closed_at: int | None
