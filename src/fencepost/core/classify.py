"""What a reply, or the lack of one, proves about one attempt, and whether another attempt is worth it.

The first question is always *did a byte leave?*, the second what the contract counts as a definite refusal. Everything
unlabelled after dispatch is unresolved. Turning a client library's exceptions into these facts is `effects`; folding
attempts into an operation is `outcome`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from fencepost.core.contract import Contract
from fencepost.core.errors import (
    FenceRefused,
    NotOwner,
    Permanent,
    RateLimited,
    StoreUnavailable,
    Transient,
    Unresolved,
)
from fencepost.core.states import Outcome

TOO_EARLY = 425
CONFLICT = 409
RATE_LIMITED = 429
ACCEPTED = 202
UNAVAILABLE = 503


@dataclass(frozen=True, slots=True)
class Reading:
    """What one reply or error says of its attempt.

    `retryable`: another attempt may help. `retry_after`: microseconds that the target asked for. `in_progress`: the
    target says that this very key is being worked on, so waiting is no failure. `replayed`: it says that this is the
    answer that it stored for an earlier request under the key. `status` is that of the reply, where there was one.
    """

    outcome: Outcome
    retryable: bool
    retry_after: int | None = None
    in_progress: bool = False
    replayed: bool = False
    status: int | None = field(default=None, compare=False)


def read_status(
    contract: Contract, status: int, *, retry_after: int | None = None, in_progress: bool = False
) -> Reading:
    """What an HTTP status proves (`protocol` A6).

    2xx is applied, except 202 unless the contract says so; the contract's definite refusals are proof that it was not
    applied; 3xx, 408, 409, 425 and 5xx prove nothing. `in_progress`: the reply says that this key is being worked on,
    which proves nothing even where the contract counts other conflicts as refusals.
    """
    if in_progress and status == CONFLICT:
        return Reading(Outcome.UNRESOLVED, retryable=True, retry_after=retry_after, in_progress=True)
    if status == ACCEPTED and not contract.accepted_is_applied:
        return Reading(Outcome.UNRESOLVED, retryable=True)
    if 200 <= status < 300:  # noqa: PLR2004 - the meaning of 2xx is its own name
        return Reading(Outcome.APPLIED, retryable=False)
    if status in contract.definite:
        again = status in (RATE_LIMITED, UNAVAILABLE, TOO_EARLY) or retry_after is not None
        return Reading(Outcome.NOT_APPLIED, retryable=again, retry_after=retry_after, status=status)
    return Reading(Outcome.UNRESOLVED, retryable=True, retry_after=retry_after)


def read_error(error: BaseException, *, nothing_left: bool) -> Reading:
    """What an exception proves: proof of not applied only if nothing left the process.

    A body may label its error: `Permanent` is worth no retry, `RateLimited` carries a pause, `Unresolved` is taken at
    its word whatever the byte counter says. No label turns an attempt that may have left into a proved failure. Our own
    reasons not to send (a lost lease, a passed deadline, a ledger out of reach) and whatever interrupts the process say
    nothing against another attempt. A fence's refusal is proof: the target compared before it wrote.
    """
    if isinstance(error, FenceRefused):
        return Reading(Outcome.NOT_APPLIED, retryable=True)
    outcome = Outcome.NOT_APPLIED if nothing_left else Outcome.UNRESOLVED
    match error:
        case RateLimited():
            return Reading(outcome, retryable=True, retry_after=error.pause)
        case Permanent():
            return Reading(outcome, retryable=False)
        case Unresolved():
            return Reading(Outcome.UNRESOLVED, retryable=True)
        case Transient() | NotOwner() | StoreUnavailable() | OSError():
            return Reading(outcome, retryable=True)
        case _ if not isinstance(error, Exception):
            return Reading(outcome, retryable=True)
        case _:
            # Unlabelled: after dispatch it is unresolved and asked about; before the first byte it is a fault of the
            # code, which the same code would raise again.
            return Reading(outcome, retryable=not nothing_left)
