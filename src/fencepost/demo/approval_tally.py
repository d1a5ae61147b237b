"""What came of the approvals demo: payments counted at the bank, answers and refusals in the ledger, and a verdict.

A refusal is what a sender was told, a signal that the ledger refused, or an approval that was refused when it was to be
used; for each of them the audit must have a row. Pure but for reading; printing is `approvals`.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from fencepost.core.errors import ApprovalRefused, ErrorRecord
from fencepost.core.records import Audit, History
from fencepost.core.states import OperationState, RunState, SignalState
from fencepost.demo.approval_plan import IS_PAID, REFUSALS, Case, Kind
from fencepost.demo.payments import APPROVAL

_UNAPPROVED = ErrorRecord.of(ApprovalRefused, "").class_name
_AT_LEAST = {Kind.EARLY: 20, Kind.LATE: 20, Kind.DOUBLE: 20, Kind.APPROVER: 20, Kind.PRINCIPAL: 20}
"""So many of each there must be in a demo of at least `FULL` runs."""
FULL = 200
KILLS_MIN = 2


@dataclass
class Line:
    """A kind's line of the table."""

    runs: int = 0
    answers: int = 0
    applied: int = 0
    refused: int = 0
    audited: int = 0
    payments: int = 0
    reasons: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class Found:
    """What is known of one run: its history, its refused audit rows, what was refused to senders, its payments."""

    case: Case
    history: History
    audits: list[Audit]
    told: list[str]
    answers: int
    payments: int

    @property
    def refused(self) -> list[str]:
        """Why answers, and approvals that were to be used, were refused; each once."""
        ledger = [one.reason or "" for one in self.history.signals if one.state is SignalState.REFUSED]
        # A late answer is refused to its sender and kept as refused: that is one refusal.
        told = [why for why in self.told if not any(why.endswith(f": {reason}") for reason in ledger)]
        return [*ledger, *told, *self.unused]

    @property
    def unused(self) -> list[str]:
        """Why an approval was refused when it was to be used."""
        errors = [
            ErrorRecord.from_text(one.error)
            for one in self.history.operations
            if one.state is OperationState.FAILED and one.error is not None
        ]
        return [error.message for error in errors if error.class_name == _UNAPPROVED]

    @property
    def applied(self) -> int:
        """How many answers closed the wait."""
        return sum(one.name == APPROVAL and one.state is SignalState.APPLIED for one in self.history.signals)


def lines(found: Iterable[Found]) -> dict[Kind, Line]:
    """The table, by kind."""
    table = {kind: Line() for kind in Kind}
    for one in found:
        line = table[one.case.kind]
        line.runs += 1
        line.answers += one.answers
        line.applied += one.applied
        line.refused += len(one.refused)
        line.audited += len(one.audits)
        line.payments += one.payments
        line.reasons.update(_in_a_word(why) for why in one.refused)
    return table


def _in_a_word(why: str) -> str:
    for word in ("not waiting", "the run has ended", "came before", "what waits is not what was shown"):
        if word in why:
            return word
    return why.partition(":")[0]


def complaints(found: list[Found], *, kills: int, broken_at: int | None) -> list[str]:
    """A sentence for each thing that is not as it must be; none: the demo shows what it claims."""
    return [
        *(said for one in found for said in _of_run(one)),
        *_of_the_whole(Counter(one.case.kind for one in found), len(found)),
        *([f"Only {kills} workers were killed."] if kills < KILLS_MIN else []),
        *([f"The audit's chain is broken at row {broken_at}."] if broken_at is not None else []),
    ]


def _of_run(one: Found) -> Iterator[str]:
    case = one.case
    if one.payments != IS_PAID[case.kind]:
        yield f"{case.run} ({case.kind}) was paid {one.payments} times."
    if one.applied != 1:
        yield f"{case.run} ({case.kind}) has applied {one.applied} answers."
    if len(one.refused) != REFUSALS[case.kind]:
        yield f"{case.run} ({case.kind}) has refused {one.refused}."
    if len(one.audits) != len(one.refused):
        yield f"{case.run} ({case.kind}) has {len(one.audits)} audit rows of refusals for {len(one.refused)}."
    wanted = RunState.FAILED if case.kind in (Kind.APPROVER, Kind.PRINCIPAL) else RunState.SUCCEEDED
    if one.history.run.state is not wanted:
        yield f"{case.run} ({case.kind}) is {one.history.run.state}: {one.history.run.hold or one.history.run.error}"


def _of_the_whole(kinds: Mapping[Kind, int], runs: int) -> Iterator[str]:
    for kind, least in _AT_LEAST.items():
        if runs >= FULL and kinds.get(kind, 0) < least:
            yield f"Only {kinds.get(kind, 0)} runs of at least {least} were: {kind}."
