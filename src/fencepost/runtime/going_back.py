"""The verb by which a run's effects are made acceptable again, as `run.compensate` does it.

A person, a parent and bulk work call it; the worker that takes the run then does what a workflow's own compensation
does, by the same function (`compensating`). Who may start which compensation is what its effect declares: a verb of
which nothing would come is refused here, and each effect by itself is asked about again when its turn comes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fencepost.core.compensation import OPERATOR, may_start
from fencepost.core.contract import Contract
from fencepost.core.errors import NotPermitted
from fencepost.core.identity import canonical
from fencepost.core.records import History, Run
from fencepost.core.states import OperationState, StepState
from fencepost.core.transitions import OperationEvent, RunEvent
from fencepost.effects.compensation import Compensation
from fencepost.effects.entry import Entry, Owner
from fencepost.runtime.applicable import may_be_compensated
from fencepost.runtime.deeds import Deed, Desk, perform
from fencepost.runtime.moves import does_not_apply, move_run
from fencepost.runtime.replay import OPERATORS
from fencepost.store.moves import OpenStep

if TYPE_CHECKING:
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

    def deed(history: History, now: int) -> Deed:
        if not may_be_compensated(history):
            raise does_not_apply("compensate", history.run)
        _require_right(app, history, theirs)
        number = 1 + sum(one.position.startswith(OPERATORS) for one in history.steps)
        move = move_run(history.run, RunEvent.COMPENSATE, now)
        detail = canonical({"why": reason, "by": by, "roles": sorted(theirs)})
        opened = OpenStep(
            run.no, history.run.generation, f"{OPERATORS}{number}", "compensate", "", "", 0, StepState.OPEN.value, None,
            detail, None, None, None, None, now, None,
        )  # fmt: skip
        return Deed([opened, *_again(history, now), move._replace(wake_at=now)], [])

    return perform(app, run, "compensate", by=by, reason=reason, version=version, deed=deed).run


def _roles(app: Desk, person: str) -> frozenset[str]:
    policy = app.policy()
    return A_PERSON if policy is None else frozenset(role.value for role in policy.of(person))


def _require_right(app: Desk, history: History, roles: frozenset[str]) -> None:
    """Refuse whoever may start none of the compensations that the run's code declares, as far as it is known here."""
    declared = app.workflows.get((history.run.workflow, history.run.workflow_version))
    if declared is None or history.run.turn or history.children:
        return
    terms = {effect.name: effect.declared.compensate for effect in declared.effects}
    stands = [one for one in history.operations if one.state is OperationState.SUCCEEDED and one.compensates is None]
    asked = [(one, found) for one in stands if isinstance(found := terms.get(one.effect), Compensation)]
    if asked and not any(may_start(found.by, roles) for _, found in asked):
        one, found = asked[0]
        raise NotPermitted(
            f"{one.position} may be compensated by {found.starters}, not by {' or '.join(sorted(roles))}",
            hint="have somebody do it whom the effect's compensation names",
            ids={"run": history.run.id},
        )


def _again(history: History, now: int) -> list[Move]:
    """New budgets for the compensations that failed: a person asks for exactly those again."""
    owner = Owner("", history.run.generation, history.run.state.value)
    moves: list[Move] = []
    for operation in history.operations:
        if operation.compensates is not None and operation.state is OperationState.FAILED:
            operation.budget_from = now
            moves.append(Entry(operation, Contract(operation.effect), owner).move(OperationEvent.RETRY, now))
    return moves
