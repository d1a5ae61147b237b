"""The rows of a run's waits, sleeps, children and cancel: opens them, closes what is due, says when to look again.

Changes the records in memory and collects the moves that make the same change durable, as `effects.entry` does for
operations. Which signal closes which wait is decided in `core.waits`; what the workflow does with it is `execution`.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable

from fencepost.core.asks import Ask, ChildAsk, CompensateAsk, Completion, Patch, SleepAsk, WaitAsk
from fencepost.core.callback import is_under_another
from fencepost.core.errors import ErrorRecord, ValueRefused
from fencepost.core.identity import canonical
from fencepost.core.position import CANCEL
from fencepost.core.records import Audit, History, Operation, Run, Signal, Step
from fencepost.core.standin import is_stand_in
from fencepost.core.states import FINAL_RUN_STATES, SignalState, StepState
from fencepost.core.transitions import SIGNAL, STEP, SignalEvent, StepEvent
from fencepost.core.waits import Expired, Satisfied, due, misfits, refusal, wake_at
from fencepost.effects.callbacks import handed_out
from fencepost.effects.entry import Owner
from fencepost.runtime import audit
from fencepost.runtime.children import answer_of
from fencepost.runtime.jobs import JobSpec
from fencepost.runtime.waiting import WaitSpec
from fencepost.store.moves import Move, MoveSignal, MoveStep, OpenStep


class Positions:
    """The positions of one run that are not effects, by name."""

    def __init__(self, history: History, owner: Owner, audits: list[Audit]) -> None:
        self._history = history
        self._audits = audits
        self._run = history.run.no
        self._owner = owner
        self._signals = history.signals
        self.operations: Collection[Operation] = history.operations
        """The run's operations, as far as it has come; whoever leads them hands its own in."""
        self._specs: dict[str, WaitSpec[object]] = {}
        self._digests: dict[str, str] = {}
        """The calls that waits for an approval allow, by the wait's position."""
        self._jobs: set[str] = set()
        """The names under which reports on jobs are waited for."""
        self._moves: list[Move] = []
        self._waited_for: dict[str, Step] = {}
        """The open waits and sleeps that the workflow has asked for in this life."""
        self.steps: dict[str, Step] = {step.position: step for step in history.steps}
        self.attached: dict[str, Step] = {
            step.position: step for step in history.steps if step.kind == "child" and step.state is StepState.OPEN
        }
        """The positions of children that have not been answered."""
        self._children = _by_step(history)
        self.read_at = 0
        """When the history was read, by the store's clock; whoever reads it says so."""
        self.is_outdated = False
        """Whether a wait is over unless the ledger has given it more time meanwhile: it has to be read again."""

    def take(self, history: History) -> None:
        """Take in signals and children as the ledger holds them now; what this run has answered already stays so."""
        known = {signal.id: signal for signal in self._signals}
        self._signals += [signal for signal in history.signals if signal.id not in known]
        self._children.update(_by_step(history))

    def hear(self, signal: Signal) -> None:
        """Take in a signal that is stored."""
        if all(known.id != signal.id for known in self._signals):
            self._signals.append(signal)

    @property
    def are_waited_for(self) -> bool:
        """Whether the workflow has asked for a wait or sleep that is open."""
        return bool(self._waited_for)

    def flush(self) -> list[Move]:
        """The moves collected since the last flush."""
        moves, self._moves = self._moves, []
        return moves

    # -- opening and closing ----------------------------------------------------------------------------------------

    def ask(self, ask: Ask, now: int) -> int | None:
        """Open the row of a wait or sleep that has none yet; returns when it is due (store clock), if ever.

        One that was withdrawn is opened again, with its whole time: a resume has taken back what withdrew it.
        """
        if isinstance(ask, WaitAsk):
            spec = ask.spec
            assert isinstance(spec, WaitSpec), "the facade hands in its own specs"
            self._specs[ask.position] = spec
            if isinstance(spec, JobSpec):
                self._jobs.add(spec.name)
            if spec.allows is not None:
                self._digests[ask.position] = spec.allows
            if ask.position not in self.steps:
                self._open(_step(ask, now, detail=spec.detail(now), due_at=spec.due_at(now), request=spec.request))
        elif isinstance(ask, SleepAsk) and ask.position not in self.steps:
            self._open(_step(ask, now, due_at=ask.until))
        step = self.steps[ask.position]
        if step.state is StepState.CANCELLED:
            if isinstance(ask, SleepAsk):
                self.reopen(step, now, due_at=now + ask.duration)
            else:
                spec = self._specs[ask.position]
                self.reopen(step, now, due_at=spec.due_at(now), detail=spec.detail(now))
        if step.state is not StepState.OPEN:
            return None
        self._waited_for[step.position] = step
        return step.due_at

    def await_child(self, ask: ChildAsk, now: int) -> bool:
        """Wait for a child that has a row; False if it is to be started.

        A position that was withdrawn, or whose failure a resume has taken back, waits for the same child once more.
        """
        step = self.steps.get(ask.position)
        if step is None:
            return False
        if step.state is StepState.CANCELLED:
            self.reopen(step, now)
            self.attached[step.position] = step
        if step.state is StepState.OPEN:
            self._waited_for[step.position] = step
        return True

    def open_child(self, ask: ChildAsk, child: str, number: int | None, now: int) -> list[Move]:
        """The moves that open a child's position; with a `number` it is answered at once by the child's id."""
        step = _step(ask, now, detail=canonical({"child": child, "detached": number is not None}))
        if number is None:
            self.attached[step.position] = self._waited_for[step.position] = step
        else:
            step.state, step.result, step.delivered, step.closed_at = StepState.DONE, canonical(child), number, now
        self._open(step)
        return self.flush()

    def forget_child(self, position: str) -> bool:
        """Wait for a child no longer, whose row stays open until it has ended; False if there is none."""
        if position not in self.attached:
            return False
        self._waited_for.pop(position, None)
        return True

    def settle_children(self, now: int) -> bool:
        """Close the positions of children that nobody waits for and that have ended; False: others have not."""
        for step in list(self.attached.values()):
            if self._has_ended(step):
                self._move(step, StepEvent.CANCEL, now)
        return not self.attached

    def _has_ended(self, step: Step) -> bool:
        child = self._children.get(step.position)
        return child is not None and child.state in FINAL_RUN_STATES

    def note_patch(self, patch: Patch, now: int) -> None:
        """Record that the run goes the way of a patch."""
        self._open(Step(patch.position, "patch", patch.name, "", StepState.DONE, now, closed_at=now))

    def note_progress(self, value: str, now: int) -> None:
        """Write down how far the run is; nothing if that is what its row says."""
        said = canonical({"value": value, "at": now})
        step = self.steps.get(PROGRESS)
        if step is None:
            self._open(Step(PROGRESS, "progress", "", "", StepState.DONE, now, detail=said, closed_at=now))
        elif progress_of(step)[0] != value:
            step.detail = said
            state = step.state.value
            self._moves.append(
                MoveStep(
                    self._run, self._owner.generation, PROGRESS, state, "note", state, said, None, None, None, None, now
                )
            )

    def _open(self, step: Step) -> None:
        self.steps[step.position] = step
        self._moves.append(
            OpenStep(
                self._run, self._owner.generation, step.position, step.kind, step.name, step.fingerprint, step.version,
                step.state.value, step.request, step.detail, step.result, None, step.delivered, step.due_at,
                step.opened_at, step.closed_at,
            )
        )  # fmt: skip

    def withdraw(self, position: str, now: int) -> bool:
        """Cancel an open wait or sleep that nobody waits for any more; False if there is none."""
        step = self.steps.get(position)
        if step is None:
            return False
        if step.state is StepState.OPEN:
            self._move(step, StepEvent.CANCEL, now)
        return True

    def reopen(self, step: Step, now: int, *, due_at: int | None = None, detail: str | None = None) -> None:
        """Open a withdrawn position again."""
        self._move(step, StepEvent.RESUME, now, due_at=due_at, detail=detail)

    def cancel_delivered(self, run: Run, number: int, now: int) -> str:
        """Record that the run's cancel reaches the workflow at this place in the order; returns its reason."""
        reason = str(json.loads(run.cancel or "{}").get("why", ""))
        if is_stand_in(reason):
            reason = f"({reason})"  # whatever a person writes, it is not taken for a note of the store's own
        step = Step(CANCEL, "cancel", "", "", StepState.DONE, now, result=reason, delivered=number, closed_at=now)
        self._open(step)
        return reason

    def open_compensation(self, ask: CompensateAsk, now: int) -> None:
        """Open the row of a compensation that has none yet."""
        if ask.position not in self.steps:
            self._open(_step(ask, now, detail=canonical({"why": ask.reason})))

    def finish(self, position: str, result: str, number: int | None, now: int) -> None:
        """Close an open position with its result, as the `number`-th delivery (None: it is delivered to nobody)."""
        self._move(self.steps[position], StepEvent.FINISH, now, result=result, delivered=number)

    # -- what is due ------------------------------------------------------------------------------------------------

    def next_due(self, now: int, number: int) -> Completion | None:
        """Close the first wait or sleep that is due, as the `number`-th delivery; None when none is."""
        if self._digests:
            for signal, why in misfits(self._waited_for.values(), self._signals, self._digests):
                self._move_signal(signal, SignalEvent.REFUSE, why, None, now)
        for signal in self._reports_of_earlier_turns() if self._jobs else ():
            self._move_signal(signal, SignalEvent.REFUSE, EARLIER_TURN, None, now)
        for closing in due(self._waited_for.values(), self._signals, now=now, digests=self._digests):
            step = self.steps[closing.position]
            if isinstance(closing, Satisfied) and not self._readable(closing.position, closing.signal, now):
                continue
            if isinstance(closing, Expired) and self._may_be_put_off(step):
                self.is_outdated = True
                continue
            return self._close(step, closing, now, number)
        for step in self._waited_for.values():
            if step.kind == "child" and self._has_ended(step):
                return self._answer_child(step, now, number)
        return None

    def _reports_of_earlier_turns(self) -> list[Signal]:
        """Kept reports under names for which this turn has handed over jobs of its own, and on none of those."""
        kept = [one for one in self._signals if one.state is SignalState.KEPT and one.name in self._jobs]
        return [one for one in kept if is_under_another(one.id, handed_out(self.operations, one.name))]

    def _may_be_put_off(self, step: Step) -> bool:
        """Whether the ledger may have given this wait more time since it was read."""
        spec, due_at = self._specs.get(step.position), step.due_at
        return spec is not None and due_at is not None and self.read_at < due_at and spec.may_be_put_off()

    def _answer_child(self, step: Step, now: int, number: int) -> Completion:
        result, error = answer_of(self._children[step.position])
        if error is None:
            self._move(step, StepEvent.FINISH, now, result=result, delivered=number)
        else:
            self._move(step, StepEvent.FAIL, now, error=error.as_text(), delivered=number)
        return Completion(step.position, result, error, now)

    def _close(self, step: Step, closing: Satisfied | Expired, now: int, number: int) -> Completion:
        if isinstance(closing, Satisfied):
            spec = self._specs[step.position]
            failure = spec.failure_in(closing.signal)
            self._move_signal(closing.signal, SignalEvent.APPLY, None, step.position, now)
            if failure is not None:
                return self._fail(step, failure, now, number)
            result = spec.result_of(closing.signal)
            self._move(step, StepEvent.FINISH, now, result=result, delivered=number)
            return Completion(step.position, result, None, now)
        if step.kind == "sleep":
            self._move(step, StepEvent.FINISH, now, result="null", delivered=number)
            return Completion(step.position, None, None, now)
        assert step.due_at is not None, "only what has a time can be over"
        return self._fail(step, self._specs[step.position].over(step.due_at, step.detail), now, number)

    def _fail(self, step: Step, error: ErrorRecord, now: int, number: int) -> Completion:
        self._move(step, StepEvent.FAIL, now, error=error.as_text(), delivered=number)
        return Completion(step.position, None, error, now)

    def _readable(self, position: str, signal: Signal, now: int) -> bool:
        """Whether the signal has the declared type; one that has not is refused, and the wait stays open."""
        try:
            spec = self._specs[position]
            if spec.failure_in(signal) is None:
                spec.decode(spec.result_of(signal))
        except ValueRefused as error:
            self._move_signal(signal, SignalEvent.REFUSE, str(error), None, now)
            return False
        return True

    def refuse_unwanted(self, now: int, *, ended: bool) -> None:
        """Refuse kept signals that no wait can take any more."""
        kept = [signal for signal in self._signals if signal.state is SignalState.KEPT]
        if not kept:
            return
        # As their rows say: of a wait that an earlier life has closed, this one has heard nothing else.
        waits = (step for step in self.steps.values() if step.kind == "wait")
        many = {step.name for step in waits if json.loads(step.detail or "{}").get("many")}
        for signal in kept:
            why = "not waiting: the run has ended" if ended else refusal(self.steps.values(), signal, many=many)
            if why is not None:
                self._move_signal(signal, SignalEvent.REFUSE, why, None, now)

    def wake_at(self, also: Iterable[int]) -> int | None:
        """When the run must be looked at again; None: only a signal can wake it."""
        return wake_at(self.steps.values(), also=also)

    # -- rows -------------------------------------------------------------------------------------------------------

    def _move(
        self,
        step: Step,
        event: StepEvent,
        now: int,
        *,
        result: str | None = None,
        error: str | None = None,
        delivered: int | None = None,
        due_at: int | None = None,
        detail: str | None = None,
    ) -> None:
        expected = step.state
        step.state = STEP.after(expected, event)
        self._waited_for.pop(step.position, None)
        self.attached.pop(step.position, None)
        step.result, step.error, step.delivered = result, error, delivered
        step.closed_at = None if step.state is StepState.OPEN else now
        step.due_at = step.due_at if due_at is None else due_at
        step.detail = step.detail if detail is None else detail
        self._moves.append(
            MoveStep(
                self._run, self._owner.generation, step.position, expected.value, event.value, step.state.value,
                detail, result, error, delivered, due_at, now,
            )
        )  # fmt: skip

    def _move_signal(
        self, signal: Signal, event: SignalEvent, reason: str | None, position: str | None, now: int
    ) -> None:
        expected = signal.state
        signal.state = SIGNAL.after(expected, event)
        signal.reason, signal.position, signal.closed_at = reason, position, now
        if reason is not None:
            self._audits.append(audit.of_signal(self._history, signal, reason, now))
        self._moves.append(
            MoveSignal(
                self._run, self._owner.generation, signal.id, expected.value, event.value, signal.state.value,
                reason, position, now,
            )
        )  # fmt: skip


EARLIER_TURN = "not waiting: it reports on a job of an earlier turn, and this turn has handed over its own"
"""Why a report is refused that would answer for another job."""

PROGRESS = "progress"
"""The position at which a run says how far it is; it is nobody's answer, and no replay reads it."""


def progress_of(step: Step) -> tuple[str, int]:
    """The JSON text of what a run has said of its progress, and when."""
    said = json.loads(step.detail or "{}")
    return said.get("value", step.detail), said["at"]  # the whole note where it is encrypted, and there is no key


def _by_step(history: History) -> dict[str, Run]:
    return {child.parent_step: child for child in history.children if child.parent_step is not None}


def _step(
    ask: Ask, now: int, *, detail: str | None = None, due_at: int | None = None, request: str | None = None
) -> Step:
    return Step(
        ask.position,
        ask.kind,
        ask.name,
        ask.fingerprint,
        StepState.OPEN,
        now,
        ask.version,
        request,
        detail=detail,
        due_at=due_at,
    )
