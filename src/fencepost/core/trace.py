"""The one trace of a run, made from what its ledger holds: a tree of spans that every reader makes alike.

The trace's id comes from the namespace and the run's id, a span's from where it stands: position and attempt, look-up
or verb. So a replay, a second worker or a person's command never makes another one of the same thing, and a worker that
was killed leaves none out: what it had sent is a span that ended unknown. Nothing of a request, result or reply is in
it, and no reason that a person gave. Handing spans to OpenTelemetry is `runtime.tracing`; laying them out for a person
is `telemetry.tree`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from fencepost.core.records import (
    ASK_AGAIN,
    CONFLICT_SETTLED,
    LOOK_UP,
    REPLY,
    REPORTED,
    STATEMENT,
    Attempt,
    Audit,
    History,
    Observation,
    Operation,
    Run,
    Step,
)
from fencepost.core.standin import is_stand_in
from fencepost.core.states import (
    FINAL_OPERATION_STATES,
    FINAL_RUN_STATES,
    OperationState,
    Outcome,
    RunState,
    StepState,
)

KEY_CHARACTERS = 12
"""How much of an operation's key a span has: enough to find it by."""


class Status(StrEnum):
    """How a span ended: `UNKNOWN` is neither well nor badly, and `OPEN` not at all."""

    OPEN = "open"
    WELL = "ok"
    BADLY = "error"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class TraceSpan:
    """One thing that a run did, or that was done to it.

    `parent` is the id of the span around it, None for the run itself. Times are microseconds of the store's clock;
    `ended_at` is None while it goes on. What had a beginning and left no end ended, at the latest, when somebody went
    on. `settled_at`: since when what is said here is all that will be; None: it may still be said otherwise.
    """

    id: str
    parent: str | None
    name: str
    kind: str
    began_at: int
    ended_at: int | None
    status: Status
    says: str
    attributes: dict[str, str | int | bool]
    settled_at: int | None


@dataclass(frozen=True, slots=True)
class Trace:
    """The trace of one run: its id (32 hexadecimal digits), and its spans, each behind the one that it is in."""

    id: str
    namespace: str
    run_id: str
    spans: list[TraceSpan]

    def below(self, parent: str | None) -> list[TraceSpan]:
        """The spans right below one, in the order of their beginning."""
        return sorted((one for one in self.spans if one.parent == parent), key=lambda one: one.began_at)


class Ids:
    """The ids of one run's trace. `turn` is that of a run that has continued; only the first needs none."""

    __slots__ = ("run", "trace", "turn")

    def __init__(self, namespace: str, run_id: str, turn: int = 0) -> None:
        self.trace = hashlib.sha256(f"fencepost trace\0{namespace}\0{run_id}".encode()).hexdigest()[:32]
        self.turn = turn
        self.run = self._id("run" if turn == 0 else "turn")

    @classmethod
    def of(cls, run: Run) -> Ids:
        """Those of a run, or of one turn of it."""
        return cls(run.namespace, run.id, run.turn)

    def step(self, position: str) -> str:
        """The span of an effect or another step."""
        return self._id("step", position)

    def attempt(self, position: str, number: int) -> str:
        """The span of one attempt of an effect."""
        return self._id("attempt", position, number)

    def within(self, what: str, position: str, number: int) -> str:
        """The span of one of several things of a kind that belong to a step."""
        return self._id(what, position, number)

    def traceparent(self, span: str, *, is_sampled: bool = True) -> str:
        """What a request carries that is sent within a span, as W3C Trace Context has it."""
        return f"00-{self.trace}-{span}-{is_sampled:02}"

    def _id(self, *place: str | int) -> str:
        text = "\0".join((self.trace, str(self.turn), *map(str, place)))
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def trace_of(turns: Sequence[History], audits: Iterable[Audit] = ()) -> Trace:
    """The trace of a run, from the histories of its turns in their order, and what was done to it by verbs.

    Without its first turn, the later ones hang from the span that is not there.
    """
    assert turns, "a run has at least one turn"
    first = turns[0].run
    root = Ids(first.namespace, first.id)
    spans = [one for history in turns for one in _turn(history, root)]
    spans += _verbs(audits, turns[-1], root)
    return Trace(root.trace, first.namespace, first.id, spans)


def _turn(history: History, root: Ids) -> Iterator[TraceSpan]:
    run, ids = history.run, Ids.of(history.run)
    said: dict[str, str | int | bool] = {
        "run.id": run.id,
        "namespace": run.namespace,
        "workflow": run.workflow,
        "workflow.version": run.workflow_version,
        "generation": run.generation,
    }
    if run.turn:
        said["turn"] = run.turn
    yield TraceSpan(
        ids.run,
        root.run if run.turn else None,
        f"{run.workflow} {run.workflow_version}",
        "turn" if run.turn else "run",
        run.created_at,
        run.ended_at,
        _of_run(run),
        run.state.value,
        said,
        run.ended_at,
    )
    children = {child.parent_step: child for child in history.children if child.parent_step is not None}
    for step in history.steps:
        if step.kind != "progress":
            yield _step(step, ids, children.get(step.position))
    for operation in history.operations:
        yield from _operation(operation, ids)
    yield from _hold(run, ids)


