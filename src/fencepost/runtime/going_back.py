"""The verbs by which a run's effects are made acceptable again, as `run.compensate` does it: all, or one by itself.

A person, a parent and bulk work call it; the worker that takes the run then does what a workflow's own compensation
does, by the same function (`compensating`). Who may start which compensation is what its effect declares: a verb of
which nothing would come is refused here, and each effect by itself is asked about again when its turn comes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fencepost.core.compensation import OPERATOR, may_start
from fencepost.core.contract import Contract
from fencepost.core.errors import NotPermitted, VerbRefused
from fencepost.core.identity import canonical
from fencepost.core.records import History, Operation, Run
from fencepost.core.states import OperationState, StepState
from fencepost.core.transitions import OperationEvent, RunEvent
from fencepost.effects.compensation import Compensation
from fencepost.effects.entry import Entry, Owner
from fencepost.effects.promises import Stands
from fencepost.runtime.applicable import may_be_compensated, no_compensation_by_itself
from fencepost.runtime.deeds import Deed, Desk, operation_in, perform
from fencepost.runtime.moves import does_not_apply, move_run
from fencepost.runtime.replay import OPERATORS
from fencepost.store.moves import OpenStep

if TYPE_CHECKING:
    from fencepost.runtime.workflow import Workflow
    from fencepost.store.moves import Move

A_PERSON = frozenset({OPERATOR})
"""The roles of a person of whom nothing else is known."""


def compensate(
    app: Desk, run: Run, *, by: str, reason: str, version: int | None = None, roles: frozenset[str] | None = None
) -> Run:
    """Compensate the effects of a run that is held, failed or ended, as `run.compensate` does.

    A compensation that failed, was refused or was held back before is tried again, with a new budget; those that
    succeeded stay done. `roles` are those of whoever asks, by default what the permissions give them: what they may not
    start is shown as not permitted.
    """
    theirs = _roles(app, by) if roles is None else roles
    detail = {"why": reason, "by": by, "roles": sorted(theirs)}

    def deed(history: History, now: int) -> Deed:
        if not may_be_compensated(history):
            raise does_not_apply("compensate", history.run)
        _require_right(app, history, theirs)
        return Deed(_begun(history, detail, _again(history, now), now))

    return perform(app, run, "compensate", by=by, reason=reason, version=version, deed=deed).run


def compensate_step(
    app: Desk, run: Run, *, step: str, item: str | None = None, by: str, reason: str, version: int | None = None,
    roles: frozenset[str] | None = None,
) -> Run:  # fmt: skip
    """Compensate one effect of a run that is held, failed or ended, and leave its other ones as they stand.

    Its code does not go on as if the effect still stood: the run ends by what stands then, `compensated` only if
    nothing does. Another step, or the rest, may be compensated after it. Refused while anything that the effect's code
    has done `after` it stands, or may. What is unknown is settled first, as always; `roles` as for `compensate`.
    """
    theirs = _roles(app, by) if roles is None else roles

    def deed(history: History, now: int) -> Deed:
        if not may_be_compensated(history):
            raise does_not_apply("compensate step", history.run)
        operation = operation_in(history, step, item)
        why = no_compensation_by_itself(history, operation)
        if why is not None:
            raise VerbRefused(why, hint="`fencepost show` lists the verbs that apply", ids={"run": run.id})
        _require_terms(app, history, operation, theirs)
        detail = {"why": reason, "by": by, "roles": sorted(theirs), "only": operation.position}
        again = _again(history, now, only=operation.position)
        return Deed(_begun(history, detail, again, now))

    found = (step, item)
    return perform(app, run, "compensate step", by=by, reason=reason, version=version, deed=deed, operation=found).run


def _begun(history: History, detail: Mapping[str, object], again: list[Move], now: int) -> list[Move]:
    """Open the compensation's own row, try again what is to be, and let a worker take the run to carry it out."""
    run = history.run
    number = 1 + sum(one.position.startswith(OPERATORS) for one in history.steps)
    opened = OpenStep(
        run.no, run.generation, f"{OPERATORS}{number}", "compensate", "", "", 0, StepState.OPEN.value, None,
        canonical(detail), None, None, None, None, now, None,
    )  # fmt: skip
    return [opened, *again, move_run(run, RunEvent.COMPENSATE, now)._replace(wake_at=now)]


def _roles(app: Desk, person: str) -> frozenset[str]:
    policy = app.policy()
    return A_PERSON if policy is None else frozenset(role.value for role in policy.of(person))


def _require_right(app: Desk, history: History, roles: frozenset[str]) -> None:
    """Refuse whoever may start none of the compensations that the run's code declares, as far as it is known here."""
    declared = app.workflows.get((history.run.workflow, history.run.workflow_version))
    if declared is None or history.run.turn or history.children:
        return
    terms = _terms(declared)
    stands = [one for one in history.operations if one.state is OperationState.SUCCEEDED and one.compensates is None]
    asked = [(one, found) for one in stands if isinstance(found := terms.get(one.effect), Compensation)]
    if asked and not any(may_start(found.by, roles) for _, found in asked):
        raise _not_theirs(*asked[0], roles, history.run)


def _require_terms(app: Desk, history: History, operation: Operation, roles: frozenset[str]) -> None:
    """Refuse an effect that declares nothing that this person could start, as far as it is known here."""
    declared = app.workflows.get((history.run.workflow, history.run.workflow_version))
    known = {} if declared is None else _terms(declared)
    if operation.effect not in known:
        return
    found = known[operation.effect]
    if not isinstance(found, Compensation):
        why = "declares no compensation" if found is None else f"is declared to stand: {found.why}"
        raise VerbRefused(f"{operation.position} {why}", hint="it stands", ids={"run": history.run.id})
    if not may_start(found.by, roles):
        raise _not_theirs(operation, found, roles, history.run)


def _terms(declared: Workflow[..., Any]) -> dict[str, Compensation | Stands | None]:
    return {effect.name: effect.declared.compensate for effect in declared.effects}


def _not_theirs(operation: Operation, terms: Compensation, roles: frozenset[str], run: Run) -> NotPermitted:
    return NotPermitted(
        f"{operation.position} may be compensated by {terms.starters}, not by {' or '.join(sorted(roles))}",
        hint="have somebody do it whom the effect's compensation names",
        ids={"run": run.id},
    )


def _again(history: History, now: int, *, only: str | None = None) -> list[Move]:
    """New budgets for the compensations that failed, or that of one effect: a person asks for exactly those again."""
    owner = Owner("", history.run.generation, history.run.state.value)
    moves: list[Move] = []
    for operation in history.operations:
        is_meant = operation.compensates is not None and only in (None, operation.compensates)
        if is_meant and operation.state is OperationState.FAILED:
            operation.budget_from = now
            moves.append(Entry(operation, Contract(operation.effect), owner).move(OperationEvent.RETRY, now))
    return moves
