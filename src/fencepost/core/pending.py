"""What a workflow awaits: inert objects that say what is asked for and begin when they are awaited.

Each hands itself up to the driver that made it, in whichever branch awaits it, and is answered there. The functions
that make them are in `language`; what has been asked and answered is kept in `driver`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from fencepost.core.asks import Ask, Call, ChildAsk, CompensateAsk, SleepAsk, Spec, StepAsk, StepKind, WaitAsk
from fencepost.core.errors import Misuse
from fencepost.core.position import effect_position

if TYPE_CHECKING:
    from fencepost.core.branch import Branch
    from fencepost.core.language import Language

R = TypeVar("R")


class Evicted(BaseException):
    """The run has left memory; nothing that the workflow still does in its `finally` blocks is recorded."""


class Pending(Generic[R]):
    """Something to await in a workflow; awaiting it returns R."""

    __slots__ = ("driver",)

    def __init__(self, driver: Language) -> None:
        self.driver = driver

    def __await__(self) -> Generator[Pending[R], R, R]:
        """Hand this up to the driver and return its answer. Raises `Evicted` once the run has left memory."""
        if self.driver.closed:
            self.discard()
            self.driver.check_open()
        return (yield self)

    def discard(self) -> None:
        """Give up what was passed in to be run; most have nothing of the kind."""


class PendingAsk(Pending[R]):
    """One ask of a kind; it takes one position, gets one completion, and `decode` turns that into the value."""

    __slots__ = ("decode", "kind", "name")

    kind: str
    name: str
    decode: Callable[[Any], R]

    def place(self, branch: Branch) -> str:
        """Take the position that this has if `branch` asks for it now: by occurrence of its name, or of its kind."""
        return branch.named(self.name) if self.name else branch.numbered(self.kind)

    def ask(self, position: str, now: int) -> Ask:
        """What to tell the owner of the run; `now` is when the last completion was delivered."""
        raise NotImplementedError


class PendingStep(PendingAsk[R]):
    """A step to be performed."""

    __slots__ = ("call", "item")

    kind: StepKind

    def __init__(self, driver: Language, kind: StepKind, name: str, item: str | None, call: Call[R]) -> None:
        self.driver = driver
        self.kind = kind
        self.name = name
        self.item = item
        self.call = call
        self.decode = call.decode

    def place(self, branch: Branch) -> str:
        """Effects are found by name and item in whichever branch, other steps by branch and occurrence."""
        if self.kind == "effect":
            return effect_position(self.name, self.item)
        return branch.named(self.name)

    def ask(self, position: str, now: int) -> StepAsk:  # noqa: ARG002 - only sleeps look at the time
        """The step, to be performed or found."""
        return StepAsk(position, self.kind, self.name, self.item, self.call)


class PendingWait(PendingAsk[R]):
    """A signal to be waited for."""

    __slots__ = ("spec",)

    def __init__(self, driver: Language, name: str, spec: Spec[R]) -> None:
        self.driver = driver
        self.kind = "wait"
        self.name = name
        self.spec = spec
        self.decode = spec.decode

    def ask(self, position: str, now: int) -> WaitAsk:  # noqa: ARG002 - only sleeps look at the time
        """The signal's name and what it must be."""
        return WaitAsk(position, self.name, self.spec)


class PendingChild(PendingAsk[R]):
    """A child run to be started and waited for."""

    __slots__ = ("call",)

    def __init__(self, driver: Language, name: str, call: Call[R]) -> None:
        self.driver = driver
        self.kind = "child"
        self.name = name
        self.call = call
        self.decode = call.decode

    def ask(self, position: str, now: int) -> ChildAsk:  # noqa: ARG002 - only sleeps look at the time
        """The child, to be started or found."""
        return ChildAsk(position, self.name, self.call)


class PendingSleep(PendingAsk[None]):
    """A time to let pass, in microseconds, from the moment at which it is awaited."""

    __slots__ = ("duration",)

    def __init__(self, driver: Language, duration: int) -> None:
        self.driver = driver
        self.kind = "sleep"
        self.name = ""
        self.duration = duration
        self.decode = _nothing

    def ask(self, position: str, now: int) -> SleepAsk:
        """The instant at which the workflow goes on."""
        return SleepAsk(position, now + self.duration, self.duration)


def _nothing(payload: Any) -> None:  # noqa: ARG001 - a sleep has no result, whatever stands in its row
    return None


class PendingCompensation(PendingAsk[R]):
    """The compensation of what the run has done so far."""

    __slots__ = ("reason",)

    def __init__(self, driver: Language, reason: str, decode: Callable[[Any], R]) -> None:
        self.driver = driver
        self.kind = "compensate"
        self.name = ""
        self.reason = reason
        self.decode = decode

    def ask(self, position: str, now: int) -> CompensateAsk:  # noqa: ARG002 - only sleeps look at the time
        """The compensation and its reason."""
        return CompensateAsk(position, self.reason)


class Fork(Pending[R]):
    """A gather or a race: awaitables that are to run side by side, each as a branch of its own."""

    __slots__ = ("awaitables", "is_race")

    def __init__(self, driver: Language, awaitables: tuple[Awaitable[Any], ...], *, is_race: bool) -> None:
        self.driver = driver
        self.awaitables = awaitables
        self.is_race = is_race
        for awaitable in awaitables:
            if not hasattr(awaitable, "__await__"):
                self.discard()
                raise Misuse(
                    f"{type(awaitable).__name__} cannot run as a branch of a gather or race",
                    hint="pass what run.do, run.wait and the like return, or call the async function",
                )

    def discard(self) -> None:
        """Close branches that will never begin, so that Python does not report coroutines as forgotten."""
        for awaitable in self.awaitables:
            if isinstance(awaitable, Coroutine):
                awaitable.close()
