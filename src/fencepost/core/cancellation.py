"""What is known of a run's cancel, layer by layer: who asked, who heard of it, what was told, and what stands.

A cancel passes from a person to the worker, from there to the bodies that run and to the targets; each layer is read
from what was written down when it was reached, and a layer that was not reached is empty. Nothing here proves an
outcome: what a target says of a cancel is shown, and the operation stays what it is. Writing the layers down is
`runtime.cancelling`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from fencepost.core.records import (
    BODY_ENDED,
    BODY_TOLD,
    CANCEL_ACCEPTED,
    CANCEL_ANSWERED,
    CANCEL_SENT,
    IN_PROGRESS,
    LOOK_UP,
    NOT_BEGUN,
    REPLAYED_FAILURE,
    REPLY,
    RUNS_ON,
    STATEMENT,
    WAITED_NO_LONGER,
)
from fencepost.core.states import OperationState, Outcome, RunState

if TYPE_CHECKING:
    from fencepost.core.records import Attempt, History, Observation, Operation, Run


class Body(StrEnum):
    """Whether the body of a step still runs, as far as anybody has written down."""

    NOT_BEGUN = "not begun"
    RUNNING = "still running"
    """It was dispatched, and nobody has seen it end; its run may have gone on without it."""
    LOST = "not heard of"
    """The worker in which it ran lost the run before it could say; whether its process lives is not known."""
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class Seen:
    """A layer that was reached: when, and in which worker life under which generation. `how` says what was done."""

    at: int
    lease: str | None
    generation: int | None
    how: str = ""


@dataclass(frozen=True, slots=True)
class ProviderCancel:
    """One call of an effect's `cancel=` hook. `answer` is canonical JSON; None: no answer was written down.

    Where the target was contained the hook was not called, and `answer` says by what: `{"contained": ..., "sends": 0}`.
    """

    sent_at: int
    lease: str | None
    generation: int | None
    answered_at: int | None
    answer: str | None


@dataclass(frozen=True, slots=True)
class OperationLayers:
    """How far the cancel came with one effect, beside what is known of the effect itself."""

    position: str
    state: OperationState
    told: tuple[Seen, ...]
    provider: tuple[ProviderCancel, ...]
    body: Body
    body_ended_at: int | None
    lease: str | None
    """The worker life in which its last attempt was dispatched."""
    dispatched_at: int | None
    """When its last attempt was dispatched; None: nothing of it was sent."""
    reference: str | None
    looked_up_at: int | None
    """When the target was last asked what became of it."""
    looked_up: str | None
    """What it answered: "found", "absent" or "inconclusive"."""


@dataclass(frozen=True, slots=True)
class StepLayers:
    """How far the cancel came with a read, a computation or a model's answer whose body ran when it was accepted."""

    position: str
    told: tuple[Seen, ...]
    body: Body
    body_ended_at: int | None


@dataclass(frozen=True, slots=True)
class ChildLayers:
    """A child run. One that is not `attached` is left alone by its parent's cancel."""

    id: str
    attached: bool
    state: RunState


@dataclass(frozen=True, slots=True)
class Cancellation:
    """A run's cancel, as `(await app.show(run)).cancellation` gives it. Instants are microseconds of the store's clock.

    `who` asked for it, `why` and when (`asked_at`); `accepted` by which worker lives, and when. `operations` has for
    each effect how its body was `told`, what the `provider` answered, whether the `body` runs, when it was dispatched,
    its `reference`, and what the last look-up answered; `steps` the bodies of reads, computations and models that were
    told; `children` the attached and the detached ones. `stands` are the effects that happened and are not undone.
    """

    who: str
    why: str
    asked_at: int
    accepted: tuple[Seen, ...]
    operations: tuple[OperationLayers, ...]
    steps: tuple[StepLayers, ...]
    children: tuple[ChildLayers, ...]
    stands: tuple[OperationLayers, ...]

    @property
    def unsettled(self) -> tuple[OperationLayers, ...]:
        """The effects of which nobody knows yet what became; until there is none the run is not cancelled."""
        return tuple(one for one in self.operations if one.state in _UNSETTLED)


CONTAINED = "contained"
"""In place of an answer: what kept the target from being asked, for people."""

_UNSETTLED = (OperationState.RESERVED, OperationState.DISPATCHED, OperationState.UNKNOWN)

_ITS_OWN_END = (BODY_ENDED, REPLY, REPLAYED_FAILURE, IN_PROGRESS)
"""The kinds of observation that a body's end leaves."""

_NOT_ITS_OWN = (LOOK_UP, STATEMENT, "not committed")
"""Evidence that settles an attempt without its body."""


def cancellation_of(history: History) -> Cancellation | None:
    """The cancel of a run; None if nobody has asked for one."""
    run = history.run
    if run.cancel is None:
        return None
    asked: dict[str, Any] = json.loads(run.cancel)
    layers = tuple(_operation(one, run) for one in history.operations)
    undone = {one.compensates for one in history.operations if one.state is OperationState.SUCCEEDED}
    effects = {one.position for one in history.operations if one.compensates is None}
    return Cancellation(
        who=str(asked["who"]),
        why=str(asked.get("why", "")),  # of an encrypted ledger whose key is not here the reason is not known
        asked_at=int(asked["at"]),
        accepted=_of_kind(history.observations, CANCEL_ACCEPTED),
        operations=layers,
        steps=_steps(history.observations),
        children=tuple(ChildLayers(one.id, one.parent_step is not None, one.state) for one in history.children),
        stands=tuple(
            one
            for one in layers
            if one.state is OperationState.SUCCEEDED and one.position in effects and one.position not in undone
        ),
    )