_ENDED_WELL = frozenset({RunState.SUCCEEDED, RunState.COMPENSATED, RunState.CONTINUED})


def _of_run(run: Run) -> Status:
    if run.state not in FINAL_RUN_STATES:
        return Status.OPEN
    return Status.WELL if run.state in _ENDED_WELL else Status.BADLY


_OF_STEP = {
    StepState.OPEN: Status.OPEN,
    StepState.DONE: Status.WELL,
    StepState.FAILED: Status.BADLY,
    StepState.CANCELLED: Status.WELL,
}


def _step(step: Step, ids: Ids, child: Run | None) -> TraceSpan:
    said: dict[str, str | int | bool] = {"position": step.position}
    if child is not None:
        said |= {"child.run.id": child.id, "child.trace": Ids.of(child).trace}
    name = step.kind if step.name in ("", step.kind) else f"{step.kind} {step.name}"
    status, own, closed = _OF_STEP[step.state], ids.step(step.position), step.closed_at
    return TraceSpan(own, ids.run, name, step.kind, step.opened_at, closed, status, step.state.value, said, closed)


# -- effects ----------------------------------------------------------------------------------------------------------

_OF_OPERATION = {
    OperationState.RESERVED: Status.OPEN,
    OperationState.DISPATCHED: Status.OPEN,
    OperationState.UNKNOWN: Status.UNKNOWN,
    OperationState.SUCCEEDED: Status.WELL,
    OperationState.FAILED: Status.BADLY,
    OperationState.CANCELLED: Status.WELL,
}


def _operation(operation: Operation, ids: Ids) -> Iterator[TraceSpan]:
    position, settled = operation.position, _settled_at(operation)
    said: dict[str, str | int | bool] = {
        "position": position,
        "effect": operation.effect,
        "operation.key": operation.key[:KEY_CHARACTERS],
        "generation": operation.generation,
        "attempts": len(operation.attempts),
        "look_ups": operation.lookups,
    }
    if operation.item is not None:
        said["item"] = operation.item
    if operation.compensates is not None:
        said["compensates"] = operation.compensates
    if operation.conflict:
        said["conflict"] = True
    kind = "effect" if operation.compensates is None else "compensation"
    own = ids.step(position)
    yield TraceSpan(
        own,
        ids.run,
        f"{kind} {operation.step}",
        kind,
        operation.reserved_at,
        settled,
        Status.UNKNOWN if operation.conflict else _OF_OPERATION[operation.state],
        operation.state.value + (", CONFLICT" if operation.conflict else ""),
        said,
        settled,
    )
    for attempt in operation.attempts:
        if attempt.number > 1:
            yield _sent_again(attempt, operation, ids)
        yield _attempt(attempt, operation, ids)
    asked = 0
    for number, seen in enumerate(operation.observations, 1):
        if seen.kind == LOOK_UP:
            asked += 1
            yield _look_up(seen, asked, operation, ids)
        elif seen.kind == REPLY and not seen.current:
            yield _late(seen, number, operation, ids)


def _settled_at(operation: Operation) -> int | None:
    """When an operation was known for good; its row may have changed since, only because it was delivered."""
    if operation.state not in FINAL_OPERATION_STATES or operation.conflict:
        return None
    settled = [attempt.settled_at for attempt in operation.attempts if attempt.settled_at is not None]
    settled += [seen.seen_at for seen in operation.observations if seen.kind == CONFLICT_SETTLED]
    return max(settled, default=operation.changed_at)


def _attempt(attempt: Attempt, operation: Operation, ids: Ids) -> TraceSpan:
    """An attempt of which its own process brought no outcome ended when others went on, and nobody knew how."""
    learnt = None if attempt.outcome is Outcome.UNRESOLVED else _how_learnt(attempt)
    is_unknown = attempt.outcome is Outcome.UNRESOLVED or learnt is not None
    is_open = operation.state is OperationState.DISPATCHED and attempt is operation.attempts[-1]
    if is_open:
        status, says, ended = Status.OPEN, "being sent", None
    elif is_unknown:
        status, ended = Status.UNKNOWN, _gone_on_at(attempt, operation)
        says = "ended unknown" if learnt is None else f"ended unknown; {attempt.outcome} by {learnt}"
    else:
        status = Status.WELL if attempt.outcome is Outcome.APPLIED else Status.BADLY
        says, ended = attempt.outcome.value, attempt.settled_at
    said: dict[str, str | int | bool] = {
        "attempt": attempt.number,
        "operation.key": operation.key[:KEY_CHARACTERS],
        "generation": attempt.generation,
        "lease": attempt.lease,
        "outcome": attempt.outcome.value,
    }
    if attempt.sends is not None:
        said["sends"] = attempt.sends
    if learnt is not None:
        said["learnt.by"] = learnt
    own, parent = ids.attempt(operation.position, attempt.number), ids.step(operation.position)
    name, settled = f"attempt {attempt.number}", _settled_at(operation)
    return TraceSpan(own, parent, name, "attempt", attempt.dispatched_at, ended, status, says, said, settled)


