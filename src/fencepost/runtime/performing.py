"""Drives an operation's generator of needs on the event loop: records, runs the body, asks the target.

`Hands` does for one run what `effects.perform` and `effects.deliberate` need done. The send deadline of an attempt is
fixed before its permission is asked for, so that a pause between the two makes the send refuse itself. What is needed
next is decided there; which step runs at all is decided in `execution`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from fencepost.core.contract import Contract
from fencepost.core.duration import SECOND
from fencepost.core.identity import canonical
from fencepost.core.recovery import Moment
from fencepost.effects.call import Attempting, Keeper
from fencepost.effects.deadline import boot_now
from fencepost.effects.declare import Bound
from fencepost.effects.deliberate import RunBody
from fencepost.effects.perform import Ask, Conclusion, LookedUp, Need, Record, Rest, Send, Sent
from fencepost.effects.sending import look_up_async, run_async
from fencepost.store.api import Answer, Group, Observe

if TYPE_CHECKING:
    from fencepost.effects.entry import Entry
    from fencepost.runtime.execution import Execution
    from fencepost.runtime.host import Host

REST = 0.1
"""Seconds between two looks whether a run that rests may still be kept."""

PERMITTED_DIGEST = "request"
"""The kind of observation that holds the digest of the request that an operation sends under its key."""


class RunClock:
    """The time as one run's owner sees it: the store's clock, and how long it has owned what it decides about."""

    __slots__ = ("_host", "_owned_since", "scope")

    def __init__(self, host: Host, owned_since: int, scope: str) -> None:
        self._host = host
        self._owned_since = owned_since
        self.scope = scope

    def now(self) -> int:
        """The store's clock, for what is written down."""
        return self._host.store.now()

    def moment(self) -> Moment:
        """Now, for decisions."""
        return Moment(self._host.store.latest(), boot_now() - self._owned_since, self.scope)

    def send_ended(self) -> None:
        """The owner's own send is over: what it owns of this operation counts from now."""
        self._owned_since = boot_now()

    def draw(self) -> float:
        """A draw in [0, 1)."""
        return self._host.draw()


class Hands:
    """What one performance of one bound step does to the world and to the ledger."""

    __slots__ = ("_asked_at", "bound", "execution", "host")

    def __init__(self, host: Host, execution: Execution, bound: Bound[Any]) -> None:
        self.host = host
        self.execution = execution
        self.bound = bound
        self._asked_at = 0

    async def lead(self, needs: Generator[Need | RunBody, Any, Conclusion]) -> Conclusion:
        """Drive the generator to its conclusion."""
        answer: Any = None
        try:
            while True:
                need = needs.send(answer)
                if isinstance(need, Record):
                    answer = await self._record(need)
                elif isinstance(need, Send):
                    answer = await self._send(need)
                elif isinstance(need, Ask):
                    answer = await self._ask(need)
                elif isinstance(need, Rest):
                    answer = await rest(self.execution, need.until)
                else:
                    answer = await self._run(need)
        except StopIteration as stop:
            conclusion: Conclusion = stop.value
            return conclusion

    async def _record(self, need: Record) -> Answer:
        self._asked_at = boot_now()
        return await self.execution.record(need.moves, need.observations)

    async def _send(self, need: Send) -> Sent:
        bound = self.bound
        effect = bound.effect
        attempting = self._attempting(need.entry, need.attempt.number, self._asked_at + effect.contract.timeout)
        return await run_async(bound, attempting, self.host.executor, self.host.overdue)

    async def _ask(self, need: Ask) -> LookedUp:
        bound = self.bound
        effect = bound.effect
        reconcile = effect.declared.reconcile
        assert reconcile is not None, "only a declared look-up is asked for"
        operation = need.entry.operation
        attempting = self._attempting(need.entry, len(operation.attempts), boot_now() + effect.contract.timeout)
        attempting.may_write = False
        return await look_up_async(reconcile, bound.args, bound.kwargs, attempting, self.host.executor)

    async def _run(self, need: RunBody) -> Sent:
        """A read, compute or model step: nothing is asked for permission, and nothing may be written."""
        bound = self.bound
        attempting = Attempting(
            position=need.position,
            key="",
            attempt=need.attempt,
            generation=self.execution.owner.generation,
            deadline=boot_now() + bound.step.attempt_timeout,
            principal=self.execution.history.run.principal,
            contract=_NO_CONTRACT,
            outside=self.host.outside,
            permission=self.host.lease.check,
            keeper=None,
            now=self.host.store.now,
            may_write=False,
        )
        return await run_async(bound, attempting, self.host.executor, self.host.overdue)

    def _attempting(self, entry: Entry, number: int, deadline: int) -> Attempting:
        effect = self.bound.effect
        operation = entry.operation
        attempting = Attempting(
            position=operation.position,
            key=operation.key,
            attempt=number,
            generation=entry.owner.generation,
            deadline=deadline,
            principal=self.execution.history.run.principal,
            contract=effect.contract,
            outside=self.host.outside,
            permission=self.host.lease.check,
            keeper=EntryKeeper(self.host, entry),
            now=self.host.store.now,
        )
        attempting.send_key = effect.send_key
        declared = effect.declared
        if declared.target is not None:
            attempting.target = self.host.outside.target(declared.target)
        if number > 1:
            attempting.known_digest = declared_digest(entry)
        return attempting


