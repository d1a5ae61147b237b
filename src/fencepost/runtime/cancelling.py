"""Carries a run's cancel, or its end by a person's hand, on to its bodies and targets, and writes down each layer.

Every layer is an observation, appended when it is reached; `core.cancellation` reads them. A body is flagged at once,
so that it sends nothing more, and cancelled when the time that a reply may still take is over. The `cancel=` hook of an
effect that may be at work at its target is called beside all that, unless the target is contained: nothing waits for
it, and what it answers proves nothing. What becomes of the run then is `execution`'s matter, and of its operations
`perform`'s.
"""

from __future__ import annotations

import asyncio
import json
import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pydantic_core import to_jsonable_python

from fencepost.core.cancellation import CONTAINED, asked_already, kept_from_asking
from fencepost.core.compensation import UNSETTLED
from fencepost.core.containment import toward_effect
from fencepost.core.errors import FencepostError
from fencepost.core.identity import canonical
from fencepost.core.records import (
    BODY_ENDED,
    BODY_TOLD,
    CANCEL_ACCEPTED,
    CANCEL_ANSWERED,
    CANCEL_SENT,
    NOT_BEGUN,
    History,
    Observation,
    Operation,
)
from fencepost.effects.attempting import Attempting
from fencepost.effects.deadline import boot_now
from fencepost.effects.sending import CANCEL_WITHIN, cancel_async, failed
from fencepost.effects.site import Site
from fencepost.effects.telling import CANCELLED, ENDED
from fencepost.runtime.leftovers import effect_named
from fencepost.store.api import Group
from fencepost.store.moves import Observe

if TYPE_CHECKING:
    from fencepost.core.containment import Containment
    from fencepost.effects.declare import Effect
    from fencepost.effects.needs import Sent
    from fencepost.runtime.execution import Execution
    from fencepost.runtime.host import Host

LOG = logging.getLogger("fencepost.worker")

_ANSWER_CHARACTERS_MAX = 2_000
"""How much of what a hook returns is kept."""


