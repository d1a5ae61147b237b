"""Takes in what somebody saw who no longer owns the run: a stale worker's reply, a thread that returned too late.

Fence authority, never evidence: the report is appended whatever it says. If the operation is unknown it settles it,
in the same transaction, guarded by the operation's state; a hold whose sole reason was that unknown is lifted. It can
never start anything. Contradictions are flagged and shown.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from fencepost.core.contract import Contract
from fencepost.core.identity import canonical
from fencepost.core.position import effect_position
from fencepost.core.records import REPLY, Audit, History, Observation, Operation
from fencepost.core.recovery import HoldReason
from fencepost.core.states import FINAL_RUN_STATES, OperationState, Outcome, RunState
from fencepost.core.transitions import OPERATION, RUN, OperationEvent, RunEvent
from fencepost.effects.entry import Entry, Owner, Proof, Result
from fencepost.runtime.moves import disown, go_on, move_run
from fencepost.store.api import Group, Store
from fencepost.store.moves import SETTLING, Move, MoveOperation, Observe, Succeed

_NOT_KNOWN = (OperationState.UNKNOWN, OperationState.DISPATCHED)


@dataclass(frozen=True, slots=True)
class Report:
    """What was seen of one attempt: `result` is the canonical text of the step's result, where there is one."""

    run: int
    position: str
    attempt: int
    outcome: Outcome
    evidence: str
    generation: int
    result: str | None = None
    reference: str | None = None


def reports_in(group: Group) -> list[Report]:
    """What the owner of a refused group saw of its attempts."""
    results = {(move.step, move.item): move for move in group.moves if isinstance(move, MoveOperation | Succeed)}
    found = []
    for move in group.moves:
        if isinstance(move, SETTLING):
            operation = results.get((move.step, move.item))
            position = effect_position(move.step, move.item or None)
            found.append(
                Report(
                    group.run,
                    position,
                    move.number,
                    Outcome(move.to),
                    move.evidence,
                    group.generation,
                    result=None if operation is None else operation.result,
                    reference=None if operation is None else operation.reference,
                )
            )
    return found


def take_in(store: Store, report: Report, contract: Contract, *, seen: bool = False) -> History:
    """Append a report, unless it was `seen` to be appended already, and let it settle what it can.

    Returns the run as it is then.
    """

    def decision(history: History, now: int) -> tuple[Sequence[Move], Sequence[Observe], Sequence[Audit]]:
        operation = next((one for one in history.operations if one.position == report.position), None)
        if operation is None or report.attempt > len(operation.attempts):
            return [], [], []
        owner = Owner("", history.run.generation, history.run.state.value)
        entry = Entry(operation, contract, owner)
        outcome = Outcome.UNRESOLVED if operation.refutes(report.outcome, report.evidence) else report.outcome
        says = None if outcome is Outcome.UNRESOLVED else outcome.value
        said = Observation(REPLY, says, report.evidence, now, attempt=report.attempt, current=False)
        observed = [] if seen else [entry.observe(said)._replace(lease=None, generation=report.generation)]
        # The report may stand in the ledger already, so that whoever reads it sees the conflict that is raised here.
        was_in_conflict = operation.conflict = operation.flagged
        # The owner's own attempt: its thread ended before the timeout was written down, or its results were refused.
        own = report.generation == history.run.generation and operation.state is OperationState.DISPATCHED
        moves = _settle(entry, replace(report, outcome=outcome), now, own=own)
        if moves and _was_the_reason(history, operation):
            moves.append(go_on(history.run, now))
        elif operation.conflict and not was_in_conflict and RUN.allows(history.run.state, RunEvent.HOLD):
            moves += _held_for_conflict(history, operation, now)
        return moves, observed, []

    return store.decide(report.run, decision)


def _settle(entry: Entry, report: Report, now: int, *, own: bool) -> list[Move]:
    operation = entry.operation
    known = operation.attempts[report.attempt - 1].outcome
    if report.outcome is Outcome.UNRESOLVED or report.outcome is known:
        return []
    if operation.state is OperationState.UNKNOWN or own:
        outcome = Result(result=report.result, reference=report.reference)
        proof = Proof(report.attempt, report.outcome, report.evidence)
        return entry.settle([proof], now, retryable=True, outcome=outcome, gives_up=False)
    if known is not Outcome.UNRESOLVED and OPERATION.allows(operation.state, OperationEvent.CONTRADICT):
        return entry.raise_conflict(now)
    return []


def _held_for_conflict(history: History, operation: Operation, now: int) -> list[Move]:
    """Stop the run for a person, whoever owns it: what is known contradicts itself."""
    text = canonical({"reason": HoldReason.CONFLICT.value, "step": operation.step, "item": operation.item})
    others = [
        move for move in disown(history, now) if (move.step, move.item or None) != (operation.step, operation.item)
    ]
    return [*others, move_run(history.run, RunEvent.HOLD, now)._replace(hold=text)]


def _was_the_reason(history: History, operation: Operation) -> bool:
    """Whether the run is held for nothing but this operation, which is known now; or for one that is known since then.

    Where several were unknown the hold names the first of them, and whichever is known last ends it.
    """
    run = history.run
    if run.state is not RunState.HELD or run.state in FINAL_RUN_STATES or operation.conflict:
        return False
    hold = json.loads(run.hold or "{}")
    place = (hold.get("step"), hold.get("item"))
    named = next((one for one in history.operations if (one.step, one.item) == place), None)
    if named is None or any(one.state in _NOT_KNOWN or one.conflict for one in history.operations):
        return False
    return named is operation or hold.get("state") == OperationState.UNKNOWN
