"""What the journal can be asked to write: each *move* changes one row, and an observation appends one.

A move names the state that it expects and the generation it acts under; it is one statement in the store's SQL, and
refuses itself where either is not so. Its fields are what that statement takes, in the words of the tables. Moves are
made by `effects.entry` and the runtime; groups of them, and the store's verbs, are in `api`.
"""

from __future__ import annotations

from typing import NamedTuple

from fencepost.core.states import Outcome


class NewOperation(NamedTuple):
    """Insert an operation, `reserved` or at once `dispatched`. Guard: generation and state of the run.

    Guard of a dispatch: none of the marks in `toward` is contained, unless for a probe by this very run; and where they
    end with `MINDS_BELOW`, nothing is unknown in an attached child of the run, or in one of its own.

    `attempts` is 0 or 1. With 1 the row holds the first attempt: `token`, `lease` and the three instants are its own,
    else they are None. `approval` is the position of the wait whose answer allows the dispatch, and is used by it.
    """

    run: int
    generation: int
    run_state: str
    step: str
    item: str
    effect: str
    contract_version: int
    key: str
    key_scheme: int
    scope: str
    request: str
    fingerprint: str
    policy: str | None
    compensates: str | None
    state: str
    attempts: int
    not_before: int | None
    error: str | None
    at: int
    token: int | None = None
    lease: str | None = None
    dispatched_at: int | None = None
    send_by: int | None = None
    span_ends_at: int | None = None
    approval: str | None = None
    toward: str | None = None


class NewAttempt(NamedTuple):
    """Insert an attempt after the first, unresolved from now on. Guard: its operation is `dispatched` with its number.

    The first one stands in the operation's row, see `NewOperation` and `DispatchOperation`.
    """

    run: int
    generation: int
    step: str
    item: str
    number: int
    token: int | None
    lease: str
    dispatched_at: int
    send_by: int
    span_ends_at: int


class MoveOperation(NamedTuple):
    """Lead an operation from `expected` to `to`. None keeps reference, result, error and delivered as they are.

    `not_before` is written as given; a `conflict` once raised stays, unless the event is "settle conflict", and
    `lookups`, their number so far, never goes down. The event "retry" starts a new budget at `at`. Success clears the
    error.
    """

    run: int
    generation: int
    step: str
    item: str
    expected: str
    event: str
    to: str
    result: str | None
    error: str | None
    reference: str | None
    delivered: int | None
    not_before: int | None
    conflict: int
    lookups: int
    at: int


class Succeed(NamedTuple):
    """The operation's only attempt was applied: settle it and lead the operation from dispatched to succeeded.

    The usual end of an effect in one change; it does what a `SettleFirst` and a `MoveOperation` would. None keeps
    reference and delivered as they are.
    """

    run: int
    generation: int
    step: str
    item: str
    evidence: str
    sends: int | None
    result: str
    reference: str | None
    delivered: int | None
    at: int

    @property
    def number(self) -> int:
        """The attempt that is settled."""
        return 1

    @property
    def to(self) -> str:
        """What is proved of the attempt."""
        return Outcome.APPLIED.value


class DispatchOperation(NamedTuple):
    """Lead an operation from reserved or unknown to dispatched. Guard: also the run's state, and `toward`.

    Number 1 writes the first attempt into the operation's row; a later one needs a `NewAttempt` beside it. `approval`
    and `toward` as in `NewOperation`, but what was unknown goes out again whatever is unknown below; None keeps the
    approval that is stored.
    """

    run: int
    generation: int
    run_state: str
    step: str
    item: str
    expected: str
    number: int
    at: int
    token: int | None
    lease: str
    send_by: int
    span_ends_at: int
    approval: str | None = None
    toward: str | None = None


class SettleFirst(NamedTuple):
    """Record what is proved of an operation's first attempt, with the evidence."""

    run: int
    generation: int
    step: str
    item: str
    expected: str
    event: str
    to: str
    evidence: str
    sends: int | None
    at: int

    @property
    def number(self) -> int:
        """The attempt that is settled."""
        return 1


class SettleAttempt(NamedTuple):
    """Record what is proved of a later attempt, with the evidence."""

    run: int
    generation: int
    step: str
    item: str
    number: int
    expected: str
    event: str
    to: str
    evidence: str
    sends: int | None
    at: int


