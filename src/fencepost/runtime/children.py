"""Child runs: starts those that a workflow asks for, and stops those that nobody waits for any more.

A child is a run of its own, written in its parent's commit; whichever worker carries its workflow lives it, and its end
wakes the parent (a trigger of the ledger). How it ended becomes the answer at the parent's position. A parent ends only
when its attached children have ended: those of a lost branch or a cancelled run are cancelled first. That is done after
the commit of what it rests on, and again by whoever brings the parent back.

The rows of a parent's positions are kept in `positions`; compensating children is `compensating`'s part.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from fencepost.core.compensation import to_settle_first
from fencepost.core.duration import SECOND
from fencepost.core.errors import (
    ChildRefused,
    CompensationIncomplete,
    ErrorRecord,
    FencepostError,
    Misuse,
    NotPermitted,
    RunCancelled,
    RunEnded,
    RunTerminated,
    VerbRefused,
)
from fencepost.core.identity import canonical, check_run_id, digest_text
from fencepost.core.records import History, Run
from fencepost.core.states import OperationState, RunState
from fencepost.effects.conclusion import Concluded, Later
from fencepost.runtime import verbs
from fencepost.runtime.applicable import leaves_something, may_be_cancelled
from fencepost.runtime.replay import OPERATORS
from fencepost.runtime.report import LEFT
from fencepost.store.api import Answer
from fencepost.store.moves import StartChild

if TYPE_CHECKING:
    from fencepost.core.asks import ChildAsk, CompensateAsk, StepAsk
    from fencepost.effects.declare import Bound
    from fencepost.runtime.execution import Execution
    from fencepost.runtime.host import Host
    from fencepost.runtime.workflow import Workflow

R_co = TypeVar("R_co", covariant=True)

LOOK_AGAIN = SECOND
"""How soon a parent asks again whether the unknown operation of a child is known; a child's end wakes it anyway."""


class ChildCall(Generic[R_co]):
    """A workflow with its arguments, to be started as the child of that id."""

    __slots__ = ("detached", "fingerprint", "id", "input", "input_fingerprint", "workflow")

    def __init__(
        self,
        workflow: Workflow[..., R_co],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        id: str,
        detached: bool,
    ) -> None:
        self.workflow = workflow
        self.id = check_run_id(id)
        self.detached = detached
        self.input, self.input_fingerprint = workflow.encode(args, kwargs)
        self.fingerprint = digest_text(canonical([self.id, detached, self.input_fingerprint]).encode())

    @property
    def version(self) -> int:
        """The version of the child's workflow."""
        return self.workflow.version

    def decode(self, payload: str) -> Any:
        """The child's result from its stored text; of a detached child, its id."""
        return self.id if self.detached else self.workflow.results.decode(payload)


def answer_of(child: Run) -> tuple[str | None, ErrorRecord | None]:
    """What the parent is told of a child that has ended: the text of its result, or the error that it ended with."""
    if child.state in (RunState.SUCCEEDED, RunState.COMPENSATED) and child.result is not None:
        return child.result, None
    if child.error is not None:
        return None, ErrorRecord.from_text(child.error)
    kind, text = _ENDED_WITH.get(child.state, (CompensationIncomplete, f"the run is {child.state}"))
    return None, ErrorRecord.of(kind, text)


_ENDED_WITH: dict[RunState, tuple[type[FencepostError], str]] = {
    RunState.CANCELLED: (RunCancelled, "the run was cancelled"),
    RunState.TERMINATED: (RunTerminated, "a person ended the run"),
    RunState.COMPENSATED: (RunEnded, "the run was compensated before it had a result"),
}


async def start(execution: Execution, ask: ChildAsk) -> Any:
    """Begin a child that has no row yet; what the parent's workflow goes on with if it is detached."""
    call: ChildCall[Any] = ask.call  # type: ignore[assignment]  # the facade hands in its own calls
    try:
        await _require_free(execution, call)
    except Misuse as error:
        execution.hold_for(error, at=ask.position)
        return None
    if execution.is_over() or execution.is_withdrawn(ask.position):
        return None  # nothing new begins in a branch that was cancelled meanwhile
    run, now = execution.history.run, execution.host.now()
    number = execution.delivered + 1 if call.detached else None
    moves = execution.positions.open_child(ask, call.id, number, now)
    workflow = call.workflow
    moves.append(
        StartChild(
            run.no, run.generation, call.id, workflow.name, workflow.version, call.input, call.input_fingerprint,
            None if call.detached else ask.position, now, workflow.queue,
        )
    )  # fmt: skip
    if call.detached:
        return execution.conclude(ask, Concluded(moves, [], now, canonical(call.id)))
    await execution.record(moves, [])
    execution.host.wake()
    return None


