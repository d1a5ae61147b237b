"""Which signal satisfies which wait, and when a wait is over without one.

Waits are rows. A signal may come before its wait, twice, or too late, and is applied or refused, never lost. Storing
signals is `store`, delivering them to the workflow is `runtime`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass

from fencepost.core.records import Signal, Step
from fencepost.core.states import SignalState, StepState

NOT_WAITING = "not waiting"
RUN_ENDED = "the run has ended"


@dataclass(frozen=True, slots=True)
class Satisfied:
    """This signal closes this wait."""

    position: str
    signal: Signal


@dataclass(frozen=True, slots=True)
class Expired:
    """This wait's time is over."""

    position: str


def due(steps: Iterable[Step], signals: Iterable[Signal], *, now: int) -> list[Satisfied | Expired]:
    """What can be closed now, in the order in which it becomes visible to the workflow.

    Waits of one name take kept signals of that name in the order of their arrival. A signal that arrived before the
    deadline wins over the deadline, even if both are seen at once; so does one that is seen before it, whatever the
    clock of its sender says. Sleeps expire at their time.
    """
    kept: dict[str, list[Signal]] = {}
    for signal in sorted(signals, key=lambda one: (one.sent_at, one.id)):
        if signal.state is SignalState.KEPT:
            kept.setdefault(signal.name, []).append(signal)
    closing: list[tuple[int, str, Satisfied | Expired]] = []
    for step in sorted(steps, key=lambda one: (one.opened_at, one.position)):
        if step.state is not StepState.OPEN or step.kind not in ("wait", "sleep"):
            continue
        queue = kept.get(step.name) if step.kind == "wait" else None
        in_time = queue and (step.due_at is None or queue[0].sent_at <= step.due_at or now < step.due_at)
        if queue and in_time:
            signal = queue.pop(0)
            closing.append((max(signal.sent_at, step.opened_at), step.position, Satisfied(step.position, signal)))
        elif step.due_at is not None and step.due_at <= now:
            closing.append((step.due_at, step.position, Expired(step.position)))
    return [what for _, _, what in sorted(closing, key=lambda one: one[:2])]


def wake_at(steps: Iterable[Step], *, also: Iterable[int] = ()) -> int | None:
    """When a run that only waits must be looked at again; None: only a signal can wake it."""
    times = [step.due_at for step in steps if step.state is StepState.OPEN and step.due_at is not None]
    return min([*times, *also], default=None)


def refusal(steps: Iterable[Step], signal: Signal, *, many: Collection[str] = ()) -> str | None:
    """Why a kept signal can no longer be applied, or None while it may still be (`protocol` F9).

    A wait's name is used once: when the wait of that name is closed and none is open, a further signal is refused.
    `many` holds the names that may be waited for again: their signals are kept until the run ends.
    """
    if signal.name in many:
        return None
    named = [step for step in steps if step.kind == "wait" and step.name == signal.name]
    if not named or any(step.state is StepState.OPEN for step in named):
        return None
    return NOT_WAITING
