"""What a workflow can ask for, what it is answered, and how it can end: the words between the driver and its owner.

An *ask* is one thing that a branch of a workflow waits for at one position. A *completion* is the answer at that
position. An *ending* is what is left when no branch runs any more. All are plain records; `driver` makes asks out of
workflow code, and performing them, storing them and waiting for them is the runtime's part.

Instants and durations are whole microseconds.
"""

from __future__ import annotations

import hashlib
from typing import Any, Literal, NamedTuple, Protocol, TypeVar

from fencepost.core.errors import ErrorRecord, FencepostError

R_co = TypeVar("R_co", covariant=True)

StepKind = Literal["effect", "model", "read", "compute"]


class Call(Protocol[R_co]):
    """A bound step or child, as far as the driver needs to know it."""

    @property
    def fingerprint(self) -> str:
        """Digest of the canonical request; two calls with one fingerprint ask for the same."""

    @property
    def version(self) -> int:
        """Version of the contract under which it is asked."""

    def decode(self, payload: Any) -> R_co:
        """The value that the workflow receives for a stored payload; the same each time."""


class Spec(Protocol[R_co]):
    """What a wait accepts, as far as the driver needs to know it."""

    @property
    def fingerprint(self) -> str:
        """Digest of what is waited for: the type, what it allows and how long."""

    def decode(self, payload: Any) -> R_co:
        """The value that the workflow receives for a stored signal; the same each time."""


class StepAsk(NamedTuple):
    """Perform the bound step, or find its recorded result."""

    position: str
    kind: StepKind
    name: str
    item: str | None
    call: Call[Any]

    @property
    def fingerprint(self) -> str:
        """Digest of the request."""
        return self.call.fingerprint

    @property
    def version(self) -> int:
        """Version of the step's contract."""
        return self.call.version


class WaitAsk(NamedTuple):
    """Wait for the signal of that name."""

    position: str
    name: str
    spec: Spec[Any]
    kind: Literal["wait"] = "wait"
    version: int = 0

    @property
    def fingerprint(self) -> str:
        """Digest of what is waited for."""
        return self.spec.fingerprint


class SleepAsk(NamedTuple):
    """Go on at the instant `until`, which is `duration` after the last completion that was delivered when asked."""

    position: str
    until: int
    duration: int
    kind: Literal["sleep"] = "sleep"
    name: str = ""
    version: int = 0

    @property
    def fingerprint(self) -> str:
        """The duration; the instant follows from it and from the history."""
        return str(self.duration)


class ChildAsk(NamedTuple):
    """Start the child run of that name, or find it, and wait for its result."""

    position: str
    name: str
    call: Call[Any]
    kind: Literal["child"] = "child"

    @property
    def fingerprint(self) -> str:
        """Digest of the child's input."""
        return self.call.fingerprint

    @property
    def version(self) -> int:
        """Version of the child's workflow."""
        return self.call.version


class CompensateAsk(NamedTuple):
    """Compensate what the run has done so far, for that reason; `roles` are those of whoever asks.

    `only` is the position of the one effect that is meant; None: everything that stands.
    """

    position: str
    reason: str
    kind: Literal["compensate"] = "compensate"
    name: str = ""
    version: int = 0
    roles: frozenset[str] = frozenset({"workflow"})
    only: str | None = None

    @property
    def fingerprint(self) -> str:
        """Digest of the reason."""
        return hashlib.sha256(self.reason.encode("utf-8", "surrogatepass")).hexdigest()


Ask = StepAsk | WaitAsk | SleepAsk | ChildAsk | CompensateAsk


def moved(ask: Ask, position: str, now: int) -> Ask:
    """The same ask at another position, made `now`: a sleep gets its whole time once more."""
    if isinstance(ask, SleepAsk):
        return ask._replace(position=position, until=now + ask.duration)
    return ask._replace(position=position)


class Withdrawn(NamedTuple):
    """Nobody waits at the position any more: its branch lost a race or the run was cancelled.

    Waits, sleeps and operations not yet dispatched are cancelled; what is dispatched must still settle, and its outcome
    is not delivered to the workflow. A later ask at the same position (an effect with an explicit item) takes it back.
    """

    position: str


class Patch(NamedTuple):
    """The workflow's new code goes another way from here on than histories from before it do."""

    position: str
    name: str


Move = Ask | Withdrawn | Patch


class Completion(NamedTuple):
    """The answer at a position: a stored payload, or the record of an error; `at` is when it was delivered."""

    position: str
    payload: Any
    error: ErrorRecord | None
    at: int


class Recorded(NamedTuple):
    """What the ledger holds at a position that this workflow asked for in an earlier life.

    `kind`, `name`, `fingerprint` and `version` are those of the ask. `final` says that its outcome is known, so that
    another contract version may still read it.
    """

    kind: str
    name: str
    fingerprint: str
    version: int
    final: bool = False

    def agrees_with(self, ask: Ask) -> bool:
        """Whether the code asks now for what was asked for then."""
        return (
            self.kind == ask.kind
            and self.name == ask.name
            and self.fingerprint == ask.fingerprint
            and (self.final or self.version == ask.version)
        )


class Returned(NamedTuple):
    """The workflow returned; after a cancel `Driver.cancelled` is set too, and the owner decides what that means."""

    value: Any


class Raised(NamedTuple):
    """The workflow's own code raised `error`, with that many completions delivered."""

    error: BaseException
    delivered: int


class Cancelled_(NamedTuple):  # noqa: N801 - the plain word is the exception that the workflow saw
    """The workflow let its cancel through; `reason` is what the cancel request said."""

    reason: str


class Held(NamedTuple):
    """The run must be held for a person before any further effect; the class of `error` names the reason."""

    error: FencepostError


Ending = Returned | Raised | Cancelled_ | Held
