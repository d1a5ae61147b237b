"""What becomes of each payment of the approvals demo, and when workers are killed: drawn from its seed.

Every kind of mishap has its share of the runs, in a drawn order. Nothing here sends or kills anything; that is
`approval_drive`.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from fencepost.demo.plan import WORKERS
from fencepost.testing import Configure, Fault


class Kind(StrEnum):
    """What happens to the approval of a payment."""

    IN_TIME = "in time"
    EARLY = "early"
    LATE = "late"
    DOUBLE = "double"
    APPROVER = "approver's right lost"
    PRINCIPAL = "principal's right lost"
    DENIED = "denied"
    OTHER_CALL = "another amount"


MEANS = {
    Kind.IN_TIME: "answered while the run waits",
    Kind.EARLY: "answered before the run has begun to wait, or any worker to work",
    Kind.LATE: "somebody else answers when the wait, or the run, is over",
    Kind.DOUBLE: "the same answer is delivered three times, and once changed",
    Kind.APPROVER: "whoever approved loses the right before the payment is due",
    Kind.PRINCIPAL: "whoever the run acts for loses the right before the payment is due",
    Kind.DENIED: "the answer is no",
    Kind.OTHER_CALL: "the approver was shown another amount than the one that waits; then the right one",
}

SHARES = {
    Kind.EARLY: 0.12,
    Kind.LATE: 0.12,
    Kind.DOUBLE: 0.12,
    Kind.APPROVER: 0.12,
    Kind.PRINCIPAL: 0.12,
    Kind.DENIED: 0.08,
    Kind.OTHER_CALL: 0.08,
}
"""Of all runs; the others are answered in time."""

IS_PAID = {kind: kind not in (Kind.APPROVER, Kind.PRINCIPAL, Kind.DENIED) for kind in Kind}
"""Whether a payment must come of it."""

REFUSALS = {kind: int(kind not in (Kind.IN_TIME, Kind.EARLY, Kind.DENIED)) for kind in Kind}
"""How much of each run must be refused."""

_KILLS_PER_RUN = 0.05


@dataclass(frozen=True)
class Case:
    """One payment. `late_after_end`: a late answer comes when the run is over, not only its wait."""

    number: str
    kind: Kind
    amount: int
    late_after_end: bool

    @property
    def run(self) -> str:
        """The run's id, from the business event."""
        return f"payment:demo:{self.number}"

    @property
    def approver(self) -> str:
        """Who answers; everybody answers once, so that one lost right spoils one approval."""
        return f"approver of {self.number}"

    @property
    def principal(self) -> str:
        """Whom the run acts for."""
        return f"clerk of {self.number}"


@dataclass(frozen=True)
class Kill:
    """A worker to be killed once so many runs have been answered."""

    after_answers: int
    place: int


@dataclass(frozen=True)
class ApprovalPlan:
    """Everything that is decided before the first process starts."""

    seed: int
    cases: tuple[Case, ...]
    kills: tuple[Kill, ...]
    settings: tuple[Configure, ...]


def draw(seed: int, runs: int) -> ApprovalPlan:
    """Draw the plan."""
    rng = random.Random(f"approvals {seed}")
    kinds = list(_kinds(runs))
    rng.shuffle(kinds)
    cases = tuple(
        Case(f"P-{number:04}", kind, rng.randrange(10_00, 100_000_00), rng.choice((False, True)))
        for number, kind in enumerate(kinds, 1)
    )
    kills = sorted(rng.randrange(runs) for _ in range(max(2, round(_KILLS_PER_RUN * runs))))
    return ApprovalPlan(
        seed, cases, tuple(Kill(after, rng.randrange(WORKERS)) for after in kills), _settings(rng, cases)
    )


def _kinds(runs: int) -> Iterator[Kind]:
    for kind, share in SHARES.items():
        yield from [kind] * max(1, round(share * runs))
    yield from [Kind.IN_TIME] * (runs - sum(max(1, round(share * runs)) for share in SHARES.values()))


def _settings(rng: random.Random, cases: tuple[Case, ...]) -> tuple[Configure, ...]:
    """A bank that honours keys, is not next door, and loses the reply to some payments."""
    lost = (
        Fault(do="reset", when="after", body=case.number, name="dropped reply")
        for case in rng.sample(cases, max(1, len(cases) // 20))
    )
    way = Fault(do="wait", when="after", milliseconds=50, times=None, name="usual way back")
    return (
        Configure(service="books", collection="payments", identity=("number",)),
        Configure(service="books", faults=(*lost, way)),
    )