def asked_already(operation: Operation, request: int, lease: str) -> bool:
    """Whether the target was asked to cancel the operation for the request of that time.

    Once it has answered, whoever asked; or once by this worker life, answered or not. A former owner that was lost
    between asking and writing the answer down has told nobody, so its heir asks once more. A target that was kept from
    being asked was not asked.
    """
    kept = kept_from_asking(operation)
    sent = {
        seen.seen_at: seen
        for seen in operation.observations
        if seen.kind == CANCEL_SENT and json.loads(seen.evidence).get("asked_at") == request
        if seen.seen_at not in kept
    }
    answered = any(seen.kind == CANCEL_ANSWERED and seen.began_at in sent for seen in operation.observations)
    return answered or any(seen.lease == lease for seen in sent.values())


def kept_from_asking(operation: Operation) -> set[int | None]:
    """When the target would have been asked to cancel the operation, and was contained."""
    return {
        seen.began_at
        for seen in operation.observations
        if seen.kind == CANCEL_ANSWERED and CONTAINED in json.loads(seen.evidence)
    }


def _operation(operation: Operation, run: Run) -> OperationLayers:
    attempt = operation.attempts[-1] if operation.attempts else None
    body, ended_at = (Body.NOT_BEGUN, None) if attempt is None else _body(operation, attempt, run)
    look_up = next((seen for seen in reversed(operation.observations) if seen.kind == LOOK_UP), None)
    return OperationLayers(
        position=operation.position,
        state=operation.state,
        told=_of_kind(operation.observations, BODY_TOLD),
        provider=_provider(operation.observations),
        body=body,
        body_ended_at=ended_at,
        lease=None if attempt is None else attempt.lease,
        dispatched_at=None if attempt is None else attempt.dispatched_at,
        reference=operation.reference,
        looked_up_at=None if look_up is None else look_up.seen_at,
        looked_up=None if look_up is None else look_up.says,
    )


def _body(operation: Operation, attempt: Attempt, run: Run) -> tuple[Body, int | None]:
    of_it = [seen for seen in operation.observations if seen.attempt == attempt.number]
    ended = next((seen for seen in of_it if seen.kind in _ITS_OWN_END and not _runs_on(seen)), None)
    if ended is not None:
        return Body.ENDED, ended.seen_at
    kind = None if attempt.evidence is None else json.loads(attempt.evidence).get("kind")
    if kind == NOT_BEGUN:
        return Body.NOT_BEGUN, None
    if attempt.outcome is not Outcome.UNRESOLVED and kind not in _NOT_ITS_OWN:
        return Body.ENDED, attempt.settled_at
    is_left = any(seen.how == WAITED_NO_LONGER for seen in _of_kind(of_it, BODY_TOLD))
    return (Body.RUNNING if is_left or attempt.generation == run.generation else Body.LOST), None


def _runs_on(seen: Observation) -> bool:
    """Whether it was written down when its thread was waited for no longer."""
    evidence = json.loads(seen.evidence)
    return isinstance(evidence, dict) and evidence.get("thread") == RUNS_ON


def _steps(observations: Iterable[Observation]) -> tuple[StepLayers, ...]:
    by_position: dict[str, list[Observation]] = {}
    for seen in observations:
        if seen.kind in (BODY_TOLD, BODY_ENDED):
            by_position.setdefault(str(json.loads(seen.evidence)["position"]), []).append(seen)
    found = []
    for position, of_it in by_position.items():
        last = of_it[-1] if of_it[-1].kind == BODY_ENDED else None
        body, ended_at = (Body.RUNNING, None) if last is None else (Body.ENDED, last.seen_at)
        found.append(StepLayers(position, _of_kind(of_it, BODY_TOLD), body, ended_at))
    return tuple(found)


def _of_kind(observations: Iterable[Observation], kind: str) -> tuple[Seen, ...]:
    return tuple(
        Seen(seen.seen_at, seen.lease, seen.generation, str(json.loads(seen.evidence).get("how", "")))
        for seen in observations
        if seen.kind == kind
    )


def _provider(observations: Iterable[Observation]) -> tuple[ProviderCancel, ...]:
    every = list(observations)
    answers = {(seen.generation, seen.began_at): seen for seen in every if seen.kind == CANCEL_ANSWERED}
    found = []
    for seen in every:
        if seen.kind == CANCEL_SENT:
            answer = answers.get((seen.generation, seen.seen_at))
            found.append(
                ProviderCancel(
                    seen.seen_at,
                    seen.lease,
                    seen.generation,
                    None if answer is None else answer.seen_at,
                    None if answer is None else answer.evidence,
                )
            )
    return tuple(found)
