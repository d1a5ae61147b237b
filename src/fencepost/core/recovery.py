"""Decides the next move for one operation: record + contract + moment -> move.

The worker, the ledger without an engine, an operator's button and the explorer of the test suite all call `decide`,
so there is no second opinion anywhere. The order of preference for an unknown operation: ask, if it can be asked;
resend under its own key, while the key's promise lasts; wait until every old request must be dead, and ask again; hold
for a person. Nothing here sends, asks or waits: that is `effects`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from fencepost.core.contract import Contract
from fencepost.core.guarantee import Rung, ladder
from fencepost.core.records import (
    ASK_AGAIN,
    CALLBACK,
    CONTAINED,
    IN_PROGRESS,
    KEPT_OUT,
    LOOK_UP,
    LOST_TIME,
    RELEASED,
    REPLAYED_FAILURE,
    REPORTED,
    Attempt,
    Observation,
    Operation,
)
from fencepost.core.retry import budget_left
from fencepost.core.states import FINAL_OPERATION_STATES, OperationState, Outcome

LOOKUPS_WITHOUT_ANSWER = 5
"""So many look-ups in a row that cannot tell, and a person is asked."""


@dataclass(frozen=True, slots=True)
class Moment:
    """When, and as whom, a decision is taken.

    `now` is the later of the store's clock and its highest stored time. `owned_for` is how long, on the asker's own
    boot-time clock, it has owned the run, or for an operation it dispatched itself, how long ago its own send ended:
    a second clock that no clock change fools. `scope` is where a request or a question would go now, and a key be
    valid (account, credential, endpoint, region). `token` is the fence token last raised at the target.
    """

    now: int
    owned_for: int = 0
    scope: str = ""
    token: int | None = None


class HoldReason(StrEnum):
    """Why an operation needs a person."""

    CONFLICT = "conflicting evidence"
    CANNOT_BE_ASKED = "unknown outcome, and the target cannot be asked"
    DECLARED = "unknown outcome, and the contract leaves it to a person"
    CANNOT_TELL = "unknown outcome, and the look-up cannot tell"
    KEY_OVER = "unknown outcome, and the key's promise has run out"
    SCOPE_CHANGED = "account, credential, endpoint or region changed since the operation was reserved"
    BUDGET_SPENT = "unknown outcome, and the budget of attempts is spent"
    REFUSED = "unknown outcome, and sending it again is refused for good"


@dataclass(frozen=True, slots=True)
class Dispatch:
    """Send attempt `number`, under the operation's key and with its stored request."""

    number: int


@dataclass(frozen=True, slots=True)
class LookUp:
    """Ask the target what happened; with `raise_fence`, raise a fresh token there first."""

    raise_fence: bool = False


@dataclass(frozen=True, slots=True)
class Disprove:
    """What was not committed with its result was not applied, and can be no more: note that, then go on."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Nothing to do before `until` (store clock); a row waits, nobody sleeps.

    With `owning` the wait counts on the asker's own clock since it took the run: giving the run up would start it anew.
    """

    until: int
    why: str
    owning: bool = False


@dataclass(frozen=True, slots=True)
class GiveUp:
    """Every attempt is proved not applied and the budget is spent: the operation has failed."""


@dataclass(frozen=True, slots=True)
class Hold:
    """Stop the run for a person."""

    reason: HoldReason


@dataclass(frozen=True, slots=True)
class Settled:
    """The operation is final; nothing to do."""


Move = Dispatch | LookUp | Disprove | Pause | GiveUp | Hold | Settled


def decide(operation: Operation, contract: Contract, moment: Moment) -> Move:
    """The next move for `operation` at `moment`.

    An operation in flight under the asker is not decided about: its attempt ends first. A conflict is held whatever
    the state: an effect that happened twice is known, and still not right. Raises nothing.
    """
    if operation.conflict:
        return Hold(HoldReason.CONFLICT)
    if operation.state in FINAL_OPERATION_STATES:
        return Settled()
    if operation.state is OperationState.RESERVED:
        return _go(operation, contract, moment)
    return _settle(operation, contract, moment)


def _go(operation: Operation, contract: Contract, moment: Moment) -> Move:
    """Nothing is unresolved: send when it is due, while the budget lasts, and where it was meant to be sent.

    In another scope the attempt would not be covered by the scope stored with the key.
    """
    if operation.attempts and not may_try_again(operation, contract, moment.now):
        return GiveUp()
    if operation.scope != moment.scope and not contract.repeatable:
        return Hold(HoldReason.SCOPE_CHANGED)
    return _when_due(operation, moment)


