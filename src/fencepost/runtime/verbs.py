"""What a person may do to a run: each verb one transaction, with the guards that automatic recovery obeys, audited.

A verb reads the run under the write lock, checks the law and the row version the person saw, changes it and writes one
audit row, all at once. A verb that does not apply raises `VerbRefused`, changes nothing, and leaves a row too, as does
one that was called wrongly. Screens
and the command line call these functions and no others; the states are in `core.transitions`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from fencepost.core.duration import SECOND, spelled
from fencepost.core.errors import Misuse, ValueRefused, VerbRefused
from fencepost.core.identity import canonical
from fencepost.core.records import ASK_AGAIN, STATEMENT, Audit, History, Observation, Operation, Run, Step
from fencepost.core.recovery import Moment, absence_is_proof, span_remaining
from fencepost.core.states import OperationState, RunState, StepState
from fencepost.core.transitions import RUN, STEP, OperationEvent, RunEvent, StepEvent
from fencepost.effects.deliberate import renewed
from fencepost.effects.entry import Entry, Owner, Result
from fencepost.runtime import audit
from fencepost.runtime.applicable import lacks_result, may_be_compensated
from fencepost.runtime.blame import blamed
from fencepost.runtime.moves import disown, does_not_apply, go_on, move_run
from fencepost.runtime.replay import OPERATORS
from fencepost.store.moves import Move, MoveRun, MoveStep, Observe, OpenStep, PinRun

if TYPE_CHECKING:
    from fencepost.effects.declare import Effect
    from fencepost.runtime.workflow import Workflow
    from fencepost.store.api import Store

_PERSON = "a person"


class Known(Protocol):
    """The ledger and the workflows that whoever calls a verb knows: an app, or a worker's host."""

    @property
    def store(self) -> Store:
        """The opened ledger's store."""

    @property
    def workflows(self) -> Mapping[tuple[str, int], Workflow[..., Any]]:
        """By name and version."""


@dataclass(slots=True)
class Deed:
    """What a verb changes: moves and observations, decided over the history it found; `also`: rows on other runs."""

    moves: list[Move]
    observations: list[Observe]
    also: list[Audit] = field(default_factory=list)


def carry_out(
    store: Store,
    run: Run,
    verb: str,
    *,
    by: str,
    reason: str,
    version: int | None,
    deed: Callable[[History, int], Deed],
    operation: tuple[str, str | None] | None = None,
    override: bool = False,
) -> History:
    """Carry out one verb with its audit row; a refusal is audited as such, and so is an override of the law."""

    def decision(history: History, now: int) -> Any:
        if not by.strip() or not reason.strip():
            raise Misuse(f"{verb} needs who does it and why", hint="give by= and reason=", ids={"run": run.id})
        if version is not None and version != history.run.version:
            raise VerbRefused(
                "the run has changed since you looked at it", hint="look again, then decide", ids={"run": run.id}
            )
        target = None if operation is None else _operation(history, *operation)
        before = audit.summary(history.run, target)
        done = deed(history, now)
        after_run = _after(history.run, done.moves)
        after = audit.summary(after_run, target, override=override)
        step, item = operation or (None, None)
        written = audit.row(
            history, verb=verb, by=by, reason=reason, now=now, before=before, after=after, step=step, item=item
        )
        return done.moves, done.observations, [written, *done.also]

    try:
        return store.decide(run.no, decision)
    except Misuse as refused:
        history = store.load(run.no)
        step, item = operation or (None, None)
        same = audit.summary(history.run)
        store.audit(
            audit.row(
                history, verb=verb, by=by, reason=f"{reason} (refused: {refused.message})", now=store.now(),
                before=same, after=same, step=step, item=item, outcome="refused",
            )
        )  # fmt: skip
        raise


# -- the verbs ------------------------------------------------------------------------------------------------------


def cancel(app: Known, run: Run, *, by: str, reason: str, version: int | None = None) -> Run:
    """Stop what has not begun. What was sent is settled first; the run is cancelled when every operation is known."""

    def deed(history: History, now: int) -> Deed:
        return Deed([_cancelled(history.run, now, by=by, reason=reason)], [])

    return carry_out(app.store, run, "cancel", by=by, reason=reason, version=version, deed=deed).run


def _cancelled(run: Run, now: int, *, by: str, reason: str) -> MoveRun:
    """Ask a run to stop; whoever owns it goes on to own it."""
    asked = canonical({"who": by, "why": reason, "at": now})
    owned = run.lease is not None
    move = move_run(run, RunEvent.CANCEL, now, keep_lease=owned, raises=False)
    return move._replace(cancel=asked, wake_at=None if owned else now)


def terminate(app: Known, run: Run, *, by: str, reason: str, version: int | None = None) -> Run:
    """End the run at once, whatever it is doing. Its effects stand; a result that comes later is kept as evidence.

    Its attached children are cancelled in the same write: there is nobody any more who would.
    """

    def deed(history: History, now: int) -> Deed:
        actor, why = f"run {run.id}", f"its parent was terminated: {reason}"
        children = [child for child in history.children if child.parent_step is not None and _may_be_cancelled(child)]
        moves = [_cancelled(child, now, by=actor, reason=why) for child in children]
        rows = [_audited_cancel(child, move, by=actor, reason=why) for child, move in zip(children, moves, strict=True)]
        move = move_run(history.run, RunEvent.TERMINATE, now)
        return Deed([*disown(history, now), *moves, move._replace(ended_at=now)], [], rows)

    return carry_out(app.store, run, "terminate", by=by, reason=reason, version=version, deed=deed).run


