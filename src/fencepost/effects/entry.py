"""One operation's entry in the ledger: changes the record in memory and says which rows change with it.

Every path that moves an operation goes through here: performing it, reconciling it, late evidence, a person's
statement. Each method looks the next state up in the transition tables, changes the record, and returns the moves
that make the same change durable. What to do next is decided in `core.recovery`; sending is `perform`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fencepost.core.contract import Contract
from fencepost.core.epoch import NOBODY, Epoch
from fencepost.core.errors import ErrorRecord, Transient
from fencepost.core.identity import canonical
from fencepost.core.outcome import evidence_event, fold, operation_event
from fencepost.core.records import LOST_TIME, Attempt, Observation, Operation
from fencepost.core.recovery import may_try_again, unresolved_attempts
from fencepost.core.states import FINAL_OPERATION_STATES, OperationState, Outcome
from fencepost.core.transitions import ATTEMPT, OPERATION, AttemptEvent, OperationEvent
from fencepost.store.moves import (
    DeliverOperation,
    DispatchOperation,
    Move,
    MoveOperation,
    NewAttempt,
    NewOperation,
    Observe,
    SettleAttempt,
    SettleFirst,
    Succeed,
)

Event = OperationEvent

_SUCCEEDS = OPERATION.row(OperationState.DISPATCHED, Event.APPLY)
_IS_APPLIED = ATTEMPT.row(Outcome.UNRESOLVED, AttemptEvent.APPLIED)


@dataclass(slots=True)
class Owner:
    """Under whose authority an entry is moved: the lease, the run's generation and the state the run is in."""

    lease: str
    generation: int
    run_state: str


@dataclass(slots=True)
class Proof:
    """What was learnt about one attempt: its outcome, and the evidence as canonical JSON."""

    attempt: int
    outcome: Outcome
    evidence: str
    sends: int | None = None


@dataclass(slots=True)
class Result:
    """What a settled operation leaves behind; None keeps what is stored."""

    result: str | None = None
    error: str | None = None
    reference: str | None = None
    delivered: int | None = None
    not_before: int | None = None


_NOTHING = Result()
_BUDGET_SPENT = ErrorRecord.of(
    Transient, "the budget is spent: every attempt is proved not to have happened, and it allows no other"
).as_text()
"""Why an operation has failed where no attempt left an error: each was lost, and then proved not to have happened."""

_KNOWN_FOR_GOOD = FINAL_OPERATION_STATES - {OperationState.CANCELLED}
"""Nothing is ever sent from these; what was taken back may be asked for again, after the pause that it was in."""


