"""What `@effect` was given, as it was given, and the contract that decisions are made from.

`declare` fills it in and performs nothing with it; what a contract buys is computed in `core.guarantee`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from fencepost.core import contract as contracts
from fencepost.core.duration import microseconds

if TYPE_CHECKING:
    from fencepost.effects.compensation import Compensation
    from fencepost.effects.declare import Duration, Effect
    from fencepost.effects.policy import Policy
    from fencepost.effects.promises import Fenced, KeyArgument, KeyHeader, Stands


@dataclass(frozen=True, slots=True)
class Declared:
    """What `@effect` was given."""

    name: str | None
    version: int
    send_key: KeyHeader | KeyArgument | None
    reconcile: Callable[..., Any] | None
    consistent: bool
    settle: Duration | None
    reference: str | Callable[[Any], Any] | None
    load: Callable[..., Any] | None
    compensate: Compensation | Stands | None
    forward: Effect[..., Any] | None
    cancel: Callable[..., Any] | None
    retry: contracts.Retry
    attempt_timeout: Duration | None
    target: str | None
    scope: str | None
    policy: Policy | None
    financial: bool
    independent: bool
    repeatable: bool
    fence: Fenced | None
    atomic: bool
    on_unknown: Literal["hold"] | None
    definite: Iterable[int]
    not_definite: Iterable[int]
    accepted_is_applied: bool
    clients: tuple[Any, ...]

    def contract(self, effect: str) -> contracts.Contract:
        """The contract for decisions."""
        reference = self.reference if isinstance(self.reference, str) else getattr(self.reference, "__name__", None)
        return contracts.Contract(
            effect=effect,
            version=self.version,
            attempt_timeout=_given(self.attempt_timeout, "attempt_timeout"),
            settle=_given(self.settle, "settle"),
            key=None if self.send_key is None else self.send_key.promise(),
            look_up=self._look_up(),
            fence=self._fence(),
            atomic=self.atomic,
            holds_on_unknown=self.on_unknown == "hold",
            repeatable=self.repeatable,
            independent=self.independent,
            financial=self.financial,
            reference=reference,
            compensation=self._compensation(),
            retry=self.retry,
            definite=(contracts.DEFINITE_STATUSES | set(self.definite)) - set(self.not_definite),
            accepted_is_applied=self.accepted_is_applied,
        )

    def _look_up(self) -> contracts.LookUpPromise | None:
        if self.reconcile is None:
            return None
        return contracts.LookUpPromise(getattr(self.reconcile, "__name__", "look-up"), consistent=self.consistent)

    def _fence(self) -> str | None:
        """A weak fence is shown, and counts for nothing."""
        return None if self.fence is None or self.fence.fence.weakness else self.fence.fence.name

    def _compensation(self) -> contracts.CompensationPromise | None:
        if self.compensate is None:
            return None
        restores = getattr(self.compensate, "restores", False)
        return contracts.CompensationPromise(self.compensate.name, restores=restores)


def _given(duration: Duration | None, what: str) -> int | None:
    return None if duration is None else microseconds(duration, what=what)
