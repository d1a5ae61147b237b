"""What a step's body gets as its first argument: the operation's key, the attempt, and the ways to the outside.

`Attempting` holds the facts of one attempt that both faces share: `Call` for `async def` bodies, `SyncCall` for plain
ones, same names. A call refuses to send when the lease or the deadline does not allow it, counts what left, and keeps
the evidence. Turning the end of a body into an outcome is `sending`; the transport is `http`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from fencepost.core.classify import Reading
from fencepost.core.contract import Contract
from fencepost.core.errors import FencepostError, NotOwner
from fencepost.core.states import Outcome
from fencepost.effects.classifiers import read_client_error
from fencepost.effects.deadline import Guard
from fencepost.effects.exchange import SendFacts
from fencepost.effects.http import Http, SyncHttp

if TYPE_CHECKING:
    from fencepost.effects.declare import KeyArgument, KeyHeader
    from fencepost.effects.model import Model, ModelStep, SyncModel
    from fencepost.effects.outside import Outside, Target

E = TypeVar("E", bound=Exception)

NOT_COUNTABLE = None
"""Physical sends of a client that neither `call.http` nor `call.sending()` has seen."""


class Attempting:
    """One attempt of one step: its identity, its permission to send, and what is known of what it sent."""

    __slots__ = (
        "attempt",
        "contract",
        "deadline",
        "evidence",
        "facts",
        "generation",
        "issued",
        "keeper",
        "key",
        "known_digest",
        "may_write",
        "model_step",
        "now",
        "outside",
        "permission",
        "position",
        "principal",
        "reference",
        "replayed",
        "send_key",
        "sendings",
        "target",
    )

    def __init__(
        self,
        *,
        position: str,
        key: str,
        attempt: int,
        generation: int,
        deadline: int,
        principal: str | None,
        contract: Contract,
        outside: Outside,
        permission: Callable[[], None],
        keeper: Keeper | None,
        now: Callable[[], int],
        may_write: bool = True,
    ) -> None:
        self.position = position
        self.key = key
        self.attempt = attempt
        self.generation = generation
        self.deadline = deadline
        self.principal = principal
        self.contract = contract
        self.outside = outside
        self.permission = permission
        self.keeper = keeper
        self.now = now
        self.may_write = may_write
        self.facts = SendFacts()
        self.send_key: KeyHeader | KeyArgument | None = None
        self.target: Target | None = None
        self.known_digest: str | None = None
        self.model_step: ModelStep[..., Any] | None = None
        self.sendings = 0
        self.issued: list[tuple[BaseException, Reading]] = []
        self.evidence: dict[str, Any] | None = None
        self.replayed = False
        self.reference: str | None = None

    def check_permission(self) -> None:
        """Raise `LeaseLost` or another `NotOwner` if this process may start no send now; nothing has been sent."""
        try:
            self.permission()
        except NotOwner as error:
            raise self.issue(error, Reading(Outcome.NOT_APPLIED, retryable=True)) from None

    def issue(self, error: E, reading: Reading) -> E:
        """Note what an error of ours proves, so that the same error, let through by the body, proves it."""
        self.issued.append((error, reading))
        return error

    def proof_in(self, error: BaseException) -> Reading | None:
        """What was noted for `error`, if it is one of ours and the last thing that happened in this attempt."""
        if self.issued and self.issued[-1][0] is error:
            return self.issued[-1][1]
        return None

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
        seen = self.facts.sends + self.sendings
        return seen if seen or self.issued else NOT_COUNTABLE

    async def declare(self, method: str, url: str, digest: str) -> None:
        """Write down which request leaves under the key, before it does."""
        if self.keeper is not None:
            await self.keeper.request_declared(self, method, url, digest)

    def declare_blocking(self, method: str, url: str, digest: str) -> None:
        """As `declare`, from a thread."""
        if self.keeper is not None:
            self.keeper.request_declared_blocking(self, method, url, digest)

    @contextmanager
    def sending(self) -> Iterator[None]:
        """Permission for one send of another client; see `Call.sending`."""
        self.check_permission()
        guard = Guard(self.deadline)
        try:
            guard.open()
        except FencepostError as error:
            raise self.issue(error, Reading(Outcome.NOT_APPLIED, retryable=True)) from None
        guard.close()
        self.sendings += 1
        try:
            yield
        except Exception as error:
            reading = read_client_error(error, self.contract, now=self.now())
            if reading is not None and self.sendings == 1 and self.facts.sends == 0:
                # The one send of this attempt: what its client says of it is what the attempt proves.
                self.issue(error, reading)
            raise


class Keeper:
    """Makes what a body learns in mid-call durable; the engine and the ledger each have one."""

    async def request_declared(self, attempting: Attempting, method: str, url: str, digest: str) -> None:
        """The digest of the request that is about to leave."""
        raise NotImplementedError

    def request_declared_blocking(self, attempting: Attempting, method: str, url: str, digest: str) -> None:
        """As `request_declared`, from a thread."""
        raise NotImplementedError

    async def reference_known(self, attempting: Attempting, reference: str) -> None:
        """The remote object's id, known before the call ends."""
        raise NotImplementedError

    def reference_known_blocking(self, attempting: Attempting, reference: str) -> None:
        """As `reference_known`, from a thread."""
        raise NotImplementedError