class Entry:
    """An operation's record together with the moves that keep the ledger equal to it."""

    __slots__ = ("contract", "operation", "owner", "toward")

    needs_approval = False
    """Whether an approval is to be checked before anything is sent."""

    def __init__(self, operation: Operation, contract: Contract, owner: Owner) -> None:
        self.operation = operation
        self.contract = contract
        self.owner = owner
        self.toward: str | None = None
        """The marks of what its dispatches go toward, see `core.containment`; None where nothing is sent."""

    @property
    def is_new(self) -> bool:
        """Whether the operation has no row in the ledger yet."""
        return not self.operation.reserved_at

    # -- intent ---------------------------------------------------------------------------------------------------

    def reserve(self, now: int) -> list[Move]:
        """Write the intent down without permission to send."""
        operation = self.operation
        row = OPERATION.row(None, Event.RESERVE)
        operation.state = row.to
        return [self._insert(now, row.texts[2])]

    def open_dispatched(self, now: int, token: int | None = None) -> list[Move]:
        """Write intent and permission in one transition, for a step that may go at once; a fenced one has a token."""
        operation = self.operation
        row = OPERATION.row(None, Event.DISPATCH)
        operation.state = row.to
        operation.first_dispatched_at = now
        return [self._insert(now, row.texts[2], self._attempt(now, token))]

    def dispatch(self, now: int, token: int | None = None) -> list[Move]:
        """Permission for the next attempt of an operation that is reserved, or unknown and safe to resend.

        A clock that was set back dates no attempt before the budget that it counts against, or before its predecessor.
        """
        operation = self.operation
        now = max(now, operation.budget_from, operation.attempts[-1].dispatched_at if operation.attempts else 0)
        expected = operation.state
        operation.state = OPERATION.after(expected, Event.DISPATCH)
        if operation.first_dispatched_at is None:
            operation.first_dispatched_at = now
        operation.not_before = None
        operation.changed_at = now
        attempt = self._attempt(now, token)
        dispatched = DispatchOperation(
            operation.run,
            self.owner.generation,
            self.owner.run_state,
            operation.step,
            operation.item or "",
            expected.value,
            attempt.number,
            now,
            attempt.token,
            attempt.lease,
            attempt.send_by,
            attempt.span_ends_at,
            operation.approval,
            self.toward,
        )
        return [dispatched] if attempt.number == 1 else [dispatched, self._insert_attempt(attempt)]

    def suppose_lost(self, epoch: Epoch, now: int, *, new: bool) -> tuple[list[Move], list[Observe]]:
        """Write down, before the first dispatch, that one may have been made in the time that the ledger has forgotten.

        Its request may have left as late as the restore, its key have been used as early as the loss began, and its
        token have been any of before. `new`: the operation has no row yet.
        """
        operation, owner, toward = self.operation, self.owner, self.toward
        self.owner, self.toward = Owner(NOBODY, owner.generation, owner.run_state), None
        if new:
            row = OPERATION.row(None, Event.DISPATCH)
            operation.state, operation.first_dispatched_at = row.to, epoch.began_at
            moves: list[Move] = [self._insert(now, row.texts[2], self._attempt(epoch.began_at, epoch.base))]
        else:
            moves = self.dispatch(epoch.began_at, epoch.base)
        self.owner, self.toward = owner, toward
        moves.append(self.move(Event.LOSE, now))
        evidence = canonical({"kind": LOST_TIME, "lost_from": epoch.lost_from, "restored_at": epoch.began_at})
        seen = self.observe(Observation(LOST_TIME, None, evidence, now, attempt=1))
        operation.learn()
        return moves, [seen]

    # -- evidence -------------------------------------------------------------------------------------------------

    def succeed(self, proof: Proof, now: int, outcome: Result) -> list[Move]:
        """Take in that an attempt was applied, with the result; the first and only one is one change of one row."""
        operation = self.operation
        attempt = operation.attempts[0]
        if (
            len(operation.attempts) > 1
            or operation.state is not _SUCCEEDS.state
            or attempt.outcome is not _IS_APPLIED.state
            or operation.conflict
            or outcome.result is None
        ):
            return self.settle([proof], now, retryable=False, outcome=outcome)
        attempt.outcome = _IS_APPLIED.to
        attempt.evidence, attempt.sends, attempt.settled_at = proof.evidence, proof.sends, now
        self._becomes(_SUCCEEDS.to, now, outcome)
        return [
            Succeed(
                operation.run,
                self.owner.generation,
                operation.step,
                operation.item or "",
                proof.evidence,
                proof.sends,
                outcome.result,
                outcome.reference,
                outcome.delivered,
                now,
            )
        ]

    def settle(
        self, proofs: list[Proof], now: int, *, retryable: bool, outcome: Result = _NOTHING, gives_up: bool = True
    ) -> list[Move]:
        """Take in evidence about attempts and fold; returns the moves, the operation's own last.

        `retryable`: the error, if any, is worth another attempt. `gives_up`: it has failed if the budget allows none;
        else it is reserved, and whoever leads it gives it up with the hold of its run. Contradictory evidence raises
        the conflict flag.
        """
        operation = self.operation
        moves: list[Move] = []
        contradicted = False
        for proof in proofs:
            attempt = operation.attempts[proof.attempt - 1]
            means = evidence_event(attempt.outcome, proof.outcome, contradicted=operation.conflict)
            if means is None:
                continue
            contradicted |= means is AttemptEvent.CONTRADICT
            moves.append(self._settle_attempt(attempt, means, proof, now))
        folded = fold([attempt.outcome for attempt in operation.attempts])
        if contradicted or folded.conflict:
            return [*moves, *self.raise_conflict(now, outcome)]
        again = retryable and (not gives_up or may_try_again(operation, self.contract, now))
        event = operation_event(folded, may_go_again=again)
        if OPERATION.allows(operation.state, event):
            moves.append(self.move(event, now, outcome))
        return moves

    def prove_absent(self, evidence: str, now: int, *, gives_up: bool = True) -> list[Move]:
        """An accepted absence: every unresolved attempt is proved not applied (`protocol` C2)."""
        proofs = [
            Proof(attempt.number, Outcome.NOT_APPLIED, evidence) for attempt in unresolved_attempts(self.operation)
        ]
        return self.settle(proofs, now, retryable=True, gives_up=gives_up)

    def prove_happened(self, evidence: str, now: int, outcome: Result) -> list[Move]:
        """Evidence that the effect is there, whichever attempt brought it; the last unresolved one is credited."""
        unresolved = unresolved_attempts(self.operation)
        attempt = unresolved[-1] if unresolved else self.operation.attempts[-1]
        return self.settle([Proof(attempt.number, Outcome.APPLIED, evidence)], now, retryable=False, outcome=outcome)

    def raise_conflict(self, now: int, outcome: Result = _NOTHING) -> list[Move]:
        """What is known contradicts itself, or the law of one effect: flag it and let a person look."""
        self.operation.conflict = True
        return [self.move(Event.CONTRADICT, now, outcome)]

    def settle_conflict(self, evidence: str, now: int, *, happened: bool, outcome: Result = _NOTHING) -> list[Move]:
        """A person has put right what contradicts itself: take the flag down, and let what is unresolved follow.

        `happened`: the effect stands, once. If no attempt is proved applied the last one is credited; otherwise every
        attempt without proof is proved not applied. An operation that is final stays as it is.
        """
        operation = self.operation
        operation.conflict = False
        moves: list[Move] = [self.move(Event.SETTLE_CONFLICT, now)]
        for attempt in self._to_credit() if happened else unresolved_attempts(operation):
            says = Outcome.APPLIED if happened else Outcome.NOT_APPLIED
            proof = Proof(attempt.number, says, evidence)
            if attempt.outcome is Outcome.NOT_APPLIED:
                moves.append(self._settle_attempt(attempt, AttemptEvent.CONTRADICT, proof, now))
            means = evidence_event(attempt.outcome, says)
            assert means is not None, "it is without proof"
            moves.append(self._settle_attempt(attempt, means, proof, now))
        if operation.state is OperationState.UNKNOWN:
            again = not happened and may_try_again(operation, self.contract, now)
            folded = fold([attempt.outcome for attempt in operation.attempts])
            moves.append(self.move(operation_event(folded, may_go_again=again), now, outcome))
        elif happened and operation.result is None:
            moves.append(self.move(Event.APPLY, now, outcome))
        return moves

    def _to_credit(self) -> list[Attempt]:
        """The attempt that is said to have brought the effect, if none is proved to have."""
        attempts = self.operation.attempts
        if any(attempt.outcome is Outcome.APPLIED for attempt in attempts):
            return []
        return (unresolved_attempts(self.operation) or attempts)[-1:]

    # -- the operation's own row ----------------------------------------------------------------------------------

    def move(self, event: OperationEvent, now: int, outcome: Result = _NOTHING) -> MoveOperation:
        """Lead the operation through one event of its table."""
        operation = self.operation
        row = OPERATION.row(operation.state, event)
        expected, event_text, to = row.texts
        if event is Event.REFUSE and operation.error is None and outcome.error is None:
            outcome = replace(outcome, error=_BUDGET_SPENT)
        self._becomes(row.to, now, outcome)
        return MoveOperation(
            operation.run,
            self.owner.generation,
            operation.step,
            operation.item or "",
            expected,
            event_text,
            to,
            outcome.result,
            outcome.error,
            outcome.reference,
            outcome.delivered,
            operation.not_before,
            int(operation.conflict),
            operation.lookups,
            now,
        )

    def _becomes(self, state: OperationState, now: int, outcome: Result) -> None:
        operation = self.operation
        operation.state = state
        operation.changed_at = now
        operation.not_before = outcome.not_before if state not in _KNOWN_FOR_GOOD else None
        if outcome.result is not None:
            operation.result = outcome.result
        if outcome.error is not None:
            operation.error = outcome.error
        if outcome.reference is not None:
            operation.reference = outcome.reference
        if outcome.delivered is not None:
            operation.delivered, operation.delivered_at = outcome.delivered, now

    def deliver(self, number: int, now: int) -> DeliverOperation:
        """Give the final operation its place in the run's order of deliveries."""
        operation = self.operation
        operation.delivered, operation.delivered_at = number, now
        return DeliverOperation(operation.run, self.owner.generation, operation.step, operation.item or "", number, now)

    def withdraw(self, now: int) -> list[Move]:
        """Take a reserved operation back: nothing was sent, or every attempt is proved not applied."""
        if self.is_new:
            return []  # it was about to be written down
        return [self.move(Event.CANCEL, now, Result(not_before=self.operation.not_before))]

    def refuse(self, error: str, now: int) -> list[Move]:
        """Give a reserved operation up before anything of it was sent; one without a row gets one, for its error."""
        moves = self.reserve(now) if self.is_new else []
        return [*moves, self.move(Event.REFUSE, now, Result(error=error))]

    def ask_again(self, now: int) -> MoveOperation:
        """Intend an operation again that was taken back; what it has used of its budget and its pause counts on."""
        return self.move(Event.RESERVE, now, Result(not_before=self.operation.not_before))

    def postpone(self, until: int, now: int) -> MoveOperation:
        """Keep the state and write down when to go on."""
        event = Event.RELEASE if self.operation.state is OperationState.RESERVED else Event.LOSE
        return self.move(event, now, Result(not_before=until))

    def observe(self, seen: Observation) -> Observe:
        """Append something seen to the record and to the ledger."""
        operation = self.operation
        operation.observations.append(seen)
        return Observe(
            operation.run,
            operation.step,
            operation.item or "",
            seen.attempt,
            seen.kind,
            seen.says,
            seen.evidence,
            self.owner.lease,
            self.owner.generation,
            int(seen.current),
            seen.began_at,
            seen.seen_at,
        )

    # -- rows -----------------------------------------------------------------------------------------------------

    def _attempt(self, now: int, token: int | None) -> Attempt:
        contract, operation = self.contract, self.operation
        attempt = Attempt(
            number=len(operation.attempts) + 1,
            dispatched_at=now,
            send_by=now + contract.timeout,
            span_ends_at=now + contract.span,
            lease=self.owner.lease,
            generation=self.owner.generation,
            token=token,
        )
        operation.attempts.append(attempt)
        return attempt

    def _insert(self, now: int, state: str, attempt: Attempt | None = None) -> NewOperation:
        operation = self.operation
        operation.generation = self.owner.generation
        operation.reserved_at = operation.changed_at = operation.budget_from = now
        return NewOperation(
            operation.run,
            self.owner.generation,
            self.owner.run_state,
            operation.step,
            operation.item or "",
            operation.effect,
            operation.contract_version,
            operation.key,
            operation.key_scheme,
            operation.scope,
            operation.request,
            operation.fingerprint,
            operation.policy,
            operation.compensates,
            state,
            0 if attempt is None else 1,
            operation.not_before,
            operation.error,
            now,
            None if attempt is None else attempt.token,
            None if attempt is None else attempt.lease,
            None if attempt is None else attempt.dispatched_at,
            None if attempt is None else attempt.send_by,
            None if attempt is None else attempt.span_ends_at,
            None if attempt is None else operation.approval,
            None if attempt is None else self.toward,
        )

    def _insert_attempt(self, attempt: Attempt) -> NewAttempt:
        operation = self.operation
        return NewAttempt(
            operation.run,
            self.owner.generation,
            operation.step,
            operation.item or "",
            attempt.number,
            attempt.token,
            attempt.lease,
            attempt.dispatched_at,
            attempt.send_by,
            attempt.span_ends_at,
        )

    def _settle_attempt(self, attempt: Attempt, event: AttemptEvent, proof: Proof, now: int) -> Move:
        operation = self.operation
        row = ATTEMPT.row(attempt.outcome, event)
        attempt.outcome = row.to
        attempt.evidence, attempt.sends, attempt.settled_at = proof.evidence, proof.sends, now
        run, generation, step, item = operation.run, self.owner.generation, operation.step, operation.item or ""
        expected, name, to = row.texts
        if attempt.number == 1:
            return SettleFirst(run, generation, step, item, expected, name, to, proof.evidence, proof.sends, now)
        return SettleAttempt(
            run, generation, step, item, attempt.number, expected, name, to, proof.evidence, proof.sends, now
        )


class ApprovedEntry(Entry):
    """The entry of an effect that may be sent only with somebody's approval, which its dispatch uses."""

    __slots__ = ()

    needs_approval = True
