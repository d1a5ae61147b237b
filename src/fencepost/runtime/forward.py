"""Forward recovery: an effect that failed is done by the other way that it declares, and nothing is taken back.

A workflow asks for it with `run.forward`; for a run that is held or has failed a person may choose it with the verb
here. Then the other effect answers at the position of the one that failed, so that the workflow goes on as if that had
happened. Either is an operation of its own, which may itself be compensated later. It begins only where the effect is
proved not to have happened, and where the run does not go back: of both ways one is gone, never both. Going back is
`compensating`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fencepost.core.asks import StepAsk
from fencepost.core.errors import Misuse, VerbRefused
from fencepost.core.identity import canonical
from fencepost.core.position import CHOSEN, INSTEAD, effect_position
from fencepost.core.records import History, Operation, Run, Step
from fencepost.core.recovery import in_the_way
from fencepost.core.states import OperationState, RunState, StepState
from fencepost.core.transitions import OperationEvent, RunEvent
from fencepost.effects.conclusion import Conclusion, Later
from fencepost.effects.declare import Bound, Effect
from fencepost.effects.entry import Entry, Result
from fencepost.runtime.applicable import no_other_way
from fencepost.runtime.blame import is_blamed
from fencepost.runtime.children import LOOK_AGAIN, unknown_below
from fencepost.runtime.deeds import Deed, Desk, effect_of, entry_of, operation_in, perform
from fencepost.runtime.intent import new_operation, refused_by_policy
from fencepost.runtime.kinship import require_no_way_back_above
from fencepost.runtime.moves import does_not_apply, go_on, move_run, require_no_rival
from fencepost.runtime.resting import keep
from fencepost.store.moves import Move, OpenStep

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fencepost.runtime.execution import Execution

# -- a person's choice ------------------------------------------------------------------------------------------------


def forward(
    app: Desk, run: Run, *, step: str, item: str | None = None, by: str, reason: str, version: int | None = None
) -> Run:
    """Have a failed effect's work done the other way that it declares, and let its run go on from there.

    The choice is kept with the run: the effect itself is not tried again, and its error reaches nobody.
    """

    def deed(history: History, now: int) -> Deed:
        operation = operation_in(history, step, item)
        _require_open(history.run, operation, history.steps)
        require_no_rival(history)
        if effect_of(app, operation).declared.forward is None:
            raise VerbRefused(
                f"{operation.effect} declares no other way", hint="compensate the run, or retry the step",
                ids={"run": run.id},
            )  # fmt: skip
        position = f"{CHOSEN}{operation.position}"
        detail = canonical({"by": by, "why": reason, "instead_of": operation.position})
        chosen = OpenStep(
            run.no, history.run.generation, position, "forward", step, "", 0, StepState.DONE.value, None, detail, None,
            None, None, None, now, now,
        )  # fmt: skip
        return Deed([chosen, *_goes_on(app, history, operation, now)])

    return perform(
        app, run, "forward", by=by, reason=reason, version=version, deed=deed, operation=(step, item),
        guard=require_no_way_back_above,
    ).run  # fmt: skip


def _require_open(run: Run, operation: Operation, steps: Iterable[Step]) -> None:
    """Refuse where the effect is not known to have failed, or where the run goes back or goes forward already."""
    if run.state not in (RunState.HELD, RunState.FAILED):
        raise does_not_apply("forward", run)
    why = no_other_way(operation, steps)
    if why is not None:
        raise VerbRefused(why, hint="`fencepost show` lists the verbs", ids={"run": run.id})


def _goes_on(app: Desk, history: History, operation: Operation, now: int) -> list[Move]:
    """Let the run go on; the error that ended a failed one is taken back."""
    if history.run.state is RunState.HELD:
        return [go_on(history.run, now)]
    if not is_blamed(operation, history.run):
        raise VerbRefused(
            f"{operation.position} is not what the run failed of", hint="resume it, or compensate it",
            ids={"run": history.run.id},
        )  # fmt: skip
    moves: list[Move] = [move_run(history.run, RunEvent.RESUME, now)._replace(wake_at=now)]
    if operation.delivered:
        moves.insert(0, entry_of(app, history, operation).move(OperationEvent.LOSE, now, Result(delivered=0)))
    return moves


# -- what comes of it -------------------------------------------------------------------------------------------------


async def lead(execution: Execution, ask: StepAsk, bound: Bound[Any]) -> Conclusion:
    """Lead the effect that a person has chosen instead; its answer is delivered where the failed one was asked for."""
    failed = execution.operations[ask.position]
    other = bound.effect.declared.forward
    if other is None:
        raise Misuse(
            f"{bound.step.name} declares no other way any more", hint="give forward= back, or compensate the run"
        )
    entry, instead = _intended(execution, failed, bound.effect, other)
    if entry.is_new or entry.operation.state is OperationState.RESERVED:
        if any(step.kind == "compensate" for step in execution.positions.steps.values()):
            raise Misuse(
                f"another way was chosen for {ask.position}, and the run has begun to go back since then",
                hint="compensate the run: it does not go forward as well",
                ids={"run": execution.history.run.id, "step": ask.position},
            )
        unknown = in_the_way((one.operation for one in execution.open.values()), other.contract)
        below = await unknown_below(execution, execution.history.run.no) if execution.history.children else None
        if unknown or below:
            which = unknown[0].position if unknown else below
            return Later(until=execution.host.now() + LOOK_AGAIN, why=f"{which} is unknown")
    is_new = entry.is_new
    refusal = refused_by_policy(execution, entry, instead) if is_new else None
    execution.operations[entry.operation.position] = entry.operation
    return refusal or await execution.lead(
        entry, instead, lambda _: execution.number_for(ask.position), new=is_new,
        minds_below=bool(execution.history.children),
    )  # fmt: skip


def _intended(
    execution: Execution, failed: Operation, effect: Effect[..., Any], other: Effect[..., Any]
) -> tuple[Entry, Bound[Any]]:
    """The other operation, with the request of the one that failed."""
    args, kwargs = effect.arguments.decode(failed.request)
    bound: Bound[Any] = Bound(other, args, kwargs)
    bound.performed = True
    known = execution.operations.get(effect_position(INSTEAD + failed.step, failed.item))
    if known is not None:
        bound.args, bound.kwargs = other.arguments.decode(known.request)
        return Entry(known, other.contract, execution.owner), bound
    entry = new_operation(
        execution.history.run, bound, step=INSTEAD + failed.step, item=failed.item,
        scope=execution.host.scope_of(other), owner=execution.owner,
    )  # fmt: skip
    bound.after = failed.after
    if bound.after:
        execution.observations += keep(entry, bound, execution.host.now())
    return entry, bound