_OF_ITSELF = frozenset({"reply", "no reply", "returned", "raised"})
"""Kinds of evidence that an attempt's own process brought."""


def _how_learnt(attempt: Attempt) -> str | None:
    """By what the outcome of an attempt was learnt that did not say so itself; None: it did, or nobody can tell."""
    if attempt.evidence is None or is_stand_in(attempt.evidence):
        return None
    told = json.loads(attempt.evidence)
    kind = told.get("kind") if isinstance(told, dict) else None
    return None if kind is None or kind in _OF_ITSELF else str(kind)


_GOES_ON = frozenset({LOOK_UP, STATEMENT, CONFLICT_SETTLED, ASK_AGAIN, REPORTED})


def _gone_on_at(attempt: Attempt, operation: Operation) -> int:
    """The first sign that the attempt was over: nothing of it was written down by whoever made it."""
    began = attempt.dispatched_at
    signs = [later.dispatched_at for later in operation.attempts if later.number > attempt.number]
    signs += [seen.began_at or seen.seen_at for seen in operation.observations if seen.kind in _GOES_ON]
    signs += [seen.seen_at for seen in operation.observations if seen.kind == REPLY and seen.attempt == attempt.number]
    if attempt.settled_at is not None:
        signs.append(attempt.settled_at)
    return min((at for at in signs if at >= began), default=operation.changed_at)


def _sent_again(attempt: Attempt, operation: Operation, ids: Ids) -> TraceSpan:
    """The decision to send again: after what the attempts before were then known to be."""
    earlier = operation.attempts[: attempt.number - 1]
    open_then = [one for one in earlier if one.settled_at is None or one.settled_at > attempt.dispatched_at]
    unknown = [one for one in open_then if one.outcome is not Outcome.NOT_APPLIED] or open_then
    says = "under the same key, what came before is unknown" if unknown else "what came before did not happen"
    said: dict[str, str | int | bool] = {"attempt": attempt.number, "unknown.before": len(unknown)}
    own, at = ids.within("decision", operation.position, attempt.number), attempt.dispatched_at
    parent = ids.step(operation.position)
    return TraceSpan(own, parent, "decision: send again", "decision", at, at, Status.WELL, says, said, at)


def _look_up(seen: Observation, number: int, operation: Operation, ids: Ids) -> TraceSpan:
    said: dict[str, str | int | bool] = {"look_up": number, "operation.key": operation.key[:KEY_CHARACTERS]}
    if seen.generation is not None:
        said["generation"] = seen.generation
    if seen.lease:
        said["lease"] = seen.lease
    says = seen.says or "no answer"
    status = Status.WELL if says in ("found", "absent") else Status.UNKNOWN
    own, parent = ids.within("look-up", operation.position, number), ids.step(operation.position)
    began = seen.seen_at if seen.began_at is None else seen.began_at
    return TraceSpan(own, parent, f"look-up {number}", "look-up", began, seen.seen_at, status, says, said, seen.seen_at)


def _late(seen: Observation, number: int, operation: Operation, ids: Ids) -> TraceSpan:
    """The word of a worker that did not own the run any more: refused as a write, and kept as evidence."""
    said: dict[str, str | int | bool] = {"attempt": seen.attempt or 0}
    if seen.generation is not None:
        said["generation"] = seen.generation
    says = f"{seen.says or 'no outcome'}, refused as a write and kept as evidence"
    own, parent = ids.within("late reply", operation.position, number), ids.step(operation.position)
    at = seen.seen_at
    return TraceSpan(own, parent, "late reply", "late reply", at, at, Status.UNKNOWN, says, said, at)


# -- persons ----------------------------------------------------------------------------------------------------------


def _hold(run: Run, ids: Ids) -> Iterator[TraceSpan]:
    """The decision to ask a person, while it stands."""
    if run.hold is None or is_stand_in(run.hold):
        return
    hold = json.loads(run.hold)
    reason = str(hold.get("reason", "")) if isinstance(hold, dict) else ""
    at = run.changed_at
    said: dict[str, str | int | bool] = {"reason": reason}
    yield TraceSpan(
        ids.within("hold", "", run.generation), ids.run, "decision: ask a person", "decision", at, None, Status.OPEN,
        reason, said, None,
    )  # fmt: skip


def _verbs(audits: Iterable[Audit], last: History, root: Ids) -> Iterator[TraceSpan]:
    ids = Ids.of(last.run)
    steps = {(one.step, one.item): ids.step(one.position) for one in last.operations}
    for row in audits:
        said: dict[str, str | int | bool] = {"actor": row.actor, "audit.number": row.no}
        own = root.within("verb", row.verb, row.no)
        parent = steps.get((row.step or "", row.item), root.run)
        done = row.outcome == "done"
        says, status = f"{row.outcome}, by {row.actor}", Status.WELL if done else Status.BADLY
        yield TraceSpan(own, parent, f"verb {row.verb}", "verb", row.at, row.at, status, says, said, row.at)
