"""One claimed run in this process: replays its history, performs what its workflow asks for, and gives it up.

The workflow is driven by `core.driver`; each step that it asks for is led by a generator on a *lane*. A result is
delivered to the workflow in the tick in which it arrives, and its moves ride in the commit of the next dispatch, so
that n effects cost about n + 1 commits. When no lane moves any more, `closing` says how the run is given up. If the
ledger refuses a group, this copy of the run is worthless: it is dropped, and what it saw is left as evidence.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import TYPE_CHECKING, Any

from fencepost.core.asks import (
    Ask,
    ChildAsk,
    CompensateAsk,
    Completion,
    Held,
    Patch,
    SleepAsk,
    StepAsk,
    WaitAsk,
    Withdrawn,
)
from fencepost.core.asks import (
    Move as Asked,
)
from fencepost.core.containment import toward_run
from fencepost.core.errors import FencepostError, StoreUnavailable
from fencepost.core.position import CANCEL
from fencepost.core.records import History, Operation, Signal
from fencepost.core.states import FINAL_OPERATION_STATES, OperationState, RunState, StepState
from fencepost.effects.conclusion import Concluded, Conclusion, Holding, Later, Superseded
from fencepost.effects.declare import Bound
from fencepost.effects.deliberate import work_out
from fencepost.effects.entry import Entry
from fencepost.effects.perform import perform
from fencepost.effects.ports import Delivery
from fencepost.runtime import children, ends, forward
from fencepost.runtime.alarms import Alarms
from fencepost.runtime.blocked import Blocked
from fencepost.runtime.closing import close
from fencepost.runtime.compensating import compensate, compensate_as_declared
from fencepost.runtime.fate import Fate
from fencepost.runtime.guard import Driving
from fencepost.runtime.intent import intended, supposed_lost
from fencepost.runtime.lanes import Lanes
from fencepost.runtime.leftovers import contract_of, lead_leftover
from fencepost.runtime.performing import REST, Hands
from fencepost.runtime.recording import Recording
from fencepost.runtime.replay import OPERATORS, chosen, compensated, is_going_back, taken_back, wanted_by_person
from fencepost.runtime.report import CompensationReport
from fencepost.store.api import Answer
from fencepost.store.moves import Move, NextTurn

if TYPE_CHECKING:
    from fencepost.runtime.host import Host
    from fencepost.runtime.workflow import Workflow


Led = StepAsk | CompensateAsk | ChildAsk
"""What a lane leads to its answer, or begins."""


class Execution(Recording):
    """One life of one run in memory; see the module's first lines."""

    def __init__(self, host: Host, workflow: Workflow[..., Any], history: History, owned_since: int) -> None:
        super().__init__(host, workflow, history)
        self.owned_since = owned_since
        run = history.run
        self.toward = toward_run(run.namespace, run.workflow, run.principal, run.resource)
        self._hands = Hands(host, self)
        self.operations: dict[str, Operation] = {one.position: one for one in history.operations}
        self.positions.operations = self.operations.values()
        self.open: dict[str, Entry] = {
            position: Entry(operation, contract_of(self, operation), self.owner)
            for position, operation in self.operations.items()
            if operation.state not in FINAL_OPERATION_STATES
        }
        """Operations that are not final, whether they are led or were left behind by an earlier life."""
        self.bodies: dict[str, int] = {}  # attempt timeouts of the steps that run now and are no effects
        self.later: dict[str, Later] = {}
        self.holding: Holding | None = None
        self.held_at: str = ""
        self.with_hold: list[Move] = []
        self.next_turn: list[NextTurn] = []
        """How the run goes on in the commit that ends this turn of it."""
        self.state = history.run.state
        self.report: CompensationReport | None = compensated(history)
        self.by_person = False
        self.draining = False
        self.changed = False
        """A person or another process changed the run: what is in flight ends, then it is loaded again."""
        self._taken_back = taken_back(history)
        self._chosen = chosen(history)
        """Positions of the effects that failed, and for which a person has chosen another way."""
        self._alarms = Alarms(host.now)
        self._led: set[str] = set()
        """Positions of the effects that a lane is leading right now."""
        self.blocked = Blocked(self.operations, self.open)
        self.blocked.goes_back = is_going_back(history)
        self._withdrawn: set[str] = set()
        self._lanes = Lanes()
        self._is_leaving = False
        self._driving = Driving(self.driver)

    # -- the whole life -------------------------------------------------------------------------------------------

    async def live(self) -> Fate:
        """Do what can be done now; returns why it ended here."""
        try:
            return await self._live()
        except StoreUnavailable:
            await self._end_lanes()
            await self._keep_apart(self._group([], []))
            raise
        except Exception:
            await self._end_lanes()
            await self.record([], [])
            await self._keep_what_was_refused()
            raise
        finally:
            await self._end_lanes()
            self.driver.close()
            del self._hands  # they point back here, and only the garbage collector could free the run

    async def _end_lanes(self) -> None:
        """After an error of this process: what is in flight still ends, and begins nothing."""
        self.draining = True
        self._alarms.silence()
        await self._lanes.all_ended()

    async def _live(self) -> Fate:
        wanted = wanted_by_person(self.history)
        if wanted is not None:
            self.by_person, self.report = True, None
            self.note(OPERATORS, await compensate(self, wanted))
        else:
            await self._lane(self._act(self._replay()))
        while self._lanes or await self._settle_in_the_way():
            await self._lanes.any_ended()
            await self._lane(self._unblocked())
        if self._lanes.broken is not None:
            raise self._lanes.broken
        if self.workflow.on_failure == "compensate" or self.blocked.goes_back:
            await compensate_as_declared(self)
        self._is_leaving = True
        self._alarms.silence()
        if self.refused is None:
            await (self.record([], []) if self.changed else close(self))
        await self._keep_what_was_refused()
        if self.refused is None:
            return Fate.RELOAD if self.changed else Fate.GIVEN_UP
        return Fate.LOST if self.refused is Answer.STALE else Fate.RELOAD

    @property
    def delivered(self) -> int:
        """The place of the last answer in the order of deliveries; those that a resume took back leave gaps."""
        return self.history.run.delivered if self.by_person else self._taken_back + self.driver.delivered

    async def _settle_in_the_way(self) -> bool:
        """Lead an unknown operation that nobody waits for and that keeps others from beginning; False: none does."""
        if not self.blocked or self.is_over():
            return False
        operation = self.blocked.culprit({*self.later, *(ask.position for ask in self.driver.waiting())})
        if operation is not None:
            self.note(operation.position, await lead_leftover(self, operation))
        return operation is not None

    def _replay(self) -> list[Ask]:
        """Bring the workflow to where it stood, and deliver a cancel that was accepted meanwhile."""
        patches: list[Any] = []
        with self._driving:
            patches += (move for move in self.driver.start() if type(move) is Patch)
            for completion in self._history:
                moves = self.driver.deliver(completion)
                self._forget_withdrawn(moves)
                patches += (move for move in moves if type(move) is Patch)
        self._history = []
        wrong = self.driver.ending.error if isinstance(self.driver.ending, Held) else self.driver.history_mismatch()
        if wrong is not None:
            self.hold_for(wrong)
            return []
        asks = [*patches, *self.driver.waiting()]
        run = self.history.run
        for position in tuple(self._withdrawn):
            self._withdraw(position)  # an earlier life may have ended between hearing of it and doing it
        if run.state is RunState.CANCELLING:
            self._hands.cancelling.begin(self.history)
        if run.state is RunState.CANCELLING and not self.driver.cancelled and self.driver.ending is None:
            reason = self.positions.cancel_delivered(run, self.delivered + 1, self.host.now())
            self.moves += self.positions.flush()
            withdrawn = self._deliver(Completion(CANCEL, reason, None, self.host.now()))
            still = {one.position for one in (*patches, *self.driver.waiting())}
            asks = withdrawn + [ask for ask in asks if ask.position in still]
        return asks

    def _forget_withdrawn(self, moves: Sequence[Any]) -> None:
        for move in moves:
            if type(move) is Withdrawn:
                self._withdrawn.add(move.position)
            else:
                self._withdrawn.discard(move.position)

    # -- acting on what the workflow asks -------------------------------------------------------------------------

    def _act(self, asks: Sequence[Asked]) -> Led | None:
        """Begin what is asked for; returns one ask for the caller's own lane, the others get lanes of their own."""
        mine: Led | None = None
        pending = list(asks)
        while pending and not self.is_over():
            ask = pending.pop(0)
            if type(ask) is StepAsk or type(ask) is CompensateAsk:
                self._withdrawn.discard(ask.position)
                if mine is None:
                    mine = ask
                else:
                    self._spawn(ask)
            elif type(ask) is Withdrawn:
                self._withdraw(ask.position)
            elif isinstance(ask, WaitAsk | SleepAsk):
                self._withdrawn.discard(ask.position)
                self._alarms.set(self.positions.ask(ask, self.host.now()), self._fall_due)
                ends.look_at_all(self, [ask])
            elif isinstance(ask, ChildAsk):
                self._withdrawn.discard(ask.position)
                if not self.positions.await_child(ask, self.host.now()):
                    self._spawn(ask)
            elif isinstance(ask, Patch):
                self.positions.note_patch(ask, self.host.now())
            if not pending and self.positions.are_waited_for:
                pending += self._deliver_due()
        self.moves += self.positions.flush()
        return mine if not self.is_over() else None

    def _deliver_due(self) -> list[Asked]:
        """Close one wait, sleep or child whose answer has come, and return what the workflow asks for then."""
        completion = self.positions.next_due(self.host.now(), self.delivered + 1)
        self.changed = self.changed or self.positions.is_outdated
        return [] if completion is None else self._deliver(completion)

    def _fall_due(self) -> None:
        """A wait's or sleep's time is over, or a signal is there, while an effect in flight keeps the run here."""
        mine = self._act(self._deliver_due()) if not self.is_over() else None
        if mine is not None or self.moves:
            self.open_lane(self._lane(mine))

    def _withdraw(self, position: str) -> None:
        self._withdrawn.add(position)
        self.later.pop(position, None)
        if self.positions.forget_child(position):
            self._lanes.open(children.stop(self, position))
            return
        now = self.host.now()
        if self.positions.withdraw(position, now):
            return
        entry = self.open.get(position)
        if entry is not None and entry.operation.state is OperationState.RESERVED:
            # Also one that an earlier life reserved and this one has not begun to lead.
            self.moves += entry.withdraw(now)
            self.open.pop(position)
        self.blocked.drop(position)

    def _spawn(self, ask: Led) -> None:
        self.open_lane(self._lane(ask))

    def open_lane(self, work: Coroutine[Any, Any, None]) -> None:
        """Do something beside what is in flight, and before the run is left."""
        self._lanes.open(work)

    async def _lane(self, ask: Led | None) -> None:
        """Lead one step after the other, as long as each one's answer leads to a next."""
        while ask is not None:
            if isinstance(ask, StepAsk):
                ask = await self._step(ask)
            elif isinstance(ask, CompensateAsk):
                ask = self.conclude(ask, await compensate(self, ask))
            else:
                ask = await children.start(self, ask)
        await self.hand_in(lambda: bool(self._led or self.bodies))

    # -- leading one step -----------------------------------------------------------------------------------------

    async def _step(self, ask: StepAsk) -> Led | None:
        bound: Bound[Any] = ask.call  # type: ignore[assignment]  # the facade hands in bound steps
        if ask.position in self._withdrawn:
            return None  # nothing new begins in a branch that was cancelled before its lane came to run
        if ask.kind != "effect":
            return await self._work_out(ask, bound)
        if ask.position in self._led:
            return None  # a branch that was cancelled has left it in flight; the answer is delivered when it comes
        if self.blocked.must_wait(ask):
            self.blocked.add(ask)
            return None
        if self.positions.attached and await children.is_in_the_way(self, ask):
            return None
        try:
            if ask.position in self._chosen:
                return self.conclude(ask, await forward.lead(self, ask, bound))
            entry, refusal = intended(self, ask, bound)
            minds = bool(self.positions.attached)
            conclusion = refusal or await self.lead(entry, bound, self.number_for, new=entry.is_new, minds_below=minds)
        except StoreUnavailable:
            raise  # our own ledger is no reason to ask a person
        except FencepostError as error:
            self.hold_for(error, at=ask.position)
            return None
        return self.conclude(ask, conclusion)

    async def quiet(self) -> None:
        """Return once no effect is being led, or nothing new may begin in this life."""
        while self._led and not self.is_over():  # noqa: ASYNC110 - as in `lead`
            await asyncio.sleep(REST)

    async def lead(
        self, entry: Entry, bound: Bound[Any], delivery: Delivery, *, new: bool, minds_below: bool = False
    ) -> Conclusion:
        """Lead one operation of the run as far as it goes now; `minds_below`: unless it may not begin for a child's."""
        operation, effect, position = entry.operation, bound.effect, entry.operation.position
        scope = operation.scope if new else self.host.scope_of(effect)
        entry.toward = self.toward + self.host.toward(bound, scope, minds_below=minds_below)
        if self.host.lost_time is not None and not operation.attempts:
            new = supposed_lost(self, entry, new=new)
        while position in self._led:  # noqa: ASYNC110 - rare, and an event for each step would cost all of them
            await asyncio.sleep(REST)
        needs = perform(
            entry, effect, self.host, delivery, owned_since=self.owned_since, position=position, scope=scope, new=new
        )
        self.open[position] = entry
        self._led.add(position)
        try:
            conclusion = await self._hands.lead(needs, bound)
        finally:
            self._led.discard(position)
        if operation.state in FINAL_OPERATION_STATES:
            self.open.pop(position, None)
        elif entry.is_new:  # its approval could not be checked yet: nothing of it is in the ledger
            del self.open[position], self.operations[position]
        return conclusion

    async def _work_out(self, ask: StepAsk, bound: Bound[Any]) -> Led | None:
        step = self.positions.steps.get(ask.position)
        if step is not None and step.state is StepState.CANCELLED:
            self.positions.reopen(step, self.host.now())
            self.moves += self.positions.flush()
        run = self.history.run
        needs = work_out(
            step, bound, ask.position, run.no, self.owner, self.host, lambda: self.number_for(ask.position),
            principal=run.principal, steps=self.positions.steps,
        )  # fmt: skip
        return self.conclude(ask, await self._hands.lead(needs, bound))

    def number_for(self, position: str) -> int | None:
        """The place in the order of deliveries that an answer at this position gets now."""
        return None if position in self._withdrawn else self.delivered + 1

    def _unblocked(self) -> StepAsk | None:
        """A step that waited for an unknown operation and may begin now; the others get lanes of their own."""
        free = [] if self.is_over() else self.blocked.take()
        for ask in free[1:]:
            self._spawn(ask)
        return free[0] if free else None

    # -- what came of it ------------------------------------------------------------------------------------------

    def conclude(self, ask: Led, conclusion: Conclusion) -> Led | None:
        """Keep the moves for the next commit, deliver the answer, and return what this lane goes on with."""
        self.note(ask.position, conclusion)
        if type(conclusion) is Concluded:
            if ask.position in self._withdrawn:
                return self._unblocked() if self.blocked else None
            asks = self._deliver(Completion(ask.position, conclusion.payload, conclusion.error, conclusion.at))
            mine = self._act(asks)
            if self.blocked and mine is None:
                mine = self._unblocked()
            return mine
        return None

    def note(self, position: str, conclusion: Conclusion) -> None:
        """Keep what a performance leaves to be committed, and why it did not conclude."""
        self.moves += conclusion.moves
        self.observations += conclusion.observations
        if isinstance(conclusion, Later):
            self.later[position] = conclusion
        elif isinstance(conclusion, Holding):
            self.holding, self.held_at = conclusion, conclusion.at or position
            self.with_hold += conclusion.with_hold
        elif isinstance(conclusion, Superseded):
            self.refused = conclusion.answer

    def _deliver(self, completion: Completion) -> list[Any]:
        with self._driving:
            moves = self.driver.deliver(completion)
        self.changed = self.changed or self.host.lives_are_brief
        if isinstance(self.driver.ending, Held):
            self.hold_for(self.driver.ending.error)
        return moves

    def hold_for(self, error: BaseException | None, *, at: str = "") -> None:
        """Hold the run for a person because of an error of the code or of this process."""
        if self.holding is None and error is not None:
            self.holding = Holding(reason=type(error).__name__, detail=str(error))
            self.held_at = at or getattr(error, "ids", {}).get("step", "")

    def notice(self, loaded: History) -> None:
        """The ledger holds something new for this run: signals, ends of children, a cancel, its own end."""
        if self._is_leaving or self.driver.closed:
            return  # whoever has the run next finds it
        if loaded.run.state is not self.state:
            self.changed = True
            if loaded.run.state is RunState.CANCELLING:
                self._hands.cancelling.hear(loaded)
            elif loaded.run.state is RunState.TERMINATED:
                self._hands.cancelling.end()
        else:
            self.positions.take(loaded)
            self._fall_due()
            ends.look_at_all(self, self.driver.waiting())

    def hear(self, signal: Signal) -> None:
        """A signal for this run was stored by this very life."""
        self.positions.hear(signal)
        if not (self._is_leaving or self.driver.closed):
            self._fall_due()

    def longest_step(self) -> int:
        """The longest attempt timeout of the steps that run now, in microseconds."""
        return max(max((entry.contract.timeout for entry in self.open.values()), default=0), *self.bodies.values(), 0)

    def is_withdrawn(self, position: str) -> bool:
        """Whether no branch of the workflow waits for the answer at this position any more."""
        return position in self._withdrawn

    def may_begin(self, ask: StepAsk) -> bool:
        """Whether this effect may be sent now, if nothing of it was sent before."""
        return not self.is_over() and not self.blocked.must_wait(ask)

    def is_over(self) -> bool:
        """Whether nothing new may begin: refused, stopped for a person, lost, changed, or this worker stops."""
        return (
            self.refused is not None
            or self._lanes.broken is not None
            or self.holding is not None
            or self.draining
            or self.changed
            or self.host.lease.lost
        )