class Cancelling:
    """What one life of a run does about its cancel; the witness of its bodies."""

    __slots__ = ("_accepted", "_execution", "_host", "_owner", "_run", "is_late", "is_over", "site")

    site: Site
    """Where the bodies of this life run."""

    def __init__(self, host: Host, execution: Execution) -> None:
        self._host = host
        self._execution = execution
        self._run = execution.history.run.no
        self._owner = execution.owner
        self._accepted = False
        self.is_over = False
        """Whether a person has ended the run under this life: then not even a compensation goes on."""
        self.is_late = False
        """Whether the cancel came in mid-life: what is permitted already and has not begun may not begin."""

    def bars(self, attempting: Attempting) -> Sent | None:
        """What comes of an attempt that is permitted and has not begun when the cancel comes; None: it makes good."""
        operation = attempting.operation
        if operation is None or self._goes_on(operation):
            return None
        attempting.evidence = {"kind": NOT_BEGUN}
        return failed(attempting, attempting.unsent(attempting.cancel_accepted()))

    def begin(self, found: History) -> None:
        """A life that begins with the cancel: what an earlier one left in flight is asked about."""
        if not self._accepted:
            self._accept(found, tells=False)

    def hear(self, found: History) -> None:
        """The cancel has come in mid-life: tell the bodies that run, and let none begin."""
        if not self._accepted:
            self.is_late = True
            self._accept(found, tells=True)

    def _accept(self, found: History, *, tells: bool) -> None:
        self._accepted = True
        asked_at = int(json.loads(found.run.cancel or "{}").get("at", 0))
        lease = self._owner.lease
        is_known = any(one.kind == CANCEL_ACCEPTED and one.lease == lease for one in found.observations)
        accepted = [] if is_known else [self._of_run(CANCEL_ACCEPTED, {"asked_at": asked_at})]
        told = self._tell_bodies(CANCELLED) if tells else []
        asks = [
            (operation, effect)
            for operation in self._execution.operations.values()
            if (effect := self._asks(operation, asked_at)) is not None
        ]
        if accepted or told or asks:
            # A lane, so that no later life of this process can miss what is written down here.
            self._execution.open_lane(self._carry_out([*accepted, *told], asks, asked_at))

    async def _carry_out(
        self, seen: list[Observe], asks: list[tuple[Operation, Effect[..., Any]]], asked_at: int
    ) -> None:
        intents = []
        for operation, effect in asks:
            if kept_from_asking(operation) and await self._contained(operation, effect):
                continue  # it says so already, and each life would say it again
            intent = self._of(operation, CANCEL_SENT, {"asked_at": asked_at, "how": _name(effect)})
            intents.append((operation, effect, intent))
        seen += [intent for _, _, intent in intents]
        if seen:
            await self._host.journal.submit(self._group(seen))
        for operation, effect, intent in intents:
            self._host.errands.begin(self._ask(operation, effect, intent.seen_at))

    def _goes_on(self, operation: Operation) -> bool:
        """Whether it goes on in spite of a cancel: a compensation does, until its run is ended as it stands."""
        return operation.compensates is not None and not self.is_over

    # -- the bodies -------------------------------------------------------------------------------------------------

    def _tell_bodies(self, why: str) -> list[Observe]:
        """Flag the bodies that run. A reply on its way says more than a torn connection: an effect gets a grace."""
        overdue = self._host.overdue
        told = []
        for body in overdue.bodies(self.site):
            attempting, operation = body.attempting, body.attempting.operation
            if operation is not None and (attempting.reads_back or self._goes_on(operation)):
                continue  # what settles an operation, or makes one acceptable, goes on
            how = attempting.tell(why)
            body.hasten(0.0 if operation is None else overdue.grace)
            told.append(self._of_body(attempting, BODY_TOLD, how))
        return told

    def end(self) -> None:
        """A person has ended the run: tell the bodies that run, and let none begin. Nothing waits for them."""
        if self.is_over:
            return
        self.is_late = self.is_over = True
        told = self._tell_bodies(ENDED)
        if told:
            self._execution.open_lane(self._carry_out(told, [], 0))

    def told(self, attempting: Attempting, how: str) -> None:
        """A body was told once more."""
        self._append_soon(self._of_body(attempting, BODY_TOLD, how))

    def ended(self, attempting: Attempting, how: str) -> None:
        """A body that was told runs no more; from any thread."""
        self._append_soon(self._of_body(attempting, BODY_ENDED, how))

    def has_ended(self, attempting: Attempting, sent: Sent) -> None:
        """A body that was told has come back, unless only its wait has: a thread may run on."""
        if attempting.thread is None or attempting.thread.done():
            attempting.ended("returned" if sent.error is None else f"raised {type(sent.error).__name__}")

    # -- the targets ------------------------------------------------------------------------------------------------

    def _asks(self, operation: Operation, asked_at: int) -> Effect[..., Any] | None:
        """The effect whose target is to be asked to cancel the operation; None: there is nothing to ask, or no way."""
        if operation.state not in UNSETTLED or operation.compensates is not None:
            return None
        effect = effect_named(self._execution, operation.effect)
        if effect is None or effect.declared.cancel is None:
            return None
        return None if asked_already(operation, asked_at, self._owner.lease) else effect

    async def _ask(self, operation: Operation, effect: Effect[..., Any], sent_at: int) -> None:
        """Call the hook once, and keep what it says; its intent is durable."""
        host, task = self._host, asyncio.current_task()
        assert task is not None, "an errand is a task"
        attempting = CancelAttempting(
            replace(self.site, keeper=None, witness=None), operation.step, len(operation.attempts),
            boot_now() + CANCEL_WITHIN, effect.contract, operation, effect,
        )  # fmt: skip
        attempting.resource = None if effect.declared.fence is None else self._resource(operation, effect)
        attempting.ignored = lambda _: host.errands.leave(task)
        host.lease.begins(CANCEL_WITHIN)
        try:
            # Its intent is durable, so that a containment which this does not see is later than it, as for a dispatch.
            if contained := await self._contained(operation, effect):
                kept = {CONTAINED: "; ".join(one.text for one in contained), "sends": 0}
                self._append_soon(self._of(operation, CANCEL_ANSWERED, kept)._replace(began_at=sent_at))
                return
            attempting.check_permission()
            args, kwargs = effect.arguments.decode(operation.request)
            sent = await cancel_async(
                effect, (*args, operation.reference), kwargs, attempting, host.executor, host.overdue
            )
        except FencepostError as error:
            sent = failed(attempting, error)
        answered = self._of(operation, CANCEL_ANSWERED, _answer(sent))
        self._append_soon(answered._replace(began_at=sent_at))

    async def _contained(self, operation: Operation, effect: Effect[..., Any]) -> list[Containment]:
        """What keeps the target of an operation from being asked now, open breakers included."""
        resource, target = self._resource(operation, effect), effect.declared.target
        toward = self._execution.toward + toward_effect(self._host.namespace, target, operation.scope, resource)
        return await asyncio.to_thread(self._host.containments.keeping_back, toward, self._run)

    @staticmethod
    def _resource(operation: Operation, effect: Effect[..., Any]) -> str | None:
        args, kwargs = effect.arguments.decode(operation.request)
        return None if effect.declared.fence is None else effect.declared.fence.resource_of(args, kwargs)

    # -- rows -------------------------------------------------------------------------------------------------------

    def _group(self, seen: list[Observe]) -> Group:
        return Group(self._run, self._owner.generation, [], seen)

    def _append_soon(self, seen: Observe) -> None:
        """Append evidence that nothing waits for."""
        try:
            _ = self._host.journal.submit(self._group([seen]))
        except FencepostError as error:
            LOG.warning("%s of run number %s could not be written down: %s", seen.kind, self._run, error)

    def _of_body(self, attempting: Attempting, kind: str, how: str) -> Observe:
        if attempting.operation is None:
            return self._of_run(kind, {"how": how, "position": attempting.position})
        return self._of(attempting.operation, kind, {"how": how}, attempting.attempt)

    def _of(self, operation: Operation, kind: str, evidence: dict[str, Any], attempt: int | None = None) -> Observe:
        """An observation of an operation, in memory and for the ledger."""
        owner, number, text = self._owner, attempt or len(operation.attempts), canonical(evidence)
        seen = self._row(operation.step, operation.item or "", number, kind, text)
        operation.observations.append(
            Observation(kind, None, text, seen.seen_at, number, None, owner.lease, owner.generation)
        )
        return seen

    def _of_run(self, kind: str, evidence: dict[str, Any]) -> Observe:
        return self._row("", "", None, kind, canonical(evidence))

    def _row(self, step: str, item: str, attempt: int | None, kind: str, evidence: str) -> Observe:
        owner, current, now = self._owner, int(not self.is_over), self._host.store.now()
        return Observe(
            self._run, step, item, attempt, kind, None, evidence, owner.lease, owner.generation, current, None, now
        )


