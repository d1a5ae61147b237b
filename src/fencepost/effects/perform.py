"""Leads one operation from its intent to an outcome, as far as it goes now: a generator of needs.

`perform` asks `core.recovery` what to do, yields what it needs done (`Record`: make moves durable, `Send`: run the
body once, `Ask`: look up at the target) and is answered; it does nothing itself. One sync and one async loop drive it,
in the worker, in the ledger without an engine, and behind an operator's button alike. Moves that nothing waits for
come back with the conclusion, so that they ride in the commit of whatever happens next.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from typing import Any

from fencepost.core.errors import ErrorRecord, Permanent, ValueRefused
from fencepost.core.identity import canonical
from fencepost.core.records import LOOK_UP, Observation
from fencepost.core.recovery import (
    Dispatch,
    Disprove,
    GiveUp,
    Hold,
    HoldReason,
    LookUp,
    Moment,
    Pause,
    absence_is_proof,
    decide,
    has_token_out,
    is_kept_back,
    was_reported,
)
from fencepost.core.recovery import Move as NextMove
from fencepost.core.retry import pause
from fencepost.core.states import OperationState, Outcome
from fencepost.core.transitions import OperationEvent
from fencepost.effects.answers import Absent, Conflicting, Found, Inconclusive
from fencepost.effects.conclusion import Concluded, Conclusion, Holding, Later, Superseded
from fencepost.effects.entry import Entry, Proof, Result
from fencepost.effects.failures import error_record
from fencepost.effects.kept_back import kept_back_by
from fencepost.effects.needs import (
    Ask,
    Authorise,
    Committed,
    IssueToken,
    Load,
    LookedUp,
    Need,
    RaiseFence,
    Record,
    Reread,
    Rest,
    Send,
    Sent,
)
from fencepost.effects.ports import Clock, Delivery, Door
from fencepost.effects.values import Carried
from fencepost.store.api import Answer
from fencepost.store.moves import Move, Observe

BUDGET_SPENT = "budget spent"
RESULT_MISSING = "result missing"

NOT_COMMITTED = canonical({"kind": "not committed"})
"""The evidence against an atomic attempt: its result would be in the ledger, and can get there no more."""


class Performance:
    """One operation being led; see `perform`."""

    __slots__ = (
        "clock",
        "delivery",
        "door",
        "entry",
        "last_error",
        "moves",
        "observations",
        "owned_since",
        "position",
        "scope",
    )

    def __init__(
        self, entry: Entry, door: Door, clock: Clock, delivery: Delivery, *, owned_since: int, position: str, scope: str
    ) -> None:
        self.entry = entry
        self.door = door
        self.clock = clock
        self.delivery = delivery
        self.owned_since = owned_since
        self.position = position
        self.scope = scope
        self.moves: list[Move] = []
        self.observations: list[Observe] = []
        self.last_error: BaseException | None = None

    def new(self) -> Generator[Need, Any, Conclusion]:
        """Lead an operation that has no row yet and may go at once: intent and permission are one transition."""
        entry = self.entry
        token: int | None = None
        if entry.toward is not None and self.clock.may_be_contained(entry.toward):
            contained = yield from self._contained()
            if contained is not None:
                return contained
        if entry.needs_approval:
            unapproved = yield from self._authorise()
            if unapproved is not None:
                return unapproved
        if self.door.is_fenced:
            token = yield IssueToken(entry)
            if token is None:
                return Superseded()
        answer: Answer = yield Record(entry.open_dispatched(self.clock.now(), token), [])
        if answer is not Answer.MOVED:
            return Superseded(answer=answer)
        concluded = self._take_in((yield Send(entry, entry.operation.attempts[0])))
        if concluded is not None:
            return concluded
        return (yield from self.go_on())

    def go_on(self) -> Generator[Need, Any, Conclusion]:
        """Lead an operation that has a row, from whatever state it is in."""
        entry = self.entry
        while not self._is_nobodys():
            concluded: Conclusion | None = None
            match self._next_move():
                case Dispatch():
                    concluded = yield from self._dispatch()
                case Disprove():
                    self.moves += entry.prove_absent(NOT_COMMITTED, self.clock.now(), gives_up=False)
                case LookUp(raise_fence=raise_fence):
                    concluded = yield from self._look_up(raise_fence=raise_fence)
                case Pause(until=until, why=why, owning=owning):
                    if not owning or not (yield from self._rest(until)):
                        return Later(self._flush(), self._seen(), until, why)
                case Hold(reason=reason):
                    return self._held(reason, self._last_words())
                case GiveUp():
                    failed = entry.move(OperationEvent.REFUSE, self.clock.now())
                    return Holding(self._flush(), self._seen(), BUDGET_SPENT, self._last_words(), with_hold=[failed])
                case _:
                    return (yield from self._recorded())
            if concluded is not None:
                return concluded
        return self._take_back()

    def _next_move(self) -> NextMove:
        """What to do now; of what nobody waits for any more the target is rather asked than sent it again.

        A cancelled run does not want to make happen what may not have happened. Only where asking cannot tell is it
        sent again under its key, to learn what became of it.
        """
        entry, moment = self.entry, self._moment()
        operation, contract = entry.operation, entry.contract
        is_asked_about = operation.state is OperationState.UNKNOWN and contract.look_up is not None
        if is_asked_about and operation.compensates is None and self.delivery(self.position) is None:
            asking = decide(operation, replace(contract, key=None, repeatable=False), moment)
            if not isinstance(asking, Hold):
                return asking
        return decide(operation, contract, moment)

    def _take_back(self) -> Conclusion:
        self.moves += self.entry.withdraw(self.clock.now())
        return Conclusion(self._flush(), self._seen())

    def _is_nobodys(self) -> bool:
        """Whether nothing of it is on its way, and no branch of the workflow waits for it any more (`protocol` F4)."""
        operation = self.entry.operation
        if operation.state is not OperationState.RESERVED or operation.conflict:
            return False
        return operation.compensates is None and self.delivery(self.position) is None

    def _dispatch(self) -> Generator[Need, Any, Conclusion | None]:
        """Send the next attempt; None: not concluded, decide again."""
        entry, token = self.entry, None
        if entry.toward is not None and (is_kept_back(entry.operation) or self.clock.may_be_contained(entry.toward)):
            contained = yield from self._contained()
            if contained is not None:
                return contained
        if entry.needs_approval and (entry.operation.state is OperationState.RESERVED or not entry.operation.approval):
            unapproved = yield from self._authorise()
            if unapproved is not None:
                return unapproved
        if self.door.is_fenced:
            token = yield IssueToken(entry)
            if token is None:
                return Superseded(self._flush(), self._seen())
        moves = [*self._flush(), *entry.dispatch(self.clock.now(), token)]
        answer: Answer = yield Record(moves, self._seen())
        if answer is not Answer.MOVED:
            return Superseded(answer=answer)
        return self._take_in((yield Send(entry, entry.operation.attempts[-1])))

    def _contained(self) -> Generator[Need, Any, Later | None]:
        """Ask whether where the next dispatch goes is contained; None: it may go."""
        now = self.clock.now()
        contained = yield from kept_back_by(self.entry, now, self.observations)
        return None if contained is None else Later(self._flush(), self._seen(), now, *contained)

    def _authorise(self) -> Generator[Need, Any, Conclusion | None]:
        """Have the approval checked that this dispatch would use; None: it allows it now.

        What may have happened under an approval is sent again without one, under its key, to learn what became of it:
        refusing that would undo nothing. What may have happened without any, such as in a restored ledger's lost time,
        is a person's matter if it is refused: nobody knows that it failed.
        """
        answer: ErrorRecord | Conclusion | None = yield Authorise(self.entry)
        if isinstance(answer, ErrorRecord):
            if self.entry.operation.state is OperationState.UNKNOWN:
                return self._held(HoldReason.REFUSED, answer.message)
            now = self.clock.now()
            self.moves += self.entry.refuse(answer.as_text(), now)
            return self._raised(answer, now)
        if answer is not None:
            answer.moves[:0], answer.observations[:0] = self._flush(), self._seen()
        return self._take_back() if answer is None and self._is_nobodys() else answer

    def _look_up(self, *, raise_fence: bool) -> Generator[Need, Any, Conclusion | None]:
        """Ask the target, under a fresh token raised there first if it compares them (`protocol` C2, C3)."""
        token: int | None = None
        if raise_fence:
            token = yield IssueToken(self.entry)
            if token is None:
                return Superseded(self._flush(), self._seen())
            failure: str | None = yield RaiseFence(self.entry, token)
            if failure is not None:
                return self._take_answer(Inconclusive(failure), self._moment())
        began = replace(self._moment(), token=token)
        answer = yield Ask(self.entry)
        if isinstance(answer, Absent) and has_token_out(self.entry.operation):
            yield Reread(self.entry)
            if was_reported(self.entry.operation):
                answer = Inconclusive("not found, and yet somebody reports on the job under its token")
        return self._take_answer(answer, began)

    def _rest(self, until: int) -> Generator[Need, Any, bool]:
        """Write down what is known so far and keep the run until then; False: it could not be kept."""
        if self.moves or self.observations:
            answer: Answer = yield Record(self._flush(), self._seen())
            if answer is not Answer.MOVED:
                return False
        return bool((yield Rest(until)))

    # -- what a send brought --------------------------------------------------------------------------------------

    def _take_in(self, sent: Sent) -> Conclusion | None:
        """Take in what a body's run proves; None: not concluded, decide again."""
        # Our own send is over: what we own of this operation counts from now.
        self.owned_since = self.clock.boot_now()
        attempt = self.entry.operation.attempts[-1]
        if sent.error is None:
            return self._applied(sent, attempt.number)
        self.last_error = sent.error
        return self._not_returned(sent, attempt.number)

    def _applied(self, sent: Sent, number: int) -> Conclusion:
        now = self.clock.now()
        if isinstance(sent.value, Committed):
            return self._delivered(sent.value.carried, now)
        proof = Proof(number, Outcome.APPLIED, sent.evidence, sent.sends)
        try:
            carried = self.door.carry_result(sent.value)
            reference = sent.reference or self.door.reference_of(sent.value)
        except ValueRefused as refused:
            # It happened; only its result cannot be kept. The run is held, nothing is sent again.
            outcome = Result(error=error_record(refused).as_text(), reference=sent.reference)
            self.moves += self.entry.settle([proof], now, retryable=False, outcome=outcome)
            return Holding(self._flush(), self._seen(), RESULT_MISSING, str(refused))
        outcome = Result(result=carried.text, reference=reference, delivered=self.delivery(self.position))
        self.moves += self.entry.succeed(proof, now, outcome)
        if self.entry.operation.conflict:
            return Holding(self._flush(), self._seen(), HoldReason.CONFLICT.value, "more than one attempt was applied")
        return Concluded(self._flush(), self._seen(), now, carried)

    def _delivered(self, result: Carried | str | None, now: int) -> Concluded:
        """The success is in the ledger already: give it its place in the order of deliveries, and hand it on."""
        number = self.delivery(self.position)
        if number is not None and not self.entry.operation.delivered:
            self.moves.append(self.entry.deliver(number, now))
        return Concluded(self._flush(), self._seen(), now, result)

    def _not_returned(self, sent: Sent, number: int) -> Conclusion | None:
        now = self.clock.now()
        reading = sent.reading
        if reading is None or sent.error is None:
            raise AssertionError("an error without a reading")
        record = error_record(sent.error)
        pause = 0 if sent.kept_out else self._pause(reading.retry_after)
        outcome = Result(error=record.as_text(), reference=sent.reference, not_before=now + pause)
        proof = Proof(number, reading.outcome, sent.evidence, sent.sends)
        again = reading.retryable or sent.kept_out
        self.moves += self.entry.settle([proof], now, retryable=again, outcome=outcome, gives_up=False)
        if (kind := sent.leaves) is not None:
            self.observations.append(self.entry.observe(Observation(kind, None, sent.evidence, now, attempt=number)))
        state = self.entry.operation.state
        if state is OperationState.UNKNOWN and reading.outcome is Outcome.NOT_APPLIED and not again:
            # The refusal says nothing of the earlier attempt, and the same again would be refused the same way.
            return self._held(HoldReason.REFUSED, self._last_words())
        return self._raised(record, now) if state is OperationState.FAILED else None

    def _raised(self, record: ErrorRecord, now: int) -> Concluded:
        """The operation has failed for good: its error is delivered in the same commit."""
        number = self.delivery(self.position)
        if number is not None:
            self.moves.append(self.entry.deliver(number, now))
        return Concluded(self._flush(), self._seen(), now, None, record)

    def _pause(self, retry_after: int | None) -> int:
        failures = len(self.entry.operation.attempts)
        return pause(self.entry.contract.retry, failures, draw=self.clock.draw(), retry_after=retry_after)

    # -- what a look-up brought -----------------------------------------------------------------------------------

    def _take_answer(self, answer: LookedUp, began: Moment) -> Conclusion | None:
        """Take in a look-up's answer; None: not concluded, decide again."""
        entry = self.entry
        now = self.clock.now()
        entry.operation.lookups += 1
        evidence = answer.evidence()
        seen = Observation(LOOK_UP, answer.says, evidence, now, began_at=began.now)
        self.observations.append(entry.observe(seen))
        match answer:
            case Found():
                return self._found(answer, evidence, now)
            case Absent():
                if absence_is_proof(entry.operation, entry.contract, began):
                    self.moves += entry.prove_absent(evidence, now, gives_up=False)
            case Conflicting():
                self.moves += entry.raise_conflict(now)
            case Inconclusive():
                self.moves.append(entry.postpone(now + self._pause(None), now))
        return None

    def _found(self, found: Found[Any], evidence: str, now: int) -> Conclusion:
        try:
            carried = self.door.carry_result(found.result)
            reference = found.reference or self.door.reference_of(found.result)
        except ValueRefused as refused:
            self.moves += self.entry.prove_happened(evidence, now, Result(reference=found.reference))
            return Holding(self._flush(), self._seen(), RESULT_MISSING, str(refused))
        outcome = Result(result=carried.text, reference=reference, delivered=self.delivery(self.position))
        self.moves += self.entry.prove_happened(evidence, now, outcome)
        if self.entry.operation.conflict:
            return Holding(self._flush(), self._seen(), HoldReason.CONFLICT.value, "a refused attempt is found applied")
        return Concluded(self._flush(), self._seen(), now, carried)

    def _recorded(self) -> Generator[Need, Any, Conclusion]:
        """The operation was final already, settled by late evidence or a person: hand on what is recorded."""
        operation = self.entry.operation
        if operation.state is OperationState.SUCCEEDED and operation.result is None:
            return (yield from self._load())
        number, now = self.delivery(self.position), self.clock.now()
        if number is not None and not operation.delivered:
            self.moves.append(self.entry.deliver(number, now))
        if operation.state is OperationState.SUCCEEDED:
            return Concluded(self._flush(), self._seen(), now, operation.result)
        stored = operation.error and ErrorRecord.from_text(operation.error)
        error = stored or ErrorRecord.of(Permanent, f"the operation is {operation.state}")
        return Concluded(self._flush(), self._seen(), now, None, error)

    def _load(self) -> Generator[Need, Any, Conclusion]:
        """It happened, and its result is missing: read it by its reference where the effect can (`protocol` A8)."""
        reference = self.entry.operation.reference
        if not self.door.can_load or reference is None:
            return Holding(self._flush(), self._seen(), RESULT_MISSING, "settle it again with its result")
        sent: Sent = yield Load(self.entry)
        if sent.error is not None:
            return Holding(self._flush(), self._seen(), RESULT_MISSING, str(sent.error))
        try:
            carried = self.door.carry_result(sent.value)
        except ValueRefused as refused:
            return Holding(self._flush(), self._seen(), RESULT_MISSING, str(refused))
        now = self.clock.now()
        outcome = Result(result=carried.text, delivered=self.delivery(self.position))
        self.moves.append(self.entry.move(OperationEvent.APPLY, now, outcome))
        return Concluded(self._flush(), self._seen(), now, carried)

    def _moment(self) -> Moment:
        return self.clock.moment(self.owned_since, self.scope)

    def _held(self, reason: HoldReason, detail: str) -> Holding:
        """Hold the run for an operation; for an unknown one only if it is still that when the hold is written.

        Late evidence may settle it in this moment. The hold is refused then, and the run goes on with what is known.
        """
        operation = self.entry.operation
        still: list[Move] = []
        if operation.state is OperationState.UNKNOWN:
            still.append(
                self.entry.move(OperationEvent.LOSE, self.clock.now(), Result(not_before=operation.not_before))
            )
        return Holding(self._flush(), self._seen(), reason.value, detail, with_hold=still)

    # -- what is pending ------------------------------------------------------------------------------------------

    def _flush(self) -> list[Move]:
        moves, self.moves = self.moves, []
        return moves

    def _seen(self) -> list[Observe]:
        seen, self.observations = self.observations, []
        return seen

    def _last_words(self) -> str:
        return "" if self.last_error is None else error_record(self.last_error).message


def perform(
    entry: Entry,
    door: Door,
    clock: Clock,
    delivery: Delivery,
    *,
    owned_since: int,
    position: str,
    scope: str,
    new: bool,
) -> Generator[Need, Any, Conclusion]:
    """Lead the operation of `entry` as far as it goes now.

    `owned_since`: when on the boot-time clock its run was claimed. `scope`: where its key is valid now. `new`: it has
    no row yet. `delivery` gives the place in the run's order of deliveries of an answer at `position` at the moment it
    concludes (None: it is delivered to nobody). The caller delivers a `Concluded` in the same tick.
    """
    performance = Performance(entry, door, clock, delivery, owned_since=owned_since, position=position, scope=scope)
    return performance.new() if new else performance.go_on()
