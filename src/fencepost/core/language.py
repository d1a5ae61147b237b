"""The whole language of a workflow: what it can await, and the time, ids and chance that are the same in each replay.

Each method of `Language` returns an object that does nothing until a workflow awaits it. The `Run` that workflow code
sees is built on these by the runtime, which knows declared steps, types and durations; what awaiting leads to is
decided in `driver`.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from fencepost.core import refusal
from fencepost.core.asks import Call, Spec, StepKind
from fencepost.core.branch import Branch
from fencepost.core.draws import Draws, drawn_uuid
from fencepost.core.pending import (
    Evicted,
    Fork,
    Pending,
    PendingChild,
    PendingCompensation,
    PendingSleep,
    PendingStep,
    PendingWait,
)

R = TypeVar("R")

REFUSALS_MAX = 100
"""How often workflow code may ask again after being told that it has ended or is cancelled."""


class Language:
    """What the code of one run can say.

    Once the run has left memory nothing of it works any more: what asks raises `Evicted` where it is awaited (a gather
    or race takes the branches that it was given with it), the others raise it at once.
    """

    def __init__(self, run_id: str, started_at: int) -> None:
        self.run_id = run_id
        self.closed = False
        """Whether the run has left memory."""
        self._now = started_at
        self._current: Branch | None = None  # whose code runs right now
        self._spoken_after_close = 0

    def check_open(self) -> None:
        """Raise `Evicted` if the run has left memory.

        Code that swallows this a hundred times in a loop would never end; then it may speak on, into nothing, so that
        it comes to an await, where it can be dropped.
        """
        if self.closed and self._spoken_after_close < REFUSALS_MAX:
            self._spoken_after_close += 1
            raise Evicted

    def do(self, kind: StepKind, name: str, item: str | None, call: Call[R]) -> Pending[R]:
        """Perform a step. `item` tells repetitions of one effect apart; other steps are told apart by occurrence."""
        if item is not None and not (item and isinstance(item, str)):
            raise refusal.bad_item(item, name, {"run": self.run_id})
        return PendingStep(self, kind, name, item, call)

    def wait(self, name: str, spec: Spec[R]) -> Pending[R]:
        """Wait for the signal of that name."""
        return PendingWait(self, name, spec)

    def sleep(self, duration: int) -> Pending[None]:
        """Let that many microseconds pass, from the moment at which it is awaited."""
        return PendingSleep(self, duration)

    def child(self, name: str, call: Call[R]) -> Pending[R]:
        """Start a child run and wait for its result."""
        return PendingChild(self, name, call)

    def compensate(self, reason: str, decode: Callable[[Any], R]) -> Pending[R]:
        """Compensate what the run has done; `decode` turns the stored report into what the workflow receives."""
        return PendingCompensation(self, reason, decode)

    def gather(self, *awaitables: Awaitable[Any]) -> Pending[tuple[Any, ...]]:
        """Run the awaitables side by side and return their values. Raises the first error by order, once all ended."""
        return self._fork(awaitables, is_race=False)

    def race(self, *awaitables: Awaitable[Any]) -> Pending[tuple[int, Any]]:
        """Run the awaitables side by side until one ends, and return its index and value, or raise its error."""
        return self._fork(awaitables, is_race=True)

    def now(self) -> int:
        """When the last completion was delivered, or the run started, in microseconds since the Unix epoch."""
        self.check_open()
        return self._now

    def uuid(self) -> uuid.UUID:
        """An id that is the same whenever the run is replayed."""
        return drawn_uuid(self.run_id, self._draw("uuid"))

    def random(self) -> Draws:
        """A stream of draws that is the same whenever the run is replayed."""
        return Draws(self.run_id, self._draw("random"))

    def _fork(self, awaitables: tuple[Awaitable[Any], ...], *, is_race: bool) -> Fork[Any]:
        fork: Fork[Any] = Fork(self, awaitables, is_race=is_race)
        if self.closed:
            fork.discard()
        self.check_open()
        return fork

    def _draw(self, kind: str) -> str:
        self.check_open()
        assert self._current is not None, "only workflow code draws"
        return self._current.numbered(kind)
