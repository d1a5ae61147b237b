"""The whole language of a workflow: what it can await, and the time, ids and chance that are the same in each replay.

Each method of `Language` returns an object that does nothing until a workflow awaits it. The `Run` that workflow code
sees is built on these by the runtime, which knows declared steps, types and durations; what awaiting leads to is
decided in `driver`.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from fencepost.core import refusal
from fencepost.core.asks import Call, Move, Patch, Recorded, Spec, StepKind
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
from fencepost.core.position import patch_position
from fencepost.core.recollection import Recollection

R = TypeVar("R")

REFUSALS_MAX = 100
"""How often workflow code may ask again after being told that it has ended or is cancelled."""


class Language(Recollection):
    """What the code of one run can say.

    Once the run has left memory nothing of it works any more: what asks raises `Evicted` where it is awaited (a gather
    or race takes the branches that it was given with it), the others raise it at once.
    """

    def __init__(
        self, run_id: str, started_at: int, *, turn: int, history_length: int, recorded: Mapping[str, Recorded],
        set_aside: Mapping[str, Recorded],
    ) -> None:  # fmt: skip
        super().__init__(run_id, recorded, set_aside)
        self.turn = turn
        """How often the run has continued as a new one."""
        self.delivered = 0
        """Number of completions delivered so far; the sequence number of the last one."""
        self.progress: str | None = None
        """What the workflow has said last of how far it is; whoever stores it takes it away."""
        self.closed = False
        """Whether the run has left memory."""
        self._now = started_at
        self._current: Branch | None = None  # whose code runs right now
        # No two turns share a draw.
        self._draws_from = f"{run_id}#{turn}" if turn else run_id
        self._history_length = history_length
        self._patches: dict[str, bool] = {}  # each that was asked for, and whether the run goes its way
        self._moves: dict[str, Move] = {}  # of this advance; at most one per position
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

    @property
    def is_replaying(self) -> bool:
        """Whether an earlier life of the run has passed the place where its code runs right now."""
        return self.delivered < self._history_length or bool(self._unasked)

    def patched(self, patch: str) -> bool:
        """Whether the run goes the way of new code: recorded, and False where an older life went by without it."""
        self.check_open()
        known = self._patches.get(patch)
        if known is not None:
            return known
        position = patch_position(patch)
        was_recorded = (self._unasked.pop(position, None) or self._set_aside.pop(position, None)) is not None
        is_live = not was_recorded and not self.is_replaying
        if is_live:
            self._moves[position] = Patch(position, patch)
        self._patches[patch] = was_recorded or is_live
        return self._patches[patch]

    def deprecated(self, patch: str) -> None:
        """Accept histories that hold the patch; new ones do not record it."""
        self.check_open()
        self._patches[patch] = True
        self._unasked.pop(patch_position(patch), None)

    def report(self, progress: str) -> None:
        """Say how far the run is, for people: no part of its history, and said once, not again in each replay."""
        self.check_open()
        if not self.is_replaying:
            self.progress = progress

    def now(self) -> int:
        """When the last completion was delivered, or the run started, in microseconds since the Unix epoch."""
        self.check_open()
        return self._now

    def uuid(self) -> uuid.UUID:
        """An id that is the same whenever the run is replayed."""
        return drawn_uuid(self._draws_from, self._draw("uuid"))

    def random(self) -> Draws:
        """A stream of draws that is the same whenever the run is replayed."""
        return Draws(self._draws_from, self._draw("random"))

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
