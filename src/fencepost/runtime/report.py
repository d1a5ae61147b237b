"""What became of a run's compensation, effect by effect: the value that `run.compensate` returns and screens show.

"Restored" is said only of an effect whose compensation is declared to restore. Doing it is `compensating`.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field

from fencepost.core.compensation import ending
from fencepost.core.transitions import RunEvent

DONE = ("compensated", "restored", "stands as declared")
"""The outcomes with which nothing is left to do."""

LEFT = "left standing"
"""The outcome of what was not asked about, since a person had another effect compensated by itself."""


@dataclass(frozen=True, slots=True)
class CompensatedEffect:
    """One effect and what became of it.

    `outcome` is "compensated", "restored" or "stands as declared"; or else "failed", "refused" (by its policy), "not
    permitted" (to whoever started it), "held back" (something that rests on it still stands), "not settled", "left
    standing" (another effect alone was meant) or "no compensation": then it stands, and `error` says why. An effect of
    an earlier turn is called "turn 3 charge".
    """

    effect: str
    outcome: str
    reference: str | None = None
    error: str = ""

    @property
    def is_done(self) -> bool:
        """Whether nothing of it is left to do."""
        return self.outcome in DONE


@dataclass(frozen=True, slots=True)
class CompensationReport:
    """Every effect that stood, in the order in which it was compensated."""

    reason: str = ""
    effects: tuple[CompensatedEffect, ...] = field(default_factory=tuple)

    @property
    def complete(self) -> bool:
        """Whether every effect was compensated."""
        return all(one.is_done for one in self.effects)

    @property
    def ending(self) -> RunEvent:
        """How a run with this report ends."""
        return ending([one.is_done for one in self.effects])

    def summary(self) -> str:
        """One line for people."""
        done = sum(one.is_done for one in self.effects)
        rest = ", ".join(f"{one.effect} {one.outcome}" for one in self.effects if not one.is_done)
        return f"{done} of {len(self.effects)} effects compensated" + (f"; {rest}" if rest else "")

    def as_text(self) -> str:
        """JSON for the ledger."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str) -> CompensationReport:
        """The report of a stored text."""
        fields = json.loads(text)
        return cls(fields["reason"], tuple(CompensatedEffect(**one) for one in fields["effects"]))
