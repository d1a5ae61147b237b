"""What became of a run's compensation, effect by effect: the value that `run.compensate` returns and screens show.

"Restored" is said only of an effect whose compensation is declared to restore. Doing it is `compensating`.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field

from fencepost.core.compensation import Compensation, ending
from fencepost.core.states import OperationState
from fencepost.core.transitions import RunEvent

DONE = ("compensated", "restored", "stands as declared")
"""The outcomes with which nothing is left to do."""


@dataclass(frozen=True, slots=True)
class CompensatedEffect:
    """One effect and what became of it.

    `outcome` is "compensated", "restored", "stands as declared", "failed", "not settled"
    or "no compensation".
    """

    effect: str
    outcome: str
    reference: str | None = None
    error: str = ""


@dataclass(frozen=True, slots=True)
class CompensationReport:
    """Every effect that stood, in the order in which it was compensated."""

    reason: str = ""
    effects: tuple[CompensatedEffect, ...] = field(default_factory=tuple)

    @property
    def complete(self) -> bool:
        """Whether every effect was compensated."""
        return all(one.outcome in DONE for one in self.effects)

    @property
    def ending(self) -> RunEvent:
        """How a run with this report ends."""
        state = {True: OperationState.SUCCEEDED, False: OperationState.FAILED}
        return ending([Compensation(one.effect, state[one.outcome in DONE]) for one in self.effects])

    def summary(self) -> str:
        """One line for people."""
        done = sum(one.outcome in DONE for one in self.effects)
        rest = ", ".join(f"{one.effect} {one.outcome}" for one in self.effects if one.outcome not in DONE)
        return f"{done} of {len(self.effects)} effects compensated" + (f"; {rest}" if rest else "")

    def as_text(self) -> str:
        """JSON for the ledger."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str) -> CompensationReport:
        """The report of a stored text."""
        fields = json.loads(text)
        return cls(fields["reason"], tuple(CompensatedEffect(**one) for one in fields["effects"]))
