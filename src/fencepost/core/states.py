"""Every state that Fencepost stores, with its meaning and the label an operator reads.

The values are what tables, screens and JSON hold. Which event leads from one state to another is in `transitions`;
this file moves nothing.
"""

from __future__ import annotations

from enum import StrEnum


class OperationState(StrEnum):
    """What is known of one logical effect."""

    RESERVED = "reserved"
    DISPATCHED = "dispatched"
    UNKNOWN = "unknown"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Outcome(StrEnum):
    """What is known of one dispatch. An attempt is unresolved from the moment it may be sent."""

    APPLIED = "applied"
    NOT_APPLIED = "not applied"
    UNRESOLVED = "unresolved"


class RunState(StrEnum):
    """What a run is doing, or how it ended."""

    READY = "ready"
    RUNNING = "running"
    WAITING = "waiting"
    HELD = "held"
    CANCELLING = "cancelling"
    COMPENSATING = "compensating"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"
    TERMINATED = "terminated"
    COMPENSATED = "compensated"
    PARTLY_COMPENSATED = "partly compensated"
    COMPENSATION_FAILED = "compensation failed"
    CONTINUED = "continued"


class StepState(StrEnum):
    """A recorded position that is not an effect: model, read, compute, wait, sleep, child, compensate and the like."""

    OPEN = "open"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class SignalState(StrEnum):
    """A signal is kept until a wait takes it, then applied; or it is refused with a reason. It is never lost."""

    KEPT = "kept"
    APPLIED = "applied"
    REFUSED = "refused"


class LeaseState(StrEnum):
    """One worker life's claim to be alive. Expired cannot be undone."""

    LIVE = "live"
    EXPIRED = "expired"
    ENDED = "ended"


class ReceiptState(StrEnum):
    """What a receiver knows of one key that somebody sent it with a request."""

    IN_PROGRESS = "in progress"
    ANSWERED = "answered"
    UNKNOWN = "unknown"
    FREE = "free"


FINAL_OPERATION_STATES = frozenset({OperationState.SUCCEEDED, OperationState.FAILED, OperationState.CANCELLED})

ACTIVE_RUN_STATES = frozenset(
    {
        RunState.READY,
        RunState.RUNNING,
        RunState.WAITING,
        RunState.HELD,
        RunState.CANCELLING,
        RunState.COMPENSATING,
    }
)
FINAL_RUN_STATES = frozenset(RunState) - ACTIVE_RUN_STATES

COMPENSATED = frozenset({RunState.COMPENSATED, RunState.PARTLY_COMPENSATED, RunState.COMPENSATION_FAILED})
"""The ends of a run of which something was, or should have been, compensated."""

CLAIMABLE_RUN_STATES = frozenset({RunState.READY, RunState.WAITING, RunState.CANCELLING, RunState.COMPENSATING})


def label(state: StrEnum) -> str:
    """What an operator reads beside the state."""
    # By kind first: a succeeded run and a succeeded operation are equal texts and different things.
    return _LABELS[type(state), state.value]


_LABELS: dict[tuple[type[StrEnum], str], str] = {
    (type(state), state.value): text
    for state, text in (
        (OperationState.RESERVED, "intended; nothing sent, or every attempt proved not to have happened"),
        (OperationState.DISPATCHED, "being sent; the intent is on disk"),
        (OperationState.UNKNOWN, "may or may not have happened; asked about before anything is sent again"),
        (OperationState.SUCCEEDED, "happened once, with evidence"),
        (OperationState.FAILED, "proved not to have happened"),
        (OperationState.CANCELLED, "taken back; nothing was sent, or every attempt proved not to have happened"),
        (Outcome.APPLIED, "this attempt took effect"),
        (Outcome.NOT_APPLIED, "this attempt is proved not to have taken effect"),
        (Outcome.UNRESOLVED, "no proof either way"),
        (RunState.READY, "can go on; a worker will take it"),
        (RunState.RUNNING, "owned by a worker"),
        (RunState.WAITING, "waits for a signal or a time; costs a row"),
        (RunState.HELD, "stopped for a person; says why and what may be done"),
        (RunState.CANCELLING, "cancel accepted; begins nothing new, settles what was sent"),
        (RunState.COMPENSATING, "making earlier effects acceptable"),
        (RunState.SUCCEEDED, "returned its result"),
        (RunState.FAILED, "its own code raised; its effects stand"),
        (RunState.CANCELLED, "cancelled, every operation known"),
        (RunState.TERMINATED, "ended by a person; its effects stand"),
        (RunState.COMPENSATED, "every effect to be compensated was"),
        (
            RunState.PARTLY_COMPENSATED,
            "some effects were compensated or stand as declared, some were not: those stand",
        ),
        (RunState.COMPENSATION_FAILED, "no compensation succeeded; effects stand"),
        (RunState.CONTINUED, "this turn is over; the next turn of the same run goes on"),
        (StepState.OPEN, "begun, no result yet"),
        (StepState.DONE, "has its result"),
        (StepState.FAILED, "ended with an error"),
        (StepState.CANCELLED, "taken back"),
        (SignalState.KEPT, "arrived, not taken by a wait yet"),
        (SignalState.APPLIED, "taken by a wait"),
        (SignalState.REFUSED, "not accepted; the reason is kept"),
        (LeaseState.LIVE, "renewed in time"),
        (LeaseState.EXPIRED, "not renewed; its runs may be taken over"),
        (LeaseState.ENDED, "given back by its process"),
        (ReceiptState.IN_PROGRESS, "a handler is at work on it; duplicates are asked to come back"),
        (ReceiptState.ANSWERED, "its first result is kept, and given again to duplicates"),
        (ReceiptState.UNKNOWN, "the handler broke off; not run again before it is known what it did"),
        (ReceiptState.FREE, "nothing was done; the same request may come again"),
    )
}