class _Face:
    """What both faces of an attempt show."""

    __slots__ = ("_attempting",)

    def __init__(self, attempting: Attempting) -> None:
        self._attempting = attempting

    @property
    def key(self) -> str:
        """The operation's key: the same for every attempt; send it where the target compares keys."""
        return self._attempting.key

    @property
    def attempt(self) -> int:
        """Number of this attempt, from 1."""
        return self._attempting.attempt

    @property
    def generation(self) -> int:
        """Generation of the run's ownership under which this attempt was dispatched."""
        return self._attempting.generation

    @property
    def deadline(self) -> int:
        """The instant on the boot-time clock, in microseconds, after which nothing of this attempt is sent."""
        return self._attempting.deadline

    @property
    def principal(self) -> str | None:
        """On whose behalf the run acts."""
        return self._attempting.principal

    @contextmanager
    def sending(self) -> Iterator[None]:
        """Put every send of a client other than `call.http` inside: `with call.sending(): smtp.send_message(m)`.

        On entry lease and deadline are checked, so that a worker that was paused or lost its lease sends nothing; the
        send is counted. From the yield on, the client's own declared timeout is the bound.

        Raises:
            LeaseLost, DeadlinePassed: nothing was sent.
        """
        with self._attempting.sending():
            yield


class Call(_Face):
    """First argument of an `async def` step body."""

    __slots__ = ("_http",)

    def __init__(self, attempting: Attempting) -> None:
        super().__init__(attempting)
        self._http: Http | None = None

    @property
    def http(self) -> Http:
        """HTTP to the outside: one write per attempt, reads are free, no redirects or retries of its own."""
        if self._http is None:
            self._http = Http(self._attempting)
        return self._http

    @property
    def model(self) -> Model:
        """The configured model endpoint."""
        from fencepost.effects.model import Model

        return Model(self._attempting)

    async def remember(self, reference: str) -> None:
        """Store the remote object's id as soon as it is known, also in mid-call."""
        self._attempting.reference = reference
        if self._attempting.keeper is not None:
            await self._attempting.keeper.reference_known(self._attempting, reference)


class SyncCall(_Face):
    """First argument of a plain `def` step body; the same names, blocking."""

    __slots__ = ("_http",)

    def __init__(self, attempting: Attempting) -> None:
        super().__init__(attempting)
        self._http: SyncHttp | None = None

    @property
    def http(self) -> SyncHttp:
        """HTTP to the outside, blocking; see `Call.http`."""
        if self._http is None:
            self._http = SyncHttp(self._attempting)
        return self._http

    @property
    def model(self) -> SyncModel:
        """The configured model endpoint."""
        from fencepost.effects.model import SyncModel

        return SyncModel(self._attempting)

    def remember(self, reference: str) -> None:
        """Store the remote object's id as soon as it is known, also in mid-call."""
        self._attempting.reference = reference
        if self._attempting.keeper is not None:
            self._attempting.keeper.reference_known_blocking(self._attempting, reference)
