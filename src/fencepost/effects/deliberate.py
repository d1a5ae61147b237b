"""Leads a step that changes nothing outside - a read, a computation, a model's answer - as far as it goes now.

`work_out` has the shape of `perform`: a generator that yields what it needs done (`Record`: make moves durable,
`RunBody`: run the body once) and returns a conclusion. There is no intent to write down first, since running such a
body twice harms nobody; so a step that succeeds at once costs no commit of its own. What counts is kept in its row: an
accepted result, which is never asked for again, and how much of each budget is used, which no crash forgets.

A labelled failure of the outside is tried again within the budget; anything else a body raises is a fault of the code,
so the step fails, and the workflow sees it. Effects, whose failures may mean that something happened, are led by
`perform`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator
from typing import Any, NamedTuple

from fencepost.core.contract import Contract
from fencepost.core.duration import SECOND
from fencepost.core.errors import (
    Cancelled,
    ErrorRecord,
    LeaseLost,
    Malformed,
    NotOwner,
    Permanent,
    RateLimited,
    StepError,
    Transient,
    Unresolved,
)
from fencepost.core.records import Step as StepRecord
from fencepost.core.retry import pause
from fencepost.core.states import StepState
from fencepost.core.transitions import STEP, StepEvent
from fencepost.effects.classifiers import read_client_error
from fencepost.effects.conclusion import Concluded, Conclusion, Holding, Later, Superseded
from fencepost.effects.declare import Bound
from fencepost.effects.entry import Owner
from fencepost.effects.failures import error_record
from fencepost.effects.model import ModelStep
from fencepost.effects.needs import Record, Sent
from fencepost.effects.perform import BUDGET_SPENT
from fencepost.effects.policy import Refused, ask
from fencepost.effects.ports import Clock
from fencepost.effects.tally import Tally
from fencepost.store.api import Answer
from fencepost.store.moves import Move, MoveStep, OpenStep

FORMAT_BUDGET_SPENT = "format budget spent"
INTERRUPTED = SECOND // 2
"""Microseconds until a step whose worker may send nothing just now is looked at again."""

_NOTE = "note"
"""The event of a move that leaves a step's state and only writes its tally or its delivery down."""


class RunBody(NamedTuple):
    """Run the step's body once; `attempt` counts from 1."""

    position: str
    attempt: int


class _Retry(NamedTuple):
    """The failure is worth another attempt, after the pause that the target asked for, in microseconds."""

    retry_after: int | None = None


class StepEntry:
    """One position's row: changes the record in memory and says which move makes the same change durable."""

    __slots__ = ("_is_new", "_owner", "_run", "_steps", "record")

    def __init__(
        self,
        record: StepRecord,
        run: int,
        owner: Owner,
        *,
        is_new: bool = False,
        steps: dict[str, StepRecord] | None = None,
    ) -> None:
        self.record = record
        self._run = run
        self._owner = owner
        self._is_new = is_new
        self._steps = steps

    def is_withdrawn(self) -> bool:
        """Whether nobody waits for the step any more; it may become so while its body runs."""
        return self.record.state is StepState.CANCELLED

    def write(
        self,
        event: StepEvent | None,
        now: int,
        *,
        detail: str | None = None,
        result: str | None = None,
        error: str | None = None,
        delivered: int | None = None,
        due_at: int | None = None,
    ) -> Move:
        """Lead the row through `event`, or with None keep it open and note what is given; None keeps what is stored."""
        record = self.record
        expected = record.state
        record.state = expected if event is None else STEP.after(expected, event)
        closed_at = None if record.state is StepState.OPEN else now
        record.detail, record.result, record.error = detail or record.detail, result, error
        record.delivered, record.due_at, record.closed_at = delivered, due_at, closed_at
        if self._is_new:
            self._is_new = False
            if self._steps is not None:
                self._steps[record.position] = record
            return OpenStep(
                self._run, self._owner.generation, record.position, record.kind, record.name, record.fingerprint,
                record.version, record.state.value, record.request, detail, result, error, delivered, due_at,
                record.opened_at, closed_at,
            )  # fmt: skip
        return MoveStep(
            self._run, self._owner.generation, record.position, expected.value, event.value if event else _NOTE,
            record.state.value, detail, result, error, delivered, due_at, now,
        )  # fmt: skip

    def deliver(self, number: int, now: int) -> Move:
        """Give a closed position its place in the run's order of deliveries."""
        record = self.record
        record.delivered = number
        return MoveStep(
            self._run, self._owner.generation, record.position, record.state.value, _NOTE, record.state.value, None,
            None, None, number, None, now,
        )  # fmt: skip


