"""Turns a bound effect that a workflow asks for into an intent: the operation with its key, request and scope.

The policy between a proposal and an effect is asked here, before anything is written that could be sent. Leading the
operation is `effects.perform`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fencepost.core.decisions import Versions, compensated
from fencepost.core.errors import ErrorRecord, HistoryMismatch, Misuse, Permanent, RepeatedEffect
from fencepost.core.identity import KEY_SCHEME, operation_key
from fencepost.core.position import FORWARD, effect_position, plain
from fencepost.core.records import Operation, Run
from fencepost.core.refusal import PIN
from fencepost.core.states import FINAL_OPERATION_STATES, OperationState
from fencepost.core.transitions import OperationEvent
from fencepost.effects.conclusion import Concluded
from fencepost.effects.declare import Bound
from fencepost.effects.entry import ApprovedEntry, Entry, Result
from fencepost.effects.policy import ask as ask_policy
from fencepost.runtime.applicable import no_other_way
from fencepost.runtime.resting import keep
from fencepost.runtime.rights import require_same_terms

if TYPE_CHECKING:
    from fencepost.core.asks import StepAsk
    from fencepost.effects.entry import Owner
    from fencepost.runtime.execution import Execution


def new_operation(run: Run, bound: Bound[Any], *, step: str, item: str | None, scope: str, owner: Owner) -> Entry:
    """The entry of an effect that has no row yet. Raises `ValueRefused` for a request that cannot be stored."""
    effect = bound.effect
    operation = Operation(
        run=run.no,
        step=step,
        item=item,
        effect=effect.name,
        contract_version=effect.version,
        key=operation_key(run.namespace, run.id, step, item, effect.version, turn=run.turn),
        key_scheme=KEY_SCHEME,
        request=bound.request,
        fingerprint=bound.fingerprint,
        state=OperationState.RESERVED,
        reserved_at=0,
        scope=scope,
    )
    return (ApprovedEntry if bound.needs_approval else Entry)(operation, effect.contract, owner)


def new_entry(execution: Execution, ask: StepAsk, bound: Bound[Any]) -> Entry:
    """The entry of an effect that the workflow asks for the first time."""
    run = execution.history.run
    scope = execution.host.scope_of(bound.effect)
    return new_operation(run, bound, step=ask.name, item=ask.item, scope=scope, owner=execution.owner)


def intended(execution: Execution, ask: StepAsk, bound: Bound[Any]) -> tuple[Entry, Concluded | None]:
    """The entry of an effect that the workflow asks for, and how it has ended if its policy refuses it."""
    operation = execution.operations.get(ask.position)
    if operation is not None:
        return known_entry(execution, bound, operation), None
    if ask.name.startswith(FORWARD):
        bound.after = _failed(execution, ask).after
    entry = new_entry(execution, ask, bound)
    execution.operations[ask.position] = entry.operation
    if bound.after:
        execution.observations += keep(entry, bound, execution.host.now())
    return entry, refused_by_policy(execution, entry, bound)


def _failed(execution: Execution, ask: StepAsk) -> Operation:
    """The effect that failed, and that the workflow asks for another way.

    Raises:
        Misuse: it is not proved to have failed, or the run goes back; nothing of it is sent.
    """
    position = effect_position(plain(ask.name), ask.item)
    failed = execution.operations.get(position)
    if failed is None:
        why: str | None = f"{position} was not tried before"
    else:
        why = no_other_way(failed, execution.positions.steps.values())
    if failed is None or why is not None:
        raise Misuse(
            f"no other way: {why}", hint="write run.forward(...) where run.do(...) of the same call raised StepFailed",
            ids={"run": execution.history.run.id, "step": position},
        )  # fmt: skip
    return failed


def known_entry(execution: Execution, bound: Bound[Any], operation: Operation) -> Entry:
    """The entry of an effect that has a row. What every attempt sends is the stored request, never the code's own.

    They agree: the driver holds a run whose code asks for another. One that was taken back is intended again: nothing
    of it is on its way, so it goes as a new one would, under its key and with what is left of its budget.

    Raises:
        HistoryMismatch: it was taken back under another version of its contract, which its key is made from, or begun
            with an approval that the code does not pass any more.
        RepeatedEffect: a new decision asks for it again after it was compensated: what is recorded does not stand.
    """
    effect = bound.effect
    if operation.state is OperationState.SUCCEEDED and _was_undone(execution, operation):
        raise RepeatedEffect(
            f"after the new decision the code asks for {operation.position} again, which was compensated",
            hint="its key has been used; what is wanted anew is another item, or a run of its own under another id",
            ids={"run": execution.history.run.id, "step": operation.position},
        )
    bound.args, bound.kwargs = effect.arguments.decode(operation.request)
    require_same_terms(operation, needs_approval=bound.needs_approval)
    entry = (ApprovedEntry if bound.needs_approval else Entry)(operation, effect.contract, execution.owner)
    if operation.state is OperationState.CANCELLED:
        if operation.contract_version != effect.version:
            raise HistoryMismatch(
                f"the effect {effect.name!r} was taken back under version {operation.contract_version}, "
                f"the code has {effect.version}",
                hint=PIN,
                ids={"run": execution.history.run.id, "step": operation.position},
            )
        execution.moves.append(entry.ask_again(execution.host.now()))
    return entry


def _was_undone(execution: Execution, operation: Operation) -> bool:
    """Whether the run was decided anew, and this effect of an earlier version was compensated."""
    if not Versions(execution.history.steps):
        return False
    return operation.position in compensated(execution.operations.values())


def supposed_lost(execution: Execution, entry: Entry, *, new: bool) -> bool:
    """Treat a first dispatch as one that may have been made in a lost time; whether it has no row even so."""
    lost = execution.host.lost_time = execution.host.open_epoch()
    if lost is None or entry.operation.state in FINAL_OPERATION_STATES:
        return new
    moves, seen = entry.suppose_lost(lost, execution.host.now(), new=new)
    execution.moves += moves
    execution.observations += seen
    return False


def refused_by_policy(execution: Execution, entry: Entry, bound: Bound[Any]) -> Concluded | None:
    """Ask the effect's policy; its verdict is recorded with the intent. None: the effect may be sent.

    Raises:
        PolicyFailed: there is no verdict. No row is written, so that it is asked anew once it is mended.
    """
    policy = bound.effect.declared.policy
    if policy is None:
        return None
    verdict = ask_policy(policy, execution.history.run.principal, *bound.args, **bound.kwargs)
    entry.operation.policy = verdict.as_text()
    if verdict.allows:
        return None
    record = ErrorRecord.of(Permanent, f"refused by policy: {verdict.why}")
    now = execution.host.store.now()
    moves = entry.reserve(now)
    number = execution.delivered + 1
    moves.append(entry.move(OperationEvent.REFUSE, now, Result(error=record.as_text(), delivered=number)))
    return Concluded(moves, [], now, None, record)