class DeliverOperation(NamedTuple):
    """Give a final operation its place in the run's order of deliveries."""

    run: int
    generation: int
    step: str
    item: str
    delivered: int
    at: int


class OpenStep(NamedTuple):
    """Insert a position that is not an effect, `open` or at once closed."""

    run: int
    generation: int
    position: str
    kind: str
    name: str
    fingerprint: str
    version: int
    state: str
    request: str | None
    detail: str | None
    result: str | None
    error: str | None
    delivered: int | None
    due_at: int | None
    at: int
    closed_at: int | None


class MoveStep(NamedTuple):
    """Lead a step from `expected` to `to`. None keeps detail, result, error, delivered and due_at as they are.

    With `expected` and `to` the same it only notes what is given: a tally, a time, a delivery. Done clears the error.
    """

    run: int
    generation: int
    position: str
    expected: str
    event: str
    to: str
    detail: str | None
    result: str | None
    error: str | None
    delivered: int | None
    due_at: int | None
    at: int


class MoveSignal(NamedTuple):
    """Lead a kept signal to applied or refused."""

    run: int
    generation: int
    id: str
    expected: str
    event: str
    to: str
    reason: str | None
    position: str | None
    at: int


class MoveRun(NamedTuple):
    """Lead a run from `expected` to `to`; `keep_lease` 0 gives it up, `raise_generation` 1 raises its generation.

    None keeps result, error and cancel as they are; hold and wake_at are written as given, but a run that becomes
    ready falls due at once when `wake_at` is None. Giving a run up to wait while a kept signal for one of its open
    waits is there wakes it at once, in the same write, unless it pauses while it compensates. `hold` goes with held,
    `ended_at` with the final states, a lease with running; `wake_at` is None for held and final states. One that is
    given up `behind` what is contained no more, when this is written, wakes at once.
    """

    run: int
    generation: int
    expected: str
    event: str
    to: str
    keep_lease: int
    raise_generation: int
    wake_at: int | None
    hold: str | None
    result: str | None
    error: str | None
    cancel: str | None
    delivered: int
    at: int
    ended_at: int | None
    behind: str | None = None


class StartChild(NamedTuple):
    """Insert a run that `run` has asked for, ready for anybody; in the same namespace and for the same principal.

    `parent_step` is the position at which the parent waits for its end, None for a child that is detached.
    """

    run: int
    generation: int
    id: str
    workflow: str
    workflow_version: int
    input: str
    fingerprint: str
    parent_step: str | None
    at: int
    queue: str | None = None


class NextTurn(NamedTuple):
    """Insert the next turn of a run which the same group has led to `continued`; signals that are kept go with it.

    With `lease` it is owned from its first row on.
    """

    run: int
    generation: int
    input: str
    lease: str | None
    at: int


class PinRun(NamedTuple):
    """Pin a run in the state `expected` to another version of its workflow: from `workflow_version` to `pinned`."""

    run: int
    generation: int
    expected: str
    workflow_version: int
    pinned: int


class KeepPiece(NamedTuple):
    """Insert a piece of a value that is too large for its row. Guard: the generation of the run that writes it.

    `run_id` names whose value it is: the run's own id, or that of a child which the same group starts.
    """

    run: int
    generation: int
    run_id: str
    digest: str
    number: int
    text: str


class Piece(NamedTuple):
    """A piece of the input of a run that is about to be started, written in the same transaction."""

    namespace: str
    run_id: str
    digest: str
    number: int
    text: str


class Observe(NamedTuple):
    """Append an observation. No guard: fence authority, never evidence."""

    run: int
    step: str
    item: str
    attempt: int | None
    kind: str
    says: str | None
    evidence: str
    lease: str | None
    generation: int | None
    current: int
    began_at: int | None
    seen_at: int


Move = (
    NewOperation
    | NewAttempt
    | MoveOperation
    | Succeed
    | DispatchOperation
    | SettleFirst
    | SettleAttempt
    | DeliverOperation
    | OpenStep
    | MoveStep
    | MoveSignal
    | StartChild
    | PinRun
    | MoveRun
    | NextTurn
    | KeepPiece
)


SETTLING = (Succeed, SettleFirst, SettleAttempt)
"""The moves that record what is proved of an attempt: each has its `number`, `to`, `evidence` and `at`."""
