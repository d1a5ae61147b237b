"""One attempt as it runs: what it knows of its operation, whether it may send, what has left, and the evidence of it.

Both faces that a body gets (`call`) look at the one object here. It refuses to send when the lease or the deadline does
not allow it. Turning the end of a body into an outcome is `sending`; the transport is `http`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from fencepost.core.classify import Reading, read_error
from fencepost.core.contract import Contract
from fencepost.core.errors import FencepostError, Misuse, NotOwner
from fencepost.core.identity import canonical
from fencepost.core.records import REQUEST
from fencepost.effects.classifiers import read_client_error
from fencepost.effects.counting import counting
from fencepost.effects.deadline import Guard
from fencepost.effects.exchange import SendFacts
from fencepost.effects.site import Site
from fencepost.effects.span import SendGuard
from fencepost.effects.telling import Tellable

if TYPE_CHECKING:
    from fencepost.core.records import Operation
    from fencepost.effects.declare import Effect
    from fencepost.effects.model import ModelStep
    from fencepost.effects.outside import Target
    from fencepost.effects.promises import KeyArgument, KeyHeader
    from fencepost.store.api import Answer
    from fencepost.store.ticket import Ticket

E = TypeVar("E", bound=Exception)

NOT_COUNTABLE = None
"""Physical sends that neither `call.http` nor `call.sending()` has seen, or of a client that offers no hook."""


class Attempting(Tellable):
    """One attempt of one step: its identity, its permission to send, and what is known of what it sent.

    `operation` is the ledger's record of an effect; reads, computations and model steps have none and may not write.
    """

    __slots__ = (
        "_facts",
        "_spans",
        "attempt",
        "connection",
        "contract",
        "deadline",
        "effect",
        "evidence",
        "ignored",
        "is_countable",
        "issued",
        "late",
        "left",
        "may_write",
        "model_step",
        "operation",
        "position",
        "reference",
        "replayed",
        "resource",
        "sendings",
        "site",
        "transacted",
    )

    def __init__(  # noqa: PLR0917 - built once per step on the hot path
        self,
        site: Site,
        position: str,
        attempt: int,
        deadline: int,
        contract: Contract,
        operation: Operation | None = None,
        effect: Effect[..., Any] | None = None,
    ) -> None:
        self.told, self.processes, self.thread = "", None, None
        self.site = site
        self.position = position
        self.attempt = attempt
        self.deadline = deadline
        self.contract = contract
        self.operation = operation
        self.effect = effect
        self.may_write = operation is not None
        self.sendings = 0
        self.left = 0
        """Writes of this attempt of which a byte may have left, by `call.http` or by other clients."""
        self.replayed = False
        self.is_countable = True
        """Whether every client of `call.sending(client=...)` let us look on."""
        self._facts: SendFacts | None = None
        self._spans = 0
        """Blocks of `call.sending()` that the body is in."""
        self.model_step: ModelStep[..., Any] | None = None
        self.issued: tuple[BaseException, Reading] | None = None
        self.evidence: dict[str, Any] | None = None
        self.reference: str | None = None
        self.connection: Any = None
        """The ledger's own connection, while the body of an atomic effect runs."""
        self.transacted: Callable[..., Any] | None = None
        """The body of an atomic effect, as it runs in its transaction."""
        self.resource: str | None = None
        """What a fenced effect's request touches."""
        self.late: Callable[[Future[Any]], None] | None = None
        self.ignored: Callable[[Attempting], None] | None = None
        """Called when an async body goes on although its time is over and it was cancelled."""

    @property
    def key(self) -> str:
        """The operation's key; empty for steps that have none."""
        return "" if self.operation is None else self.operation.key

    @property
    def is_writing(self) -> bool:
        """Whether a write of this attempt is on its way, whose reply says more than the end of its body."""
        return self._spans > 0 or (self._facts is not None and self.left > 0 and self.evidence is None)

    @property
    def reads_back(self) -> bool:
        """Whether it asks what became of the operation, and is no attempt of it."""
        return self.operation is not None and not self.may_write and self.transacted is None

    @property
    def facts(self) -> SendFacts:
        """What `call.http` has sent in this attempt."""
        if self._facts is None:
            self._facts = SendFacts()
        return self._facts

    @property
    def send_key(self) -> KeyHeader | KeyArgument | None:
        """How the key travels."""
        return None if self.effect is None else self.effect.send_key

    @property
    def target(self) -> Target | None:
        """The outside system that the effect names."""
        name = None if self.effect is None else self.effect.declared.target
        return None if name is None else self.site.outside.target(name)

    @property
    def known_digest(self) -> str | None:
        """The digest of the request that an attempt of this operation has declared already."""
        for seen in self.operation.observations if self.operation is not None else ():
            if seen.kind == REQUEST:
                return str(json.loads(seen.evidence)["digest"])
        return None

    def token(self, resource: str) -> int:
        """The token of this attempt for its resource; raises `Misuse` for another one."""
        number = None if self.operation is None else self.operation.attempts[self.attempt - 1].token
        if number is None or resource != self.resource:
            raise Misuse(
                f"this attempt has no token for {resource!r}"
                + ("" if self.resource is None else f", but for {self.resource!r}"),
                hint="declare fence=Fenced(target, resource=...) on the effect, and ask for that resource",
                ids={"step": self.position},
            )
        return number

    def check_permission(self) -> None:
        """Raise `LeaseLost` or another `NotOwner` if this process may start no send now; nothing has been sent."""
        try:
            if self.told:
                raise self.cancel_accepted()
            self.site.permission()
        except NotOwner as error:
            raise self.unsent(error) from None

    def leaves(self) -> None:
        """From here on a byte of a write may have left; what was proved before is proof no more."""
        self.left += 1
        self.issued = None

    def unsent(self, error: E) -> E:
        """Note that `error` came before a byte of its own write left.

        The same error, let through by the body, is then proof that the attempt was not applied, unless an earlier
        write of the same attempt may have left.
        """
        if not self.left:
            self.issued = (error, read_error(error, nothing_left=True))
        return error

    def answered(self, error: E, reading: Reading) -> E:
        """Note what `error` says of the one write of this attempt; of several, no answer to one proves anything."""
        if self.left <= 1:
            self.issued = (error, reading)
        return error

    def proof_in(self, error: BaseException) -> Reading | None:
        """What was noted for `error`, if it is one of ours and the last thing that happened in this attempt."""
        return self.issued[1] if self.issued is not None and self.issued[0] is error else None

    def note_reply(self, evidence: dict[str, Any], *, replayed: bool) -> None:
        """Keep the raw reply of the write as evidence."""
        self.evidence = evidence
        self.replayed = replayed

    def note_failure(self, says: str, why: str) -> None:
        """Keep what is known of a write that brought no reply."""
        self.evidence = {"kind": "no reply", "says": says, "why": why}

    @property
    def sends(self) -> int | None:
        """Physical sends seen in this attempt; None: not countable."""
        if not self.is_countable:
            return NOT_COUNTABLE
        if self._facts is None:
            return self.sendings or (NOT_COUNTABLE if self.issued is None else 0)
        return self._facts.sends + self.sendings

    async def note(self, kind: str, evidence: dict[str, Any]) -> None:
        """Make something learnt in mid-call durable before going on."""
        ticket = self._noted(kind, evidence)
        if ticket is not None:
            await ticket

    def note_blocking(self, kind: str, evidence: dict[str, Any]) -> None:
        """As `note`, from a thread."""
        ticket = self._noted(kind, evidence)
        if ticket is not None:
            ticket.wait()

    def _noted(self, kind: str, evidence: dict[str, Any]) -> Ticket[Answer] | None:
        if self.site.keeper is None or self.operation is None:
            return None
        return self.site.keeper.note(self.operation, self.attempt, kind, canonical(evidence))

    @contextmanager
    def sending(self, client: Any = None) -> Iterator[SendGuard]:
        """Permission for one send of another client; see `Call.sending`."""
        if self.contract.atomic:
            raise Misuse(
                "an atomic effect sends nothing: its writes are those of the ledger's transaction",
                hint="make what is sent an effect of its own",
                ids={"step": self.position},
            )
        self.check_permission()
        guard = Guard(self.deadline)
        try:
            guard.open()
        except (FencepostError, OSError) as error:
            raise self.unsent(error) from None
        guard.close()
        self.sendings += 1
        self._spans += 1
        self.leaves()
        span = SendGuard(self.deadline)
        try:
            with self._counted(client):
                yield span
            span.finish()
        except Exception as error:
            reading = read_client_error(error, self.contract, now=self.site.now())
            if reading is not None:
                self.answered(error, reading)
            raise
        finally:
            self._spans -= 1
            span.close()

    @contextmanager
    def _counted(self, client: Any) -> Iterator[None]:
        """Count each try of the client beyond the one that was permitted: a second layer retries."""
        if client is None:
            yield
            return
        tries = 0

        def tell() -> None:
            nonlocal tries
            tries += 1
            if tries > 1:
                self.sendings += 1
                self.leaves()

        with counting(client, tell) as countable:
            self.is_countable = self.is_countable and countable
            yield
