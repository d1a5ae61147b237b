"""What a person may do to a run: each verb one transaction, with the guards that automatic recovery obeys, audited.

A verb reads the run under the write lock, checks the law and the row version the person saw, changes it and writes one
audit row, all at once. A verb that does not apply raises `VerbRefused`, changes nothing, and leaves a row too, as does
one that was called wrongly; so does the second click. Screens and the command line call these functions and no others.
Some have a file of their own: `compensate` and `compensate_step` are in `going_back`, `redecide` in `redeciding`, and
`forward` in its own. How one is carried out is `deeds`; the states are in `core.transitions`.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from fencepost.core.contract import Contract
from fencepost.core.duration import SECOND, spelled
from fencepost.core.errors import ValueRefused, VerbRefused
from fencepost.core.identity import canonical
from fencepost.core.records import (
    ASK_AGAIN,
    CONFLICT_SETTLED,
    STATEMENT,
    Audit,
    History,
    Observation,
    Operation,
    Run,
    Step,
)
from fencepost.core.recovery import BY_ONE_CLOCK, Moment, absence_is_proof, span_remaining, was_reported
from fencepost.core.states import COMPENSATED, FINAL_OPERATION_STATES, OperationState, Outcome, RunState, StepState
from fencepost.core.transitions import RUN, STEP, OperationEvent, RunEvent, StepEvent
from fencepost.effects.deliberate import renewed
from fencepost.effects.entry import Entry, Owner, Result
from fencepost.runtime import audit
from fencepost.runtime.applicable import lacks_result, may_be_cancelled, may_be_reconciled
from fencepost.runtime.blame import blamed
from fencepost.runtime.deeds import Deed, Desk, after_moves, effect_of, entry_of, operation_in, perform
from fencepost.runtime.forward import forward
from fencepost.runtime.going_back import compensate, compensate_step
from fencepost.runtime.kinship import require_no_way_back_above
from fencepost.runtime.moves import ask_to_cancel, disown, does_not_apply, go_on, move_run, require_no_rival
from fencepost.runtime.redeciding import redecide
from fencepost.runtime.replay import chosen
from fencepost.store.moves import Move, MoveRun, MoveStep, Observe

__all__ = [
    "cancel",
    "compensate",
    "compensate_step",
    "forward",
    "reconcile",
    "redecide",
    "reopen",
    "resume",
    "retry",
    "settle",
    "settle_conflict",
    "terminate",
]

# -- the verbs ------------------------------------------------------------------------------------------------------


def cancel(app: Desk, run: Run, *, by: str, reason: str, version: int | None = None) -> Run:
    """Stop what has not begun. What was sent is settled first; the run is cancelled when every operation is known.

    Its attached children are cancelled in the same write; a detached one is a run of its own.
    """

    def deed(history: History, now: int) -> Deed:
        move = ask_to_cancel(history.run, now, by=by, reason=reason)
        moves, rows = _cancel_children(history, now, f"its parent was cancelled: {reason}")
        return Deed([move, *moves], [], rows)

    return perform(app, run, "cancel", by=by, reason=reason, version=version, deed=deed).run


def terminate(app: Desk, run: Run, *, by: str, reason: str, version: int | None = None) -> Run:
    """End the run at once, whatever it is doing. Its effects stand; a result that comes later is kept as evidence.

    Its attached children are cancelled in the same write: there is nobody any more who would.
    """

    def deed(history: History, now: int) -> Deed:
        moves, rows = _cancel_children(history, now, f"its parent was terminated: {reason}")
        move = move_run(history.run, RunEvent.TERMINATE, now)
        return Deed([*disown(history, now), *moves, move._replace(ended_at=now)], [], rows)

    return perform(app, run, "terminate", by=by, reason=reason, version=version, deed=deed).run


def _disputed(run: Run, *operations: Operation) -> VerbRefused:
    """The refusal of a verb that needs to know what became of these operations."""
    return VerbRefused(
        f"the evidence of {', '.join(one.position for one in operations)} contradicts itself",
        hint="put the target right, then `fencepost settle --conflict`",
        ids={"run": run.id},
    )


def _cancel_children(history: History, now: int, why: str) -> tuple[list[MoveRun], list[Audit]]:
    """Cancel the attached children of a run that would wait for them no longer, with their audit rows."""
    actor = f"run {history.run.id}"
    children = [child for child in history.children if child.parent_step is not None and may_be_cancelled(child)]
    moves = [ask_to_cancel(child, now, by=actor, reason=why) for child in children]
    rows = [_audited_cancel(child, move, by=actor, reason=why) for child, move in zip(children, moves, strict=True)]
    return moves, rows


def _audited_cancel(child: Run, move: MoveRun, *, by: str, reason: str) -> Audit:
    before, after = audit.summary(child), audit.summary(after_moves(child, [move]))
    return audit.row(History(child), verb="cancel", by=by, reason=reason, now=move.at, before=before, after=after)


def resume(app: Desk, run: Run, *, by: str, reason: str, version: int | None = None) -> Run:
    """Let a held or failed run go on.

    A held run does what it was doing; an operation that failed for good raises its error inside the workflow. Of a
    failed run the answers whose errors ended it are taken back and asked for again, after the code was mended; a wait
    that expired gets its whole time once more.
    """

    def deed(history: History, now: int) -> Deed:
        if history.run.state is RunState.FAILED:
            require_no_rival(history)
            return Deed([*_take_back(app, history, now), move_run(history.run, RunEvent.RESUME, now)], [])
        if history.run.state is not RunState.HELD:
            raise does_not_apply("resume", history.run)
        unknown = [one for one in history.operations if one.state is OperationState.UNKNOWN]
        return Deed([*_renewed_steps(history, now), go_on(history.run, now)], _ask_again(unknown, now))

    guard = require_no_way_back_above
    return perform(app, run, "resume", by=by, reason=reason, version=version, deed=deed, guard=guard).run


def retry(
    app: Desk, run: Run, *, step: str, item: str | None = None, by: str, reason: str, version: int | None = None
) -> Run:
    """Give an operation that failed for good a new budget, and let its run go on."""

    def deed(history: History, now: int) -> Deed:
        if history.run.state is not RunState.HELD:
            raise does_not_apply("retry", history.run)
        operation = operation_in(history, step, item)
        if operation.state is not OperationState.FAILED:
            raise VerbRefused(f"{operation.position} is {operation.state}, not failed", ids={"run": run.id})
        if operation.position in chosen(history):
            raise VerbRefused(f"another way was chosen for {operation.position}", ids={"run": run.id})
        entry = entry_of(app, history, operation)
        operation.budget_from = now
        return Deed([entry.move(OperationEvent.RETRY, now), go_on(history.run, now)], [])

    found = (step, item)
    return perform(app, run, "retry", by=by, reason=reason, version=version, deed=deed, operation=found).run


def settle(
    app: Desk,
    run: Run,
    *,
    step: str,
    item: str | None = None,
    happened: bool,
    by: str,
    reason: str,
    result: str | None = None,
    reference: str | None = None,
    override: bool = False,
    version: int | None = None,
) -> Run:
    """Say of an unknown operation whether it happened, with the reason as evidence; its run goes on by itself.

    `happened`: give the step's `result` as JSON, or the `reference` of the remote object, which a result may hold too.
    Did not happen: believed as a look-up's absence would be, after the span; before it only as a named `override`,
    which loses the guarantee.
    """

    def deed(history: History, now: int) -> Deed:
        operation = operation_in(history, step, item)
        if operation.conflict:
            raise _disputed(run, operation)
        unknown = operation.state is OperationState.UNKNOWN
        if not unknown and not lacks_result(operation):
            raise VerbRefused(f"{operation.position} is {operation.state}, not unknown", ids={"run": run.id})
        if not unknown and not happened:
            raise VerbRefused(
                f"{operation.position} is known to have happened; only its result is missing",
                hint="give its result or reference",
                ids={"run": run.id},
            )
        entry = entry_of(app, history, operation)
        statement = {"kind": "statement", "by": by, "reason": reason, "override": override, "reference": reference}
        evidence = canonical(statement)
        says = "applied" if happened else "not applied"
        seen = entry.observe(Observation(STATEMENT, says, evidence, now, current=False))
        if happened:
            moves = _happened(entry, evidence, now, _outcome(app, operation, result, reference, override=override))
        else:
            _require_proof(app, history, operation, now, override=override)
            moves = entry.prove_absent(evidence, now)
        if history.run.ended_at is None:  # whoever is at work on it has not heard of this, and is to begin nothing more
            moves += [*disown(history, now), *at_once(history.run, now)]
        return Deed(moves, [seen])

    asked = {"happened": happened, "result": result, "reference": reference, "override": override}
    return perform(
        app, run, "settle", by=by, reason=reason, version=version, deed=deed, operation=(step, item),
        override=override and not happened, asked=asked,
    ).run  # fmt: skip


def settle_conflict(
    app: Desk,
    run: Run,
    *,
    step: str,
    item: str | None = None,
    happened: bool,
    by: str,
    reason: str,
    result: str | None = None,
    reference: str | None = None,
    override: bool = False,
    version: int | None = None,
) -> Run:
    """Say that what contradicted itself was put right at the target, and what stands there now; `reason` is evidence.

    `happened`: the effect stands, once; otherwise nothing of it does, which is believed as in `settle`. What the
    workflow was told already cannot be said otherwise: there the target has to be brought to it. The run, if it was
    held, goes on; one that has ended stays ended, and may be reopened.
    """

    def deed(history: History, now: int) -> Deed:
        operation = operation_in(history, step, item)
        _require_conflict(history, operation, happened=happened)
        entry = entry_of(app, history, operation)
        if not happened:
            _require_proof(app, history, operation, now, override=override)
        statement = {"kind": CONFLICT_SETTLED, "by": by, "reason": reason, "override": override, "happened": happened}
        evidence = canonical(statement | {"reference": reference})
        says = "applied" if happened else "not applied"
        seen = entry.observe(Observation(CONFLICT_SETTLED, says, evidence, now, current=False))
        left = _outcome(app, operation, result, reference, override=override) if happened else Result()
        moves = entry.settle_conflict(evidence, now, happened=happened, outcome=left)
        if history.run.state is RunState.HELD:
            moves.append(go_on(history.run, now))
        return Deed(moves, [seen])

    asked = {"happened": happened, "result": result, "reference": reference, "override": override}
    return perform(
        app, run, "settle conflict", by=by, reason=reason, version=version, deed=deed, operation=(step, item),
        override=override and not happened, asked=asked,
    ).run  # fmt: skip


def reconcile(
    app: Desk, run: Run, *, step: str | None = None, item: str | None = None, by: str, reason: str,
    version: int | None = None,
) -> Run:  # fmt: skip
    """Have the targets of a run's unknown operations asked now, whatever they answered so far; or that of one `step`.

    A run that somebody owns is taken from its owner: whoever claims it next asks first.
    """

    def deed(history: History, now: int) -> Deed:
        unknown = [one for one in history.operations if one.state is OperationState.UNKNOWN and not one.conflict]
        if step is not None:
            unknown = [one for one in unknown if one is operation_in(history, step, item)]
        if not unknown or not may_be_reconciled(history):
            raise VerbRefused(
                "there is nothing unknown to ask about" if not unknown else f"the run is {history.run.state}",
                hint="`fencepost show` lists the verbs",
                ids={"run": run.id},
            )
        owner = Owner("", history.run.generation, history.run.state.value)
        entries = [Entry(one, Contract(one.effect), owner) for one in unknown]
        asked: list[Move] = [entry.move(OperationEvent.LOSE, now) for entry in entries]
        return Deed([*asked, *disown(history, now), *at_once(history.run, now)], _ask_again(unknown, now))

    found = None if step is None else (step, item)
    return perform(app, run, "reconcile", by=by, reason=reason, version=version, deed=deed, operation=found).run


def reopen(app: Desk, run: Run, *, by: str, reason: str, version: int | None = None) -> Run:
    """Let a run that has ended go on from where it ended: what is recorded is replayed, and nothing is asked again.

    It is the only way in which one that was terminated, was cancelled or has succeeded moves again, short of being
    compensated. One that was being cancelled goes on cancelling, and one that was being compensated goes on with that.
    What has ended compensated, in whole or in part, is not reopened: what it has recorded does not stand any more. A
    conflict has to be settled first.
    """

    def deed(history: History, now: int) -> Deed:
        disputed = [one for one in history.operations if one.conflict]
        if disputed:
            raise _disputed(run, *disputed)
        if history.run.state in COMPENSATED:
            raise VerbRefused(
                "the run's effects were compensated, and its code would go on as if they stood",
                hint="`compensate` what still stands; what is wanted anew is a run of its own, under another id",
                ids={"run": run.id},
            )
        if not RUN.allows(history.run.state, RunEvent.REOPEN):
            raise does_not_apply("reopen", history.run)
        require_no_rival(history)
        again = move_run(history.run, RunEvent.REOPEN, now)._replace(wake_at=now)
        if history.run.cancel is None:
            return Deed([again])
        opened = replace(history.run, state=RunState.READY, generation=history.run.generation + 1)
        return Deed([again, move_run(opened, RunEvent.CANCEL, now, raises=False)._replace(wake_at=now)])

    guard = require_no_way_back_above
    return perform(app, run, "reopen", by=by, reason=reason, version=version, deed=deed, guard=guard).run


# -- shared by the verbs ----------------------------------------------------------------------------------------------


def _happened(entry: Entry, evidence: str, now: int, outcome: Result) -> list[Move]:
    if entry.operation.state is OperationState.SUCCEEDED:
        return [entry.move(OperationEvent.APPLY, now, outcome)]
    return entry.prove_happened(evidence, now, outcome)


def _outcome(app: Desk, operation: Operation, text: str | None, reference: str | None, *, override: bool) -> Result:
    """What a person says an operation left behind: a result of the step's type, and the remote object's id."""
    effect = effect_of(app, operation)
    result = None
    if text is not None:
        try:
            value = effect.results.decode(text)
            result = effect.results.encode(value)
        except ValueRefused as error:
            raise VerbRefused(
                f"the given result is refused: {error.message}", hint=error.hint, ids=error.ids
            ) from error
        reference = reference or effect.reference_of(value)
    if effect.declared.reference is not None and not (reference or operation.reference or override):
        raise VerbRefused(
            f"{operation.position} needs the remote object's id: its compensation or its later steps rest on it",
            hint="give the reference, or override if it has none",
        )
    return Result(result=result, reference=reference)


def _require_proof(app: Desk, history: History, operation: Operation, now: int, *, override: bool) -> None:
    """A person's "did not happen" obeys the rule that a look-up's absence obeys (`protocol` D6)."""
    if override:
        return
    contract = effect_of(app, operation).contract
    # A person has no boot-time clock of their own: since the run was held nobody sends, by the ledger's clock.
    moment = Moment(now, owned_for=now - history.run.changed_at, scope=operation.scope)
    if was_reported(operation):
        raise VerbRefused(
            f"somebody reports on the job under its token, which only {operation.position} can have brought there",
            hint="find out what they report on; or override, which loses the guarantee",
            ids={"run": history.run.id},
        )
    if not absence_is_proof(operation, contract, moment):
        seconds = -(-span_remaining(operation, contract, moment) // SECOND)
        raise VerbRefused(
            f"an old request of {operation.position} may still land for {spelled(seconds * SECOND)}",
            hint=f"wait that long, or override, which loses the guarantee; {BY_ONE_CLOCK}",
            ids={"run": history.run.id},
        )


def _require_conflict(history: History, operation: Operation, *, happened: bool) -> None:
    """Refuse what cannot be said of this operation: it is in no conflict, or is known to be otherwise."""
    if not operation.conflict or history.run.lease is not None:
        raise VerbRefused(
            f"{operation.position} is in no conflict" if not operation.conflict else "somebody works on the run",
            hint="`fencepost show` lists the verbs",
            ids={"run": history.run.id},
        )
    applied = [attempt.number for attempt in operation.attempts if attempt.outcome is Outcome.APPLIED]
    if not happened and applied:
        raise VerbRefused(
            f"attempt {applied[0]} of {operation.position} is proved to have been applied",
            hint="say --happened, and compensate it if it should not stand",
            ids={"run": history.run.id},
        )
    if operation.state in FINAL_OPERATION_STATES and happened is not (operation.state is OperationState.SUCCEEDED):
        raise VerbRefused(
            f"{operation.position} is {operation.state}, and the run has gone on from that",
            hint="bring the target to it by hand, then say so",
            ids={"run": history.run.id},
        )


def at_once(run: Run, now: int) -> list[Move]:
    """Let the run be claimed now by whoever comes first; one that is ready is that already."""
    if run.state is RunState.HELD:
        return [go_on(run, now)]
    return [] if run.state is RunState.READY else [move_run(run, RunEvent.RELEASE, now)._replace(wake_at=now)]


def _ask_again(unknown: list[Operation], now: int) -> list[Observe]:
    """A person wants the target asked again: look-ups that could not tell no longer count."""
    return [
        Observe(
            one.run, one.step, one.item or "", None, ASK_AGAIN, None, canonical({"kind": ASK_AGAIN}), None,
            one.generation, 0, now, now,
        )
        for one in unknown
    ]  # fmt: skip


def _renewed_steps(history: History, now: int) -> list[Move]:
    """New budgets for the reads, computations and model steps whose budget is spent."""
    owner = Owner("", history.run.generation, history.run.state.value)
    found = (renewed(step, history.run.no, owner, now) for step in history.steps if step.kind in STEP_KINDS)
    return [move for move in found if move is not None]


STEP_KINDS = ("read", "compute", "model")


def _take_back(app: Desk, history: History, now: int) -> list[Move]:
    """Take back the answers whose errors ended the run, if any did; the old ones stay in the rows' evidence."""
    ended_by, last = blamed(history.run.error), history.run.delivered
    moves: list[Move] = []
    for step in history.steps:
        meant = step.position in ended_by or step.delivered == last
        if meant and step.delivered and step.state is StepState.FAILED:
            moves.append(_opened_again(history.run, step, now))
    for operation in history.operations:
        meant = operation.position in ended_by or operation.delivered == last
        if meant and operation.delivered and operation.state is OperationState.FAILED:
            entry = entry_of(app, history, operation)
            operation.budget_from = now
            moves.append(entry.move(OperationEvent.RETRY, now, Result(delivered=0)))
    return moves


def _opened_again(run: Run, step: Step, now: int) -> MoveStep:
    """Open a failed step again. A wait gets its whole time once more; what else its row says of it stays."""
    detail: dict[str, Any] = json.loads(step.detail or "{}") if step.kind == "wait" else {}
    times = [detail[one] for one in ("within", "heartbeat") if detail.get(one) is not None]
    if detail.get("until") is not None:  # of a job
        detail["until"] = now + detail["within"]
    to = STEP.after(step.state, StepEvent.RESUME)
    return MoveStep(
        run.no, run.generation, step.position, step.state.value, StepEvent.RESUME.value, to.value,
        canonical(detail | {"replaced": step.error}), None, None, 0,
        min((now + one for one in times), default=None), now,
    )  # fmt: skip