def _may_be_cancelled(run: Run) -> bool:
    return run.state is not RunState.CANCELLING and RUN.allows(run.state, RunEvent.CANCEL)


def _audited_cancel(child: Run, move: MoveRun, *, by: str, reason: str) -> Audit:
    before, after = audit.summary(child), audit.summary(_after(child, [move]))
    return audit.row(History(child), verb="cancel", by=by, reason=reason, now=move.at, before=before, after=after)


def stop_child(app: Known, parent: Run, position: str, *, reason: str) -> None:
    """Cancel the attached child of a run that one position waits for, if it has not ended."""
    for child in app.store.children(parent.no):
        if child.parent_step == position and _may_be_cancelled(child):
            with suppress(VerbRefused):  # it has ended in this moment
                cancel(app, child, by=f"run {parent.id}", reason=reason)


def resume(app: Known, run: Run, *, by: str, reason: str, version: int | None = None) -> Run:
    """Let a held or failed run go on.

    A held run does what it was doing; an operation that failed for good raises its error inside the workflow. Of a
    failed run the answers whose errors ended it are taken back and asked for again, after the code was mended; a wait
    that expired gets its whole time once more.
    """

    def deed(history: History, now: int) -> Deed:
        if history.run.state is RunState.FAILED:
            return Deed([*_take_back(app, history, now), move_run(history.run, RunEvent.RESUME, now)], [])
        if history.run.state is not RunState.HELD:
            raise does_not_apply("resume", history.run)
        return Deed([*_renewed_steps(history, now), go_on(history.run, now)], _ask_again(history, now))

    return carry_out(app.store, run, "resume", by=by, reason=reason, version=version, deed=deed).run


def retry(
    app: Known, run: Run, *, step: str, item: str | None = None, by: str, reason: str, version: int | None = None
) -> Run:
    """Give an operation that failed for good a new budget, and let its run go on."""

    def deed(history: History, now: int) -> Deed:
        if history.run.state is not RunState.HELD:
            raise does_not_apply("retry", history.run)
        operation = _operation(history, step, item)
        if operation.state is not OperationState.FAILED:
            raise VerbRefused(f"{operation.position} is {operation.state}, not failed", ids={"run": run.id})
        entry = _entry(app, history, operation)
        operation.budget_from = now
        return Deed([entry.move(OperationEvent.RETRY, now), go_on(history.run, now)], [])

    found = (step, item)
    return carry_out(
        app.store, run, "retry", by=by, reason=reason, version=version, deed=deed, operation=found
    ).run  # fmt: skip