async def rest(execution: Execution, until: int) -> bool:
    """Keep the run until `until` (store clock); False if it cannot be kept so long."""
    while (left := until - execution.host.store.now()) > 0:
        if execution.is_over():
            return False
        await asyncio.sleep(min(left / SECOND, REST))
    return not execution.is_over()


def declared_digest(entry: Entry) -> str | None:
    """The digest of the request that an earlier attempt declared, or None."""
    for seen in entry.operation.observations:
        if seen.kind == PERMITTED_DIGEST:
            return seen.evidence.partition('"digest":"')[2].partition('"')[0]
    return None


class EntryKeeper(Keeper):
    """Makes what a body learns in mid-call an observation of its operation."""

    __slots__ = ("_entry", "_host")

    def __init__(self, host: Host, entry: Entry) -> None:
        self._host = host
        self._entry = entry

    async def request_declared(self, attempting: Attempting, method: str, url: str, digest: str) -> None:
        """The digest of the request that is about to leave, durable before it does."""
        await self._host.journal.submit(self._group(attempting, PERMITTED_DIGEST, _request(method, url, digest)))

    def request_declared_blocking(self, attempting: Attempting, method: str, url: str, digest: str) -> None:
        """As `request_declared`, from a thread."""
        self._host.journal.commit(self._group(attempting, PERMITTED_DIGEST, _request(method, url, digest)))

    async def reference_known(self, attempting: Attempting, reference: str) -> None:
        """The remote object's id."""
        await self._host.journal.submit(self._group(attempting, "reference", canonical({"reference": reference})))

    def reference_known_blocking(self, attempting: Attempting, reference: str) -> None:
        """As `reference_known`, from a thread."""
        self._host.journal.commit(self._group(attempting, "reference", canonical({"reference": reference})))

    def _group(self, attempting: Attempting, kind: str, evidence: str) -> Group:
        operation, owner = self._entry.operation, self._entry.owner
        seen = Observe(
            operation.run, operation.step, operation.item or "", attempting.attempt, kind, None, evidence,
            owner.lease, owner.generation, 1, None, self._host.store.now(),
        )  # fmt: skip
        return Group(operation.run, owner.generation, [], [seen])


def _request(method: str, url: str, digest: str) -> str:
    return canonical({"digest": digest, "method": method, "url": url})


_NO_CONTRACT = Contract("a step that sends nothing")