class Deliberation:
    """One step being led; see `work_out`."""

    def __init__(
        self,
        entry: StepEntry,
        bound: Bound[Any],
        principal: str | None,
        clock: Clock,
        delivery: Callable[[], int | None],
    ) -> None:
        self.entry = entry
        self.step = bound.step
        self.model = bound.step if isinstance(bound.step, ModelStep) else None
        self.principal = principal
        self.clock = clock
        self.delivery = delivery
        fresh = entry.record.detail is None
        self.tally = Tally.from_text(entry.record.detail, began_at=entry.record.opened_at if fresh else clock.now())

    def lead(self) -> Generator[Record | RunBody, Any, Conclusion]:
        """Lead the step from whatever state it is in."""
        record = self.entry.record
        if record.state is not StepState.OPEN:
            return self._recorded()
        if self.tally.spent is not None:
            return Holding(reason=self.tally.spent, detail=_message(record.error))
        if record.due_at is not None and record.due_at > self.clock.now():
            return Later(until=record.due_at, why="the pause before the next attempt")
        while True:
            self.tally.attempts += 1
            sent: Sent = yield RunBody(record.position, self.tally.attempts)
            if sent.cancelled or self.entry.is_withdrawn():
                return Conclusion()  # its run or branch was cancelled meanwhile: the answer is nobody's
            if self.model is not None:
                self.tally.endpoint = _endpoint(sent.evidence) or self.tally.endpoint
            came = self._returned(sent.value) if sent.error is None else self._raised(sent.error)
            if isinstance(came, Conclusion):
                return came
            # The used-up attempt is durable before the next, so that a crash in a loop of bad answers gains none.
            answer: Answer = yield Record([came], [])
            if answer is not Answer.MOVED:
                return Superseded(answer=answer)

    def _recorded(self) -> Conclusion:
        """Closed already: hand on what is recorded."""
        record, at = self.entry.record, self.entry.record.closed_at or 0
        moves: list[Move] = []
        if not record.delivered and (number := self.delivery()) is not None:
            # It ended when nobody waited for it, and what withdrew it was taken back.
            moves.append(self.entry.deliver(number, self.clock.now()))
        if record.state is StepState.DONE:
            return Concluded(moves, at=at, payload=record.result)
        error = ErrorRecord.of(Cancelled, record.state.value) if record.error is None else None
        return Concluded(moves, at=at, error=error or ErrorRecord.from_text(record.error or ""))

    # -- what the body brought ------------------------------------------------------------------------------------

    def _returned(self, value: Any) -> Conclusion:
        try:
            payload = self.step.results.encode(value)
            self._ask_policy(value)
        except Exception as error:  # noqa: BLE001 - a value's own methods may raise anything
            return self._failed(error)
        now = self.clock.now()
        move = self.entry.write(
            StepEvent.FINISH, now, detail=self.tally.as_text(), result=payload, delivered=self.delivery()
        )
        return Concluded([move], at=now, payload=payload)

    def _ask_policy(self, value: Any) -> None:
        """Have the policy judge a model's accepted result; raises what the workflow is to see if it refuses."""
        if self.model is None or self.model.policy is None:
            return
        verdict = ask(self.model.policy, self.principal, value)
        self.tally.policy = json.loads(verdict.as_text())
        if isinstance(verdict, Refused):
            raise Permanent(f"refused by policy: {verdict.why}", ids={"step": self.step.name})

    def _raised(self, error: BaseException) -> Conclusion | Move:
        if isinstance(error, LeaseLost):
            # Our own reason: the attempt says nothing about the step.
            return Later(until=self.clock.now() + INTERRUPTED, why="interrupted")
        if isinstance(error, Malformed) and self.model is not None:
            return self._malformed(error, self.model)
        retry = _retry(error, self.step.name, self.clock.now())
        return self._failed(error) if retry is None else self._try_again(error, retry)

    def _failed(self, error: BaseException) -> Conclusion:
        record = error_record(error)
        now = self.clock.now()
        move = self.entry.write(
            StepEvent.FAIL, now, detail=self.tally.as_text(), error=record.as_text(), delivered=self.delivery()
        )
        return Concluded([move], at=now, error=record)

    def _malformed(self, error: Malformed, model: ModelStep[..., Any]) -> Conclusion | Move:
        text = getattr(error, "text", None) if model.keep_bad_output else None
        self.tally.count_malformed(text if isinstance(text, str) else None)
        if self.tally.format_failures >= model.format_attempts:
            return self._hold(FORMAT_BUDGET_SPENT, error)
        return self._note(error)

    def _try_again(self, error: BaseException, retry: _Retry) -> Conclusion:
        self.tally.failures += 1
        now = self.clock.now()
        budget = self.step.retry
        used_up = budget.attempts is not None and self.tally.failures >= budget.attempts
        too_late = budget.within is not None and now - self.tally.budget_from > budget.within
        if used_up or too_late:
            return self._hold(BUDGET_SPENT, error)
        until = now + pause(budget, self.tally.failures, draw=self.clock.draw(), retry_after=retry.retry_after)
        return Later([self._note(error, due_at=until)], until=until, why="the pause before the next attempt")

    def _hold(self, reason: str, error: BaseException) -> Holding:
        self.tally.spent = reason
        return Holding([self._note(error)], reason=reason, detail=error_record(error).message)

    def _note(self, error: BaseException, *, due_at: int | None = None) -> Move:
        now = self.clock.now()
        return self.entry.write(
            None, now, detail=self.tally.as_text(), error=error_record(error).as_text(), due_at=due_at
        )


