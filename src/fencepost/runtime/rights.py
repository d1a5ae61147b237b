"""Checks the approval of a call just before it is sent: that it allows this very call, and that both persons still may.

The rule is `core.approval`. Here the ledger's policy is asked whether the approver has the role still, and the declared
read for the approver and for the run's principal, each question a step of the run with a row of its own. Nothing asked
earlier counts: whoever is about to send asks, and the answers are committed with the dispatch that uses the approval. A
refusal is the operation's error, with an audit row. Who calls this, and what is sent then, is `effects.perform`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from fencepost.core.approval import Right, Role, Use, lost, persons, refusal
from fencepost.core.asks import StepAsk
from fencepost.core.errors import ApprovalRefused, ErrorRecord, HistoryMismatch, Misuse
from fencepost.core.permissions import Permissions
from fencepost.core.records import Operation, Step
from fencepost.core.refusal import PIN
from fencepost.core.states import OperationState, StepState
from fencepost.effects.conclusion import Concluded, Conclusion, Later
from fencepost.effects.deliberate import work_out
from fencepost.runtime import audit
from fencepost.runtime.replay import AUTHORISE

if TYPE_CHECKING:
    from fencepost.effects.entry import Entry
    from fencepost.runtime.execution import Execution
    from fencepost.runtime.performing import Hands
    from fencepost.runtime.waiting import Approved

USE = "use approval"
"""The verb of a refusal's audit row: nobody called it, the run did."""


class AuthoriseFailed(Misuse):
    """The read that is asked for rights raised, or did not answer with a bool; nothing was sent."""


async def check(
    execution: Execution, hands: Hands, approved: Approved[Any], entry: Entry
) -> ErrorRecord | Conclusion | None:
    """Whether the operation may be sent now: None if it may, the error if not, a conclusion if nobody can say yet.

    Raises:
        AuthoriseFailed: there is no answer; the run is held, and the question asked anew when it is resumed.
    """
    operation = entry.operation
    now = execution.host.now
    wait = _wait_of(execution, approved)
    found = refusal(_use(execution, approved, operation, wait), now())
    authorise = approved.spec.authorise if approved.spec is not None else None
    if found is None:
        if not await asyncio.to_thread(_has_role, execution, approved.approval.by):
            found = lost("approver", approved.approval.by)
        # Meanwhile its time may have passed, and another branch may have used it.
        found = found or refusal(_use(execution, approved, operation, wait), now())
    if found is None and authorise is not None:
        for role, who in persons(approved.approval, execution.history.run.principal):
            answer = await _ask(execution, hands, approved, operation, (role, who))
            if isinstance(answer, Conclusion):
                return answer
            if not answer:
                found = lost(role, who)
                break
        found = found or refusal(_use(execution, approved, operation, wait), now())
    if found is not None:
        return _refused(execution, approved, operation, f"{found[0]}: {found[1]}")
    if operation.state is OperationState.RESERVED and execution.is_withdrawn(operation.position):
        return None  # nobody waits for it any more: it is taken back, and uses nothing
    if not execution.may_begin(StepAsk(operation.position, "effect", operation.step, operation.item, approved)):
        return Later(until=now(), why="it must not begin just now; the approval is checked again when it may")
    operation.approval = wait
    return None


def _has_role(execution: Execution, approver: str) -> bool:
    """Whether whoever gave an approval may still give one, by the policy that is in the ledger now; blocking."""
    text = execution.host.store.policy(execution.history.run.namespace)
    return text is None or Permissions.from_text(text).lacks(approver, "approve") is None


def _wait_of(execution: Execution, approved: Approved[Any]) -> str | None:
    """The position of the wait that this approval has closed."""
    if approved.spec is None:
        return None
    said = approved.spec.door.encode(approved.approval)
    steps = execution.positions.steps.values()
    return next((one.position for one in steps if one.kind == "wait" and one.result == said), None)


def _use(execution: Execution, approved: Approved[Any], operation: Operation, wait: str | None) -> Use:
    others = (one for one in execution.operations.values() if one is not operation and one.approval is not None)
    return Use(
        approved.approval,
        wait,
        begun_with=operation.approval,
        used_by=next((one.position for one in others if one.approval == wait), None),
        digest=approved.digest(execution.history.run.id, operation.item, turn=execution.history.run.turn),
        valid_for=None if approved.spec is None else approved.spec.valid_for,
    )


async def _ask(
    execution: Execution, hands: Hands, approved: Approved[Any], operation: Operation, person: tuple[Role, str]
) -> bool | Conclusion:
    """Ask the declared read for one person; a conclusion when the answer has to be waited for."""
    assert approved.spec is not None, "only a wait of this run has a read to ask"
    assert approved.spec.authorise is not None, "the same"
    role, who = person
    run = execution.history.run
    right = Right(who, role, run.id, operation.step, operation.item, operation.request, approved.approval)
    asked = approved.spec.authorise(right)
    asked.performed = True
    steps = execution.positions.steps
    record = _open_row(steps, operation.position, role)
    number = 1 + sum(one.startswith(_prefix(operation.position)) for one in steps)
    position = f"{_prefix(operation.position)}{role}:{number}" if record is None else record.position
    needs = work_out(
        record, asked, position, run.no, execution.owner, execution.host, _nobody, principal=run.principal, steps=steps
    )
    concluded = await hands.lead(needs, asked)
    if not isinstance(concluded, Concluded):
        return concluded
    execution.moves += concluded.moves
    execution.observations += concluded.observations
    if concluded.error is not None:
        raise AuthoriseFailed(
            f"{approved.spec.authorise.name} does not say whether {who} may: {concluded.error.said}",
            hint="mend it, then resume the run; to refuse, let it return False",
            ids={"run": run.id, "step": operation.position},
        )
    return asked.decode(concluded.payload) is True


def _prefix(position: str) -> str:
    return f"{AUTHORISE}{position}:"


def _open_row(steps: dict[str, Step], position: str, role: Role) -> Step | None:
    """The question for this person that has had no answer yet: its budget goes on."""
    begin = f"{_prefix(position)}{role}:"
    return next((step for at, step in steps.items() if at.startswith(begin) and step.state is StepState.OPEN), None)


def _refused(execution: Execution, approved: Approved[Any], operation: Operation, why: str) -> ErrorRecord:
    history = execution.history
    same = audit.summary(history.run)
    execution.audits.append(
        audit.row(
            history, verb=USE, by=approved.approval.by, reason=why, now=execution.host.now(), before=same, after=same,
            step=operation.step, item=operation.item, outcome="refused",
        )
    )  # fmt: skip
    return ErrorRecord.of(ApprovalRefused, why)


def _nobody() -> None:
    """The place of a right's answer in the order of deliveries: the workflow is not told."""
    return


def require_same_terms(operation: Operation, *, needs_approval: bool) -> None:
    """Refuse to go on with an operation that was begun with an approval, where the code asks for none any more.

    Raises:
        HistoryMismatch: the run is held.
    """
    if operation.approval is not None and not needs_approval:
        raise HistoryMismatch(
            f"{operation.position} was begun with an approval, and the code passes none any more",
            hint=PIN,
            ids={"step": operation.position},
        )
