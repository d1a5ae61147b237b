"""What this process counts about its attempts and its lease, for whoever watches it.

Only what no ledger holds, or could not be read from it without looking at every row; it begins at nothing with the
process. What the ledger holds is measured by `alerting`, commits are counted by `store.pace`, and the text for others
is written by `telemetry.metrics`.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from fencepost.core.errors import RateLimited
from fencepost.core.histogram import Histogram
from fencepost.core.states import Outcome

if TYPE_CHECKING:
    from fencepost.effects.needs import Sent

SENDS = (0, 1, 2, 3, 5, 10)
"""Physical sends of an attempt; more than one: a second layer retries."""

NO_TARGET = ""
"""The target of an effect that declares none."""

CLASSES = ("applied", "unresolved", "rate limited", "transient", "permanent")
"""What an attempt can come to: applied, of unknown outcome, or proved not applied, and then worth another or not."""


class Counts:
    """The counts of one process."""

    __slots__ = ("attempts", "leases_lost", "not_countable", "refused", "sends")

    def __init__(self) -> None:
        self.attempts: Counter[tuple[str, str]] = Counter()
        """By target and class."""
        self.sends: dict[str, Histogram] = {}
        """By target, of the attempts of which the physical sends can be counted."""
        self.not_countable: Counter[str] = Counter()
        """By target, attempts of which they cannot."""
        self.refused: Counter[str] = Counter()
        """By the ledger's answer, groups of moves that were refused: `stale` ones came from a former owner."""
        self.leases_lost = 0

    def attempted(self, target: str | None, sent: Sent) -> None:
        """Count one attempt of an effect, by what came of it."""
        name = target or NO_TARGET
        self.attempts[name, class_of(sent)] += 1
        if sent.sends is None:
            self.not_countable[name] += 1
            return
        sends = self.sends.get(name)
        if sends is None:
            sends = self.sends[name] = Histogram(SENDS)
        sends.take(sent.sends)


def class_of(sent: Sent) -> str:
    """What an attempt came to, as one of `CLASSES`."""
    reading = sent.reading
    if sent.error is None or (reading is not None and reading.outcome is Outcome.APPLIED):
        return "applied"
    if reading is None or reading.outcome is Outcome.UNRESOLVED:
        return "unresolved"
    if isinstance(sent.error, RateLimited):
        return "rate limited"
    return "transient" if reading.retryable else "permanent"