def _retry(error: BaseException, step: str, now: int) -> _Retry | None:
    """Whether a failure is worth another attempt; None: it is a fault of the code, or a definite refusal."""
    match error:
        case RateLimited():
            return _Retry(error.pause)
        case Transient() | Unresolved() | NotOwner():
            return _Retry()
        case StepError():
            return None
        case _:
            reading = read_client_error(error, Contract(step), now=now)
            return _Retry(reading.retry_after) if reading is not None and reading.retryable else None


def _endpoint(evidence: str) -> str | None:
    """Who answered, where a model was asked."""
    found = json.loads(evidence) if evidence else None
    return found.get("endpoint") if isinstance(found, dict) else None


def _message(error: str | None) -> str:
    return "" if error is None else ErrorRecord.from_text(error).message


def work_out(  # noqa: PLR0917 - the same order as a step is described everywhere: row, call, place, owner, time
    record: StepRecord | None,
    bound: Bound[Any],
    position: str,
    run: int,
    owner: Owner,
    clock: Clock,
    delivery: Callable[[], int | None],
    *,
    principal: str | None = None,
    steps: dict[str, StepRecord] | None = None,
) -> Generator[Record | RunBody, Any, Conclusion]:
    """Lead the step at `position` of the run with number `run` as far as it goes now; `record` is its row, if any.

    Answer a `RunBody` with `Sent`, of which only value, error and evidence are looked at, and a `Record` with the
    ledger's `Answer`. `delivery` gives the result's place in the run's order of deliveries at the moment it concludes.
    `principal` is whom a model step's policy is told about. `steps` takes in the record of a new row once there is one.

    Returns:
    - `Concluded`: done or failed; its move and the delivery belong into one commit.
    - `Later`: a pause, whose end is stored with the step.
    - `Holding`: "budget spent" or "format budget spent". The step stays open, and holds again whenever it is led,
      until `renewed` gives it a new budget.
    - `Superseded`: the ledger refused a note.
    """
    if record is None:
        step = bound.step
        record = StepRecord(
            position, step.kind, step.name, bound.fingerprint, StepState.OPEN, clock.now(), step.version,
            bound.request,
        )  # fmt: skip
        entry = StepEntry(record, run, owner, is_new=True, steps=steps)
    else:
        entry = StepEntry(record, run, owner)
    return Deliberation(entry, bound, principal, clock, delivery).lead()


def renewed(record: StepRecord, run: int, owner: Owner, now: int) -> Move | None:
    """The move that gives an open step whose budget is spent a new one; None if nothing of it is spent.

    For a person who resumes the run: what was counted and kept so far stays in the step's `detail` under "before".
    """
    tally = Tally.from_text(record.detail, began_at=now)
    if record.state is not StepState.OPEN or tally.spent is None:
        return None
    return StepEntry(record, run, owner).write(None, now, detail=tally.renewed(now).as_text(), due_at=now)
