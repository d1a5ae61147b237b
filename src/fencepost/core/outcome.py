"""What is known of an operation, folded from what is known of each of its attempts.

One attempt applied: it happened. Every attempt proved not applied: it did not. Anything else: unknown. A refusal of a
later attempt says nothing of an earlier one, and contradictory evidence settles nothing but raises a flag. What to do
about it is decided in `recovery`; the states it leads to are in `transitions`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from fencepost.core.states import Outcome
from fencepost.core.transitions import AttemptEvent, OperationEvent


class Verdict(StrEnum):
    """What the attempts of one operation prove together."""

    NOTHING_SENT = "nothing sent"
    APPLIED = "applied"
    NOT_APPLIED = "not applied"
    UNRESOLVED = "unresolved"


@dataclass(frozen=True, slots=True)
class Fold:
    """The verdict over all attempts, and whether it stands on contradictory evidence."""

    verdict: Verdict
    conflict: bool


def fold(outcomes: Iterable[Outcome]) -> Fold:
    """The verdict over the outcomes of all attempts, in any order (`protocol` A3, A2).

    A second applied attempt is a conflict: the effect happened more than once.
    """
    attempts = applied = refuted = 0
    for outcome in outcomes:
        attempts += 1
        if outcome is Outcome.APPLIED:
            applied += 1
        elif outcome is Outcome.NOT_APPLIED:
            refuted += 1
    if applied:
        return _APPLIED if applied == 1 else _APPLIED_TWICE
    if not attempts:
        return _NOTHING_SENT
    return _NOT_APPLIED if refuted == attempts else _UNRESOLVED


_APPLIED = Fold(Verdict.APPLIED, conflict=False)
_APPLIED_TWICE = Fold(Verdict.APPLIED, conflict=True)
_NOTHING_SENT = Fold(Verdict.NOTHING_SENT, conflict=False)
_NOT_APPLIED = Fold(Verdict.NOT_APPLIED, conflict=False)
_UNRESOLVED = Fold(Verdict.UNRESOLVED, conflict=False)


def evidence_event(known: Outcome, says: Outcome, *, contradicted: bool = False) -> AttemptEvent | None:
    """What new evidence does to an attempt; None when it settles nothing and is only appended.

    Evidence that contradicts what was proved before leaves the attempt unresolved and flagged. `contradicted`: that
    has happened to it already. Then a third piece does not outvote the first two: only a person settles it, after the
    flag was taken down.
    """
    if contradicted or says is Outcome.UNRESOLVED or says is known:
        return None
    if known is not Outcome.UNRESOLVED:
        return AttemptEvent.CONTRADICT
    return AttemptEvent.APPLIED if says is Outcome.APPLIED else AttemptEvent.NOT_APPLIED


def operation_event(folded: Fold, *, may_go_again: bool) -> OperationEvent:
    """The event that a fold amounts to for an operation with at least one attempt.

    `may_go_again`: the budget lasts and the last error is worth another attempt.
    """
    if folded.verdict is Verdict.NOTHING_SENT:
        raise AssertionError("nothing was sent, so no outcome can move the operation")
    if folded.verdict is Verdict.APPLIED:
        return OperationEvent.APPLY
    if folded.verdict is Verdict.NOT_APPLIED:
        return OperationEvent.RELEASE if may_go_again else OperationEvent.REFUSE
    return OperationEvent.LOSE
