"""Which signal satisfies which wait, and when a wait is over without one.

Waits are rows. A signal may come before its wait, twice, or too late, and is applied or refused, never lost. Storing
signals is `store`, delivering them to the workflow is `runtime`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass

from fencepost.core.approval import misfit
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


def due(
    steps: Iterable[Step], signals: Iterable[Signal], *, now: int, digests: Mapping[str, str] | None = None
) -> list[Satisfied | Expired]:
    """What can be closed now, in the order in which it becomes visible to the workflow.

    Waits of one name take kept signals of that name in the order of their arrival. A signal that arrived before the
    deadline wins over the deadline, even if both are seen at once; so does one that is seen before it, whatever the
    clock of its sender says. Sleeps expire at their time. `digests` names, by the wait's position, the call that an
    approval must name to be an answer to it, so that of two waits with one name each gets its own.
    """
    digests = digests or {}
    kept: dict[str, list[Signal]] = {}
    for signal in sorted(signals, key=lambda one: (one.sent_at, one.id)):
        if signal.state is SignalState.KEPT:
            kept.setdefault(signal.name, []).append(signal)
    closing: list[tuple[int, str, Satisfied | Expired]] = []
    for step in sorted(steps, key=lambda one: (one.opened_at, one.position)):
        if step.state is not StepState.OPEN or step.kind not in ("wait", "sleep"):
            continue
        queue = kept.get(step.name, []) if step.kind == "wait" else []
        first = next((one for one in queue if _fits(one, digests.get(step.position))), None)
        if first is not None and (step.due_at is None or first.sent_at <= step.due_at or now < step.due_at):
            queue.remove(first)
            closing.append((max(first.sent_at, step.opened_at), step.position, Satisfied(step.position, first)))
        elif step.due_at is not None and step.due_at <= now:
            closing.append((step.due_at, step.position, Expired(step.position)))
    return [what for _, _, what in sorted(closing, key=lambda one: one[:2])]


def _fits(signal: Signal, digest: str | None) -> bool:
    return digest is None or misfit(digest, signal) is None


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


def misfits(steps: Iterable[Step], signals: Iterable[Signal], digests: Mapping[str, str]) -> list[tuple[Signal, str]]:
    """The kept signals that are no answer to any wait which is open for them now, each with the reason.

    `digests` as in `due`: only waits for an approval are judged. A name under which something else is open too is left
    alone, and so is one for which nothing is open yet.
    """
    names: dict[str, list[str | None]] = {}
    for step in steps:
        if step.kind == "wait" and step.state is StepState.OPEN:
            names.setdefault(step.name, []).append(digests.get(step.position))
    found = []
    for signal in signals:
        if signal.state is SignalState.KEPT and signal.name in names:
            whys = [None if digest is None else misfit(digest, signal) for digest in names[signal.name]]
            if all(whys):
                found.append((signal, whys[0] or ""))
    return found