class CancelAttempting(Attempting):
    """A request to cancel: it knows the operation, may write once, and is no attempt of it.

    The operation's key is there for the target to find it by, and travels with no request of its own: a target that
    compares keys would take the cancel for the effect.
    """

    __slots__ = ()

    @property
    def send_key(self) -> None:
        """No key travels."""
        return

    @property
    def known_digest(self) -> None:
        """Its request is its own."""
        return


def _answer(sent: Sent) -> dict[str, Any]:
    """What came of a hook: the answer or the error, the raw reply, and how often it was sent."""
    reply = json.loads(sent.evidence)
    found: dict[str, Any] = {"sends": sent.sends, "reply": reply}
    if sent.error is not None:
        return {**found, "failed": reply.pop("error")}
    try:
        says = canonical(to_jsonable_python(sent.value, fallback=repr))
    except Exception:  # noqa: BLE001 - a value's own methods may raise anything; the reply is there
        says = canonical(f"a {type(sent.value).__name__} that cannot be written down")
    return {
        **found,
        "answer": json.loads(says) if len(says) <= _ANSWER_CHARACTERS_MAX else says[:_ANSWER_CHARACTERS_MAX],
    }


def _name(effect: Effect[..., Any]) -> str:
    cancel = effect.declared.cancel
    return str(getattr(cancel, "__name__", type(cancel).__name__))