def _settle(operation: Operation, contract: Contract, moment: Moment) -> Move:
    """At least one attempt may have happened: find out, or do only what cannot happen twice."""
    if contract.atomic:
        return Disprove()
    asked = _asked(operation)
    if contract.look_up is not None and not asked:
        return LookUp(raise_fence=contract.fence is not None)
    if may_resend(operation, contract, moment):
        if may_try_again(operation, contract, moment.now):
            return _when_due(operation, moment)
        if contract.look_up is None:
            return Hold(HoldReason.BUDGET_SPENT)
    if operation.scope != moment.scope:
        # Asking elsewhere can find the effect, but never prove it absent.
        return Hold(HoldReason.SCOPE_CHANGED)
    if contract.look_up is not None:
        return _ask_again(operation, contract, moment, asked)
    return Hold(_why_nothing_helps(contract))


def _ask_again(operation: Operation, contract: Contract, moment: Moment, asked: list[Observation]) -> Move:
    cannot_tell = _inconclusive_in_a_row(asked)
    if cannot_tell >= LOOKUPS_WITHOUT_ANSWER:
        return Hold(HoldReason.CANNOT_TELL)
    if operation.not_before is not None and operation.not_before > moment.now:
        return Pause(operation.not_before, "the pause between two look-ups")
    remaining = span_remaining(operation, contract, moment)
    if remaining > 0 and not cannot_tell:
        return Pause(moment.now + remaining, "until every old request must be dead and digested", owning=True)
    return LookUp(raise_fence=contract.fence is not None)


def _why_nothing_helps(contract: Contract) -> HoldReason:
    if contract.key is None:
        return HoldReason.CANNOT_BE_ASKED
    return HoldReason.DECLARED if contract.holds_on_unknown else HoldReason.KEY_OVER


def _when_due(operation: Operation, moment: Moment) -> Dispatch | Pause:
    if operation.not_before is not None and operation.not_before > moment.now:
        return Pause(operation.not_before, "the pause before the next attempt")
    return Dispatch(len(operation.attempts) + 1)


def may_try_again(operation: Operation, contract: Contract, now: int) -> bool:
    """Whether the budget allows one more attempt.

    One that met the target still at work costs nothing, nor does one that may have been made in a forgotten time or was
    refused for its credential while a breaker watched, nor the time for which something contained kept it back, nor the
    pause that it was told to make: an attempt that was promised is made.
    """
    free = {seen.attempt for seen in operation.observations if seen.kind in (IN_PROGRESS, LOST_TIME, KEPT_OUT)}
    counted = [attempt for attempt in operation.attempts if attempt.number not in free]
    told = contained_for(operation, now) + _pause_of(operation)
    return budget_left(contract.retry, counted, budget_from=operation.budget_from, now=now - told)


def _pause_of(operation: Operation) -> int:
    """How long the pause is that its last failure was given, in microseconds."""
    failed_at = operation.attempts[-1].settled_at if operation.attempts else None
    return 0 if failed_at is None or operation.not_before is None else max(0, operation.not_before - failed_at)


def contained_for(operation: Operation, now: int) -> int:
    """Microseconds of its present budget for which something that is contained has kept the operation back."""
    total, since = 0, None
    for seen in operation.observations:
        if seen.kind == CONTAINED:
            since = seen.seen_at if since is None else since
        elif seen.kind == RELEASED and since is not None:
            total += max(0, seen.seen_at - max(since, operation.budget_from))
            since = None
    return total if since is None else total + max(0, now - max(since, operation.budget_from))


def is_kept_back(operation: Operation) -> bool:
    """Whether its last dispatch has met something that was contained, and none has gone since."""
    last = next((seen.kind for seen in reversed(operation.observations) if seen.kind in (CONTAINED, RELEASED)), None)
    return last == CONTAINED


def may_resend(operation: Operation, contract: Contract, moment: Moment) -> bool:
    """Whether an operation that may have happened may be sent again as it is, by the engine or by a person.

    It is harmless by declaration, or its key still holds; and the contract does not leave it to a person. A person who
    sends again without this overrides the guarantee and says so.
    """
    return contract.repeatable or (not contract.holds_on_unknown and key_holds(operation, contract, moment))


def key_holds(operation: Operation, contract: Contract, moment: Moment) -> bool:
    """Whether the target still promises to apply this key once (`protocol` C4).

    Inside the window, counted from the intent of the first dispatch; in the same scope; and not spoilt by a stored
    failure that the target replays for ever.
    """
    if contract.key is None or operation.first_dispatched_at is None:
        return False
    if operation.scope != moment.scope:
        return False
    if contract.key.replays_failures and any(seen.kind == REPLAYED_FAILURE for seen in operation.observations):
        return False
    before = contract.resend_before(operation.first_dispatched_at)
    return before is None or moment.now < before


