"""What an effect declares about itself and its target: the contract that every decision about it rests on.

Durations are microseconds. A contract says; what that really buys is computed in `guarantee`, and what to do in a
given moment in `recovery`. Nothing here knows how a key or a look-up is carried out: that is `effects`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from typing import cast

from fencepost.core.duration import MINUTE, microseconds
from fencepost.core.errors import DeclarationError

# Refusals that prove that the attempt was not applied (`protocol` A6): the server read the request and said no.
DEFINITE_STATUSES = frozenset({400, 401, 403, 404, 405, 413, 415, 422, 429})


@dataclass(frozen=True, slots=True, init=False)
class Retry:
    """The budget of one operation's attempts, and the pauses between them.

    `attempts` counts dispatches, `within` the time since the operation was reserved; either may be None, which makes
    the budget unbounded and is refused at registration. Pauses grow from `first_delay` by `factor` up to
    `longest_delay`; a target's Retry-After is honoured up to `retry_after_max`.

    Durations are given as strings ("15m") or timedeltas; whole numbers are microseconds, which is what the fields hold.

    Raises:
        DeclarationError: for what is no duration, or a negative one.
    """

    attempts: int | None
    within: int | None
    first_delay: int
    factor: float
    longest_delay: int
    retry_after_max: int

    def __init__(
        self,
        *,
        attempts: int | None = 5,
        within: str | timedelta | int | None = "15m",
        first_delay: str | timedelta | int = "1s",
        factor: float = 2.0,
        longest_delay: str | timedelta | int = "5m",
        retry_after_max: str | timedelta | int = "1h",
    ) -> None:
        # A frozen dataclass keeps even its own constructor from assigning.
        assign = object.__setattr__
        assign(self, "attempts", attempts)
        assign(self, "within", None if within is None else _duration(within, "within"))
        assign(self, "first_delay", _duration(first_delay, "first_delay"))
        assign(self, "factor", factor)
        assign(self, "longest_delay", _duration(longest_delay, "longest_delay"))
        assign(self, "retry_after_max", _duration(retry_after_max, "retry_after_max"))

    @property
    def bounded(self) -> bool:
        """Whether both the attempts and the elapsed time end."""
        return self.attempts is not None and self.within is not None


def _duration(given: str | timedelta | int, name: str) -> int:
    if type(given) is int and given >= 0:
        return given
    # What is neither text nor timedelta is refused there, in the words for every other duration.
    return microseconds(cast("str | timedelta", given), what=f"Retry {name}")


@dataclass(frozen=True, slots=True)
class KeyPromise:
    """A target that applies one request per key.

    `window` is how long it remembers a key from the first request on (None: for ever, if it says so); `carried_by`
    says how the key travels ("header Idempotency-Key"); `replays_failures` that it may answer for ever with the stored
    failure of the first request.
    """

    window: int | None
    carried_by: str
    replays_failures: bool = False


@dataclass(frozen=True, slots=True)
class LookUpPromise:
    """A target that can be asked whether the effect happened; `consistent`: it reads from the authority itself."""

    name: str
    consistent: bool = False


@dataclass(frozen=True, slots=True)
class CompensationPromise:
    """What makes the effect acceptable afterwards.

    `restores` is declared only when the former state comes back; `by` says who may start it.
    """

    name: str
    restores: bool = False


@dataclass(frozen=True)
class Contract:
    """Everything an effect declares.

    `attempt_timeout` bounds one attempt, `settle` how long the target may still work on bytes it has *and* until a
    look-up can see the result; together they are the span. None means not declared. `holds_on_unknown`: while it may
    have happened it is never sent again, not even under its key; it may be asked about, the rest is a person's.
    """

    effect: str
    version: int = 1
    attempt_timeout: int | None = MINUTE
    settle: int | None = None
    key: KeyPromise | None = None
    look_up: LookUpPromise | None = None
    fence: str | None = None
    atomic: bool = False
    holds_on_unknown: bool = False
    repeatable: bool = False
    independent: bool = False
    financial: bool = False
    reference: str | None = None
    compensation: CompensationPromise | None = None
    retry: Retry = field(default_factory=Retry)
    definite: frozenset[int] = DEFINITE_STATUSES
    accepted_is_applied: bool = False

    def __post_init__(self) -> None:
        if self.version < 1:
            raise DeclarationError(f"effect {self.effect} has version {self.version}", hint="versions start at 1")
        if self.retry.attempts is not None and self.retry.attempts < 1:
            raise DeclarationError(f"effect {self.effect} may never be attempted", hint="allow at least one attempt")
        if self.repeatable and (self.financial or self.holds_on_unknown):
            raise DeclarationError(
                f"effect {self.effect} is declared repeatable and yet must not be repeated",
                hint='drop repeatable=True, or drop financial=True and on_unknown="hold"',
            )
        if self.atomic and (self.key or self.look_up or self.fence or self.repeatable or self.holds_on_unknown):
            raise DeclarationError(
                f"effect {self.effect} is atomic, so nothing else can be needed to settle it",
                hint="drop send_key=, reconcile=, fence=, repeatable= and on_unknown=, or drop atomic=True",
            )

    @cached_property
    def timeout(self) -> int:
        """The attempt timeout in force; an undeclared one is a blank and counts as a minute."""
        return self.attempt_timeout if self.attempt_timeout is not None else MINUTE

    @cached_property
    def span(self) -> int:
        """From dispatch until every byte of the attempt must be dead, digested and visible (`protocol` B5)."""
        return self.timeout + (self.settle or 0)

    def resend_before(self, first_dispatched_at: int) -> int | None:
        """The instant before which a resend under the key is covered by its window; None: no limit (`protocol` C4)."""
        if self.key is None or self.key.window is None:
            return None
        return first_dispatched_at + self.key.window - self.span
