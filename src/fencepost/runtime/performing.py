"""Drives an operation's generator of needs on the event loop: records, runs the body, asks the target.

`Hands` does for one run what `effects.perform` and `effects.deliberate` need done. The send deadline of an attempt is
fixed before its permission is asked for, so that a pause between the two makes the send refuse itself. What is needed
next is decided there; which step runs at all is decided in `execution`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING, Any

from fencepost.core.contract import Contract
from fencepost.core.duration import SECOND
from fencepost.core.errors import ValueRefused
from fencepost.core.identity import canonical
from fencepost.core.records import Observation, Operation
from fencepost.core.states import Outcome
from fencepost.effects.atomic import in_transaction
from fencepost.effects.attempting import Attempting
from fencepost.effects.conclusion import Conclusion
from fencepost.effects.deadline import boot_now
from fencepost.effects.declare import Bound
from fencepost.effects.deliberate import RunBody
from fencepost.effects.needs import (
    Ask,
    Authorise,
    IssueToken,
    Load,
    LookedUp,
    Need,
    RaiseFence,
    ReadContained,
    Record,
    Reread,
    Rest,
    Send,
    Sent,
)
from fencepost.effects.sending import load_async, look_up_async, raise_async, run_async
from fencepost.effects.site import Site
from fencepost.runtime.cancelling import Cancelling
from fencepost.runtime.late import Report, take_in
from fencepost.runtime.rights import check
from fencepost.runtime.waiting import Approved
from fencepost.store.api import Answer, Group
from fencepost.store.moves import Observe
from fencepost.store.ticket import Ticket

if TYPE_CHECKING:
    from fencepost.effects.entry import Entry, Owner
    from fencepost.runtime.execution import Execution
    from fencepost.runtime.host import Host

REST = 0.1
"""Seconds between two looks whether a run that rests may still be kept."""


class Hands:
    """What the performances of one run's life do to the world and to the ledger."""

    __slots__ = ("_execution", "_host", "_ignored", "_site", "cancelling")

    def __init__(self, host: Host, execution: Execution) -> None:
        self._host = host
        self._execution = execution
        self._ignored = partial(host.abandon, execution)
        self.cancelling = Cancelling(host, execution)
        run = execution.history.run
        self._site = Site(
            host.outside,
            host.lease.check,
            host.store.now,
            run.generation,
            run.principal,
            RunKeeper(host, run.no, execution.owner),
            self.cancelling,
        )
        self.cancelling.site = self._site

    async def lead(self, needs: Generator[Need | RunBody, Any, Conclusion], bound: Bound[Any]) -> Conclusion:
        """Drive the generator of one bound step to its conclusion."""
        answer: Any = None
        asked_at = 0
        while True:
            try:
                need = needs.send(answer)
            except StopIteration as stop:
                conclusion: Conclusion = stop.value
                return conclusion
            if isinstance(need, Record):
                asked_at = boot_now()
                answer = await self._execution.record(need.moves, need.observations)
            elif isinstance(need, Send):
                # The deadline counts from before the permission was asked for.
                timeout = need.entry.contract.timeout
                self._host.lease.begins(timeout)
                attempting = self._sending(need, bound, asked_at + timeout)
                barred = self.cancelling.bars(attempting) if self.cancelling.is_late else None
                answer = barred or await run_async(bound, attempting, self._host.executor, self._host.overdue)
                if attempting.told:
                    self.cancelling.has_ended(attempting, answer)
                target = bound.effect.declared.target
                if target is not None and (breaker := self._host.outside.breaker(target)) is not None:
                    await self._host.breakers.learn(breaker, target, need.entry.operation, answer)
            else:
                answer = await self._meet(need, bound)

    async def _meet(
        self,
        need: ReadContained | Authorise | IssueToken | RaiseFence | Ask | Load | Reread | Rest | RunBody,
        bound: Bound[Any],
    ) -> Any:
        """What is needed more rarely than a permission and a send."""
        if isinstance(need, ReadContained):
            toward, run = need.entry.toward or "", self._execution.history.run.no
            return await asyncio.to_thread(self._host.containments.keeping_back, toward, run)
        if isinstance(need, Authorise):
            assert isinstance(bound, Approved), "only an approved call needs its approval checked"
            return await check(self._execution, self, bound, need.entry)
        if isinstance(need, IssueToken):
            return await self._issue_token(bound)
        if isinstance(need, RaiseFence):
            return await self._raise_fence(need, bound)
        if isinstance(need, Ask):
            return await self._ask(need, bound)
        if isinstance(need, Load):
            return await self._load(need, bound)
        if isinstance(need, Reread):
            return await self._reread(need.entry.operation)
        if isinstance(need, Rest):
            return await rest(self._execution, need.until)
        return await self._run(need, bound)

    def _sending(self, need: Send, bound: Bound[Any], deadline: int) -> Attempting:
        """The facts of an attempt that is about to be sent."""
        effect, operation, number = bound.effect, need.entry.operation, need.attempt.number
        attempting = Attempting(self._site, operation.step, number, deadline, effect.contract, operation, effect)
        if effect.is_fenced:
            attempting.resource = resource_of(bound)
        attempting.ignored = self._ignored
        if effect.contract.atomic:
            attempting.may_write = False
            attempting.transacted = in_transaction(effect, need.entry, number, attempting, self._host.store)
        elif not effect.is_async:
            attempting.late = self._late(need.entry, number, bound)
        return attempting

    async def _issue_token(self, bound: Bound[Any]) -> int | None:
        run, generation = self._execution.history.run.no, self._site.generation
        return await asyncio.to_thread(self._host.store.issue_token, run, generation, resource_of(bound))

    async def _raise_fence(self, need: RaiseFence, bound: Bound[Any]) -> str | None:
        fenced = bound.effect.declared.fence
        assert fenced is not None, "only a declared fence is raised"
        timeout = bound.effect.contract.timeout
        return await raise_async(fenced.fence, resource_of(bound), need.token, timeout, self._host.executor)

    async def _ask(self, need: Ask, bound: Bound[Any]) -> LookedUp:
        return await look_up_async(bound, self._reading(need.entry, bound), self._host.executor, self._host.overdue)

    async def _load(self, need: Load, bound: Bound[Any]) -> Sent:
        load, reference = bound.effect.declared.load, need.entry.operation.reference
        assert load is not None, "only a declared load is asked for"
        assert reference is not None, "what is loaded is found by its reference"
        attempting = self._reading(need.entry, bound)
        return await load_async(load, reference, attempting, self._host.executor, self._host.overdue)

    async def _reread(self, operation: Operation) -> None:
        history = await asyncio.to_thread(self._host.store.load, operation.run)
        known = next((one for one in history.operations if one.position == operation.position), None)
        # Its own observations stand there too, or are on their way: only those of others are taken in.
        operation.observations += [] if known is None else [one for one in known.observations if not one.current]

    def _reading(self, entry: Entry, bound: Bound[Any]) -> Attempting:
        """The facts of a look-up or load: it knows the operation, and may not write."""
        effect, operation = bound.effect, entry.operation
        deadline = boot_now() + effect.contract.timeout
        attempting = Attempting(
            self._site, operation.step, len(operation.attempts), deadline, effect.contract, operation, effect
        )
        attempting.may_write = False
        attempting.ignored = self._ignored
        return attempting

    async def _run(self, need: RunBody, bound: Bound[Any]) -> Sent:
        """A read, compute or model step: nothing is asked for permission, and nothing may be written."""
        timeout = bound.step.attempt_timeout
        self._host.lease.begins(timeout)
        self._execution.bodies[need.position] = timeout
        attempting = Attempting(self._site, need.position, need.attempt, boot_now() + timeout, _NO_CONTRACT)
        attempting.ignored = self._ignored
        try:
            sent = await run_async(bound, attempting, self._host.executor, self._host.overdue)
            if attempting.told:
                self.cancelling.has_ended(attempting, sent)
                sent.cancelled = sent.error is not None
            return sent
        finally:
            del self._execution.bodies[need.position]

    def _late(self, entry: Entry, number: int, bound: Bound[Any]) -> Callable[[Future[Any]], None]:
        """What takes in the result of a thread that ended after its time."""
        store, contract, operation = self._host.store, entry.contract, entry.operation

        def take(work: Future[Any]) -> None:
            error = work.exception()
            outcome = Outcome.UNRESOLVED if error is not None else Outcome.APPLIED
            evidence = canonical({"kind": "late", "error": None if error is None else type(error).__name__})
            try:
                result = None if error is not None else bound.effect.carry_result(work.result()).text
            except ValueRefused:
                result = None  # it happened all the same
            generation = self._site.generation
            report = Report(operation.run, operation.position, number, outcome, evidence, generation, result)
            take_in(store, report, contract)

        return take