def rung_now(operation: Operation, contract: Contract, moment: Moment) -> Rung | None:
    """The rung on which an operation stands now: its contract's first, or the next one where a key's promise is over.

    None: nothing is declared.
    """
    keeps = operation.first_dispatched_at is None or key_holds(operation, contract, moment)
    return next((rung for rung in ladder(contract) if rung is not Rung.KEYED or keeps), None)


BY_ONE_CLOCK = "assumed: the ledger's clock was not set forward since the last request: a person has no second one"
"""What a person's "did not happen" rests on beside the span. A machine's look-up is held to two clocks."""


def absence_is_proof(operation: Operation, contract: Contract, began: Moment) -> bool:
    """Whether an `Absent` from a look-up that began at `began` proves every attempt not applied (`protocol` C2).

    Either it began after the span, by the store's clock and by the asker's own; or under a raised fence: the target's
    token is above that of every unresolved attempt and the look-up reads from the authority that compares it. Never
    when it was asked in another scope than the requests went to, or somebody reports on the job under the operation's
    own token, which only its request can have brought there. The same guard holds for a person's "it did not
    happen", whose look at the target then counts as the look-up.
    """
    if contract.atomic:
        return True
    if operation.scope != began.scope or was_reported(operation):
        return False
    if _fenced_off(operation, contract, began) and contract.look_up is not None and contract.look_up.consistent:
        return True
    return span_remaining(operation, contract, began) <= 0


def has_token_out(operation: Operation) -> bool:
    """Whether it has handed out a callback's token: then others may see more of it than its owner."""
    return any(seen.kind == CALLBACK for seen in operation.observations)


def was_reported(operation: Operation) -> bool:
    """Whether somebody who holds the operation's callback token has reported: its request has reached somebody."""
    return any(seen.kind == REPORTED for seen in operation.observations)


def span_remaining(operation: Operation, contract: Contract, moment: Moment) -> int:
    """Microseconds until every unresolved attempt must be dead and digested, by both clocks; 0 or less: it is.

    An attempt's span is the one it was dispatched with, or today's if that is longer: a deployment that shortens the
    timeout shortens nothing that is on its way, and one that lengthens `settle` has learnt something of the target.
    """
    unresolved = unresolved_attempts(operation)
    if not unresolved:
        return 0
    spans = [max(attempt.span_ends_at - attempt.dispatched_at, contract.span) for attempt in unresolved]
    ends = [attempt.dispatched_at + span for attempt, span in zip(unresolved, spans, strict=True)]
    return max(max(ends) - moment.now, max(spans) - moment.owned_for)


def unresolved_attempts(operation: Operation) -> list[Attempt]:
    """The attempts without proof either way."""
    return [attempt for attempt in operation.attempts if attempt.outcome is Outcome.UNRESOLVED]


def in_the_way(operations: Iterable[Operation], contract: Contract) -> list[Operation]:
    """The operations that must be known before a new effect under `contract` may begin in their run (law 3).

    Give those of the run and of its attached children. Resending, asking about and settling one of them begins nothing
    new and is never in its own way.
    """
    if contract.repeatable or contract.independent:
        return []
    return [operation for operation in operations if operation.state is OperationState.UNKNOWN]


def _fenced_off(operation: Operation, contract: Contract, moment: Moment) -> bool:
    if contract.fence is None or moment.token is None:
        return False
    return all(attempt.token is not None and attempt.token < moment.token for attempt in unresolved_attempts(operation))


def _asked(operation: Operation) -> list[Observation]:
    """The look-ups that count: begun after the last dispatch, of which an older one knows nothing, and not forgone."""
    last = max((attempt.dispatched_at for attempt in operation.attempts), default=0)
    asked: list[Observation] = []
    for seen in operation.observations:
        if seen.kind == ASK_AGAIN:
            asked.clear()
        elif seen.kind == LOOK_UP and seen.began_at is not None and seen.began_at >= last:
            asked.append(seen)
    return asked


def _inconclusive_in_a_row(asked: list[Observation]) -> int:
    count = 0
    for seen in reversed(asked):
        if seen.says != "inconclusive":
            break
        count += 1
    return count


__all__ = [
    "ASK_AGAIN",
    "IN_PROGRESS",
    "LOOK_UP",
    "REPLAYED_FAILURE",
    "Dispatch",
    "Disprove",
    "GiveUp",
    "Hold",
    "HoldReason",
    "LookUp",
    "Moment",
    "Move",
    "Pause",
    "Settled",
    "absence_is_proof",
    "decide",
    "has_token_out",
    "in_the_way",
    "is_kept_back",
    "key_holds",
    "may_resend",
    "span_remaining",
    "unresolved_attempts",
    "was_reported",
]