async def _require_free(execution: Execution, call: ChildCall[Any]) -> None:
    """Raise `ChildRefused` for an id that another run has, or a workflow that this process does not know."""
    host, run, workflow = execution.host, execution.history.run, call.workflow
    ids = {"run": run.id, "child": call.id}
    if host.workflows.get((workflow.name, workflow.version)) is not workflow:
        raise ChildRefused(
            f"{workflow!r} is not one of this app's workflows", hint="pass it to App(workflows=[...])", ids=ids
        )
    found = await asyncio.to_thread(host.store.find, run.namespace, call.id)
    if found is not None:
        raise ChildRefused(
            f"a run with the id {call.id!r} exists already, and is not the child that this position has started",
            hint="take the child's id from its own business event; a repeated one (a loop, another turn) needs another",
            ids=ids,
        )


async def stop(execution: Execution, position: str) -> None:
    """Cancel the child of a position that nobody waits for any more; the parent ends when it has ended."""
    if await execution.record([], []) is not Answer.MOVED:
        return  # what the cancel rests on must be durable first
    parent, why = execution.history.run, "its parent waits for it no longer"
    await asyncio.to_thread(_cancel, execution.host, parent, position, reason=why)
    execution.host.wake()


def _cancel(host: Host, parent: Run, position: str, *, reason: str) -> None:
    for child in host.store.children(parent.no):
        if child.parent_step == position and may_be_cancelled(child):
            with suppress(VerbRefused):  # it has ended in this moment
                verbs.cancel(host, child, by=f"run {parent.id}", reason=reason)


async def is_in_the_way(execution: Execution, ask: StepAsk) -> bool:
    """Whether this effect may not begin now, since an attached child has an unknown one; or not any more."""
    later = await _in_the_way(execution, ask)
    if later is not None:
        execution.later[ask.position] = later
    return later is not None or execution.is_withdrawn(ask.position) or execution.is_over()


async def _in_the_way(execution: Execution, ask: StepAsk) -> Later | None:
    """Law 3 across attached children: when to ask again, if a new effect may not begin for an unknown one of theirs."""
    bound: Bound[Any] = ask.call  # type: ignore[assignment]  # the facade hands in bound steps
    known = execution.operations.get(ask.position)
    contract = bound.effect.contract
    if (known is not None and known.state not in _NOT_BEGUN) or contract.repeatable or contract.independent:
        return None
    unknown = await unknown_below(execution, execution.history.run.no)
    if unknown is None:
        return None
    return Later(until=execution.host.now() + LOOK_AGAIN, why=f"{unknown} is unknown")


_NOT_BEGUN = (OperationState.RESERVED, OperationState.CANCELLED)


async def unknown_below(execution: Execution, run: int) -> str | None:
    """An operation that is unknown in a child attached to this turn of the run, or in one of its own."""
    found = await asyncio.to_thread(execution.host.store.unknown_below, run)
    return found[0] if found else None


async def compensate_child(
    execution: Execution, child: Run, ask: CompensateAsk, *, within: int
) -> tuple[str, str] | Later | None:
    """Have a child that has ended compensated, by the verb that a person has and under the roles of whoever asks.

    One that was ended over an unknown effect is among them: only a life of its own settles what it has sent.
    Returns what became of it and why, `Later` (to look again `within` that time) while it is at work, or None where
    nothing of it stands.
    """
    host, parent = execution.host, execution.history.run
    tag = f"run {parent.id} at {ask.position}"
    history = await asyncio.to_thread(host.store.load, child.no)
    later = Later(until=host.now() + within, why=f"child run {child.id} is compensated")
    if history.run.ended_at is None:
        return later
    if history.run.state is RunState.COMPENSATED:
        return "compensated", ""
    if _was_compensated_by(history, tag):
        return "failed", f"run {child.id} is {history.run.state}"
    if not leaves_something(history) and not to_settle_first(history.operations):
        return None
    try:
        await asyncio.to_thread(
            verbs.compensate, host, history.run, by=tag, reason=ask.reason or "its parent is", roles=ask.roles
        )
    except NotPermitted as refused:
        return "not permitted", refused.message
    except Misuse as refused:
        return "not settled", refused.message
    host.wake()
    return later


async def child_as_it_stands(execution: Execution, child: Run) -> tuple[str, str] | None:
    """What is to be said of a child that is left as it is; None where nothing of it stands."""
    history = await asyncio.to_thread(execution.host.store.load, child.no)
    if history.run.state is RunState.COMPENSATED:
        return "compensated", ""
    return (LEFT, "") if leaves_something(history) or to_settle_first(history.operations) else None


def _was_compensated_by(history: History, by: str) -> bool:
    """Whether `by` has asked for the run's compensation before."""
    asked = (json.loads(step.detail or "{}") for step in history.steps if step.position.startswith(OPERATORS))
    return any(one.get("by") == by for one in asked)


COMPENSATED_WITHIN = 60 * SECOND
"""How long a parent waits before it looks by itself; the child's end wakes it."""