def resource_of(bound: Bound[Any]) -> str:
    """What the request of a fenced effect touches at its target."""
    fenced = bound.effect.declared.fence
    assert fenced is not None, "only a fenced effect's request names a resource"
    return fenced.resource_of(bound.args, bound.kwargs)


async def rest(execution: Execution, until: int) -> bool:
    """Keep the run until `until` (store clock); False if it cannot be kept so long."""
    while (left := until - execution.host.store.now()) > 0:
        if execution.is_over():
            return False
        await asyncio.sleep(min(left / SECOND, REST))
    return not execution.is_over()


class RunKeeper:
    """Makes what a body learns in mid-call an observation of its operation."""

    __slots__ = ("_host", "_owner", "run")

    def __init__(self, host: Host, run: int, owner: Owner) -> None:
        self._host = host
        self.run = run
        self._owner = owner

    def note(self, operation: Operation, attempt: int, kind: str, evidence: str) -> Ticket[Answer]:
        """Append an observation; the ticket is done when it is durable."""
        now = self._host.store.now()
        operation.observations.append(Observation(kind, None, evidence, now, attempt=attempt))
        seen = Observe(
            self.run, operation.step, operation.item or "", attempt, kind, None, evidence, self._owner.lease,
            self._owner.generation, 1, None, now,
        )  # fmt: skip
        return self._host.journal.submit(Group(self.run, self._owner.generation, [], [seen]))


_NO_CONTRACT = Contract("a step that sends nothing")