def settle(
    app: Known,
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
        operation = _operation(history, step, item)
        unknown = operation.state is OperationState.UNKNOWN
        if not unknown and not lacks_result(operation):
            raise VerbRefused(f"{operation.position} is {operation.state}, not unknown", ids={"run": run.id})
        if not unknown and not happened:
            raise VerbRefused(
                f"{operation.position} is known to have happened; only its result is missing",
                hint="give its result or reference",
                ids={"run": run.id},
            )
        entry = _entry(app, history, operation)
        statement = {"kind": "statement", "by": by, "reason": reason, "override": override, "reference": reference}
        evidence = canonical(statement)
        says = "applied" if happened else "not applied"
        seen = entry.observe(Observation(STATEMENT, says, evidence, now, current=False))
        if happened:
            moves = _happened(entry, evidence, now, _outcome(app, operation, result, reference, override=override))
        else:
            _require_proof(app, history, operation, now, override=override)
            moves = entry.prove_absent(evidence, now)
        if history.run.state is RunState.HELD:
            moves.append(go_on(history.run, now))
        return Deed(moves, [seen])

    return carry_out(
        app.store, run, "settle", by=by, reason=reason, version=version, deed=deed, operation=(step, item),
        override=override and not happened,
    ).run  # fmt: skip


def compensate(app: Known, run: Run, *, by: str, reason: str, version: int | None = None) -> Run:
    """Compensate the effects of a run that is held, failed or ended, as `run.compensate` does.

    A compensation that failed before gets a new budget; those that succeeded stay done.
    """

    def deed(history: History, now: int) -> Deed:
        if not may_be_compensated(history):
            raise does_not_apply("compensate", history.run)
        number = 1 + sum(one.position.startswith(OPERATORS) for one in history.steps)
        move = move_run(history.run, RunEvent.COMPENSATE, now)
        position = f"{OPERATORS}{number}"
        detail = canonical({"why": reason, "by": by})
        opened = OpenStep(
            run.no, history.run.generation, position, "compensate", "", "", 0, StepState.OPEN.value, None, detail,
            None, None, None, None, now, None,
        )  # fmt: skip
        return Deed([opened, *_compensations_again(app, history, now), move._replace(wake_at=now)], [])

    return carry_out(app.store, run, "compensate", by=by, reason=reason, version=version, deed=deed).run


def was_compensated_by(history: History, by: str) -> bool:
    """Whether `by` has asked for the run's compensation before."""
    asked = (json.loads(step.detail or "{}") for step in history.steps if step.position.startswith(OPERATORS))
    return any(one.get("by") == by for one in asked)


# -- shared by the verbs ----------------------------------------------------------------------------------------------


def _operation(history: History, step: str, item: str | None) -> Operation:
    found = next((one for one in history.operations if one.step == step and one.item == item), None)
    if found is None:
        known = ", ".join(one.position for one in history.operations) or "none"
        which = "" if item is None else f" with item {item!r}"
        raise Misuse(f"the run has no operation {step!r}{which}", hint=f"it has: {known}")
    return found


def effect_of(app: Known, operation: Operation) -> Effect[..., Any]:
    """The declared effect of an operation, found among the app's workflows."""
    for declared in app.workflows.values():
        for effect in declared.effects:
            if effect.name == operation.effect:
                return effect
    raise Misuse(
        f"no workflow of this app refers to an effect named {operation.effect!r}",
        hint="run the verb with the module and app that the run's workflow is in",
    )


def _entry(app: Known, history: History, operation: Operation) -> Entry:
    owner = Owner("", history.run.generation, history.run.state.value)
    return Entry(operation, effect_of(app, operation).contract, owner)


def _happened(entry: Entry, evidence: str, now: int, outcome: Result) -> list[Move]:
    if entry.operation.state is OperationState.SUCCEEDED:
        return [entry.move(OperationEvent.APPLY, now, outcome)]
    return entry.prove_happened(evidence, now, outcome)


def _compensations_again(app: Known, history: History, now: int) -> list[Move]:
    """New budgets for the compensations that failed: a person asks for exactly those again."""
    moves: list[Move] = []
    for operation in history.operations:
        if operation.compensates is not None and operation.state is OperationState.FAILED:
            entry = _entry(app, history, operation)
            operation.budget_from = now
            moves.append(entry.move(OperationEvent.RETRY, now))
    return moves


def _outcome(app: Known, operation: Operation, text: str | None, reference: str | None, *, override: bool) -> Result:
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


def _require_proof(app: Known, history: History, operation: Operation, now: int, *, override: bool) -> None:
    """A person's "did not happen" obeys the rule that a look-up's absence obeys (`protocol` D6)."""
    if override:
        return
    contract = effect_of(app, operation).contract
    # A person has no boot-time clock of their own: since the run was held nobody sends, by the ledger's clock.
    moment = Moment(now, owned_for=now - history.run.changed_at, scope=operation.scope)
    if not absence_is_proof(operation, contract, moment):
        seconds = -(-span_remaining(operation, contract, moment) // SECOND)
        raise VerbRefused(
            f"an old request of {operation.position} may still land for {spelled(seconds * SECOND)}",
            hint="wait that long, or override, which loses the guarantee",
            ids={"run": history.run.id},
        )


def _ask_again(history: History, now: int) -> list[Observe]:
    """A person wants the target asked again: look-ups that could not tell no longer count."""
    return [
        Observe(
            one.run, one.step, one.item or "", None, ASK_AGAIN, None, canonical({"kind": ASK_AGAIN}), None,
            history.run.generation, 0, now, now,
        )
        for one in history.operations
        if one.state is OperationState.UNKNOWN
    ]  # fmt: skip


def _renewed_steps(history: History, now: int) -> list[Move]:
    """New budgets for the reads, computations and model steps whose budget is spent."""
    owner = Owner("", history.run.generation, history.run.state.value)
    found = (renewed(step, history.run.no, owner, now) for step in history.steps if step.kind in STEP_KINDS)
    return [move for move in found if move is not None]


STEP_KINDS = ("read", "compute", "model")


def _take_back(app: Known, history: History, now: int) -> list[Move]:
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
            entry = _entry(app, history, operation)
            operation.budget_from = now
            moves.append(entry.move(OperationEvent.RETRY, now, Result(delivered=0)))
    return moves


def _opened_again(run: Run, step: Step, now: int) -> MoveStep:
    """Open a failed step again. A wait gets its whole time once more; what else its row says of it stays."""
    detail: dict[str, Any] = json.loads(step.detail or "{}") if step.kind == "wait" else {}
    within = detail.get("within")
    to = STEP.after(step.state, StepEvent.RESUME)
    return MoveStep(
        run.no, run.generation, step.position, step.state.value, StepEvent.RESUME.value, to.value,
        canonical(detail | {"replaced": step.error}), None, None, 0, None if within is None else now + within, now,
    )  # fmt: skip


def _after(run: Run, moves: list[Move]) -> Run:
    from dataclasses import replace

    for move in moves:
        if isinstance(move, PinRun):
            run = replace(run, workflow_version=move.pinned)
        if isinstance(move, MoveRun):
            generation = run.generation + move.raise_generation
            return replace(run, state=RunState(move.to), generation=generation)
    return run
