"""When a breaker opens, and what an attempt says to it: works, refuses this credential, fails, or nothing at all.

Only what proves that an attempt was not applied is counted. Whatever may have happened is reconciled as always, and
neither opens a breaker nor closes one. What is contained while it is open is in `containment`; who counts and who is
let through to see whether it works again is `runtime.breakers`.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from fencepost.core.classify import Reading
from fencepost.core.duration import SECOND, microseconds
from fencepost.core.errors import DeclarationError
from fencepost.core.states import Outcome

CREDENTIAL_STATUSES = frozenset({401, 403})


class Says(StrEnum):
    """What one attempt says of its credential and its target."""

    WORKS = "works"
    REFUSES = "refuses the credential"
    FAILS = "fails"
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True, init=False)
class Breaker:
    """When nothing more is sent under a credential, or to a target, until one run has seen that it works again.

    A refusal with one of the statuses in `credential` opens it for everything that is sent in the same scope, at once.
    `failures` attempts in a row, in one process, that provably did not happen and are worth another (a refused
    connection, 429) open it for the target; None: never. It stays shut for `cool_down`, then one run is let through;
    each that fails doubles the pause, up to `longest_cool_down`.

    Leave 403 out where your target says it of single requests.

    Raises:
        DeclarationError: a duration is none or shorter than a second, or the numbers cannot be meant.
    """

    credential: frozenset[int]
    failures: int | None
    cool_down: int
    longest_cool_down: int

    def __init__(
        self,
        *,
        credential: frozenset[int] | set[int] = CREDENTIAL_STATUSES,
        failures: int | None = 5,
        cool_down: str | timedelta = "30s",
        longest_cool_down: str | timedelta = "10m",
    ) -> None:
        # A frozen dataclass keeps even its own constructor from assigning.
        assign = object.__setattr__
        assign(self, "credential", frozenset(credential))
        assign(self, "failures", failures)
        assign(self, "cool_down", microseconds(cool_down, what="Breaker cool_down"))
        assign(self, "longest_cool_down", microseconds(longest_cool_down, what="Breaker longest_cool_down"))
        if failures is not None and failures < 1:
            raise DeclarationError("a breaker that opens after no failure never closes", hint="pass failures=1 or more")
        if not SECOND <= self.cool_down <= self.longest_cool_down:
            raise DeclarationError(
                "a breaker's cool_down is shorter than a second, or longer than its longest_cool_down",
                hint='write Breaker(cool_down="30s", longest_cool_down="10m")',
            )

    def hears(self, reading: Reading | None) -> Says:
        """What an attempt says; `reading` is None for one that returned."""
        if reading is None:
            return Says.WORKS
        if reading.outcome is not Outcome.NOT_APPLIED or reading.replayed:
            return Says.NOTHING
        if reading.status in self.credential:
            return Says.REFUSES
        if reading.retryable:
            return Says.FAILS
        # It has read the request and said no to what stands in it; without a status nobody has read anything.
        return Says.NOTHING if reading.status is None else Says.WORKS

    def longer(self, cool_down: int) -> int:
        """The pause after one more probe that failed."""
        return min(2 * cool_down, self.longest_cool_down)
