"""Law 3 within a run: the effects that may not begin while an operation is unknown or the run goes back, and when.

An effect that was refused and goes again has not happened yet, so it waits like a new one; what is unknown itself is
never in its own way. The law's words are in `core.recovery`; settling what is in the way is `execution`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from fencepost.core.asks import StepAsk
from fencepost.core.records import Operation
from fencepost.core.recovery import in_the_way
from fencepost.core.states import OperationState
from fencepost.effects.declare import Bound

if TYPE_CHECKING:
    from fencepost.effects.entry import Entry


_NOT_BEGUN = (OperationState.RESERVED, OperationState.CANCELLED)
"""Of an operation in these states nothing is on its way; one that was taken back is asked for again."""


class Blocked:
    """The effects of one run that wait. `operations` are all of the run's, `unfinished` are not final."""

    __slots__ = ("_asks", "_operations", "_unfinished", "goes_back")

    def __init__(self, operations: Mapping[str, Operation], unfinished: Mapping[str, Entry]) -> None:
        self._operations = operations
        self._unfinished = unfinished
        self._asks: list[StepAsk] = []
        self.goes_back = False
        """Whether the run is being compensated: what another branch began now would stand unseen beside that."""

    def __bool__(self) -> bool:
        return bool(self._asks)

    def must_wait(self, ask: StepAsk) -> bool:
        """Whether this effect may not begin now."""
        if not self._unfinished and not self.goes_back:
            return False
        known = self._operations.get(ask.position)
        if known is not None and known.state not in _NOT_BEGUN:
            return False
        if self.goes_back:
            return True
        bound: Bound[Any] = ask.call  # type: ignore[assignment]  # the facade hands in bound steps
        return bool(in_the_way((entry.operation for entry in self._unfinished.values()), bound.effect.contract))

    def add(self, ask: StepAsk) -> None:
        """Let this effect wait."""
        self._asks.append(ask)

    def drop(self, position: str) -> None:
        """Nobody waits for it any more."""
        self._asks = [ask for ask in self._asks if ask.position != position]

    def take(self) -> list[StepAsk]:
        """Those that may begin now; they wait no longer."""
        free = [ask for ask in self._asks if not self.must_wait(ask)]
        self._asks = [ask for ask in self._asks if ask not in free]
        return free

    def culprit(self, led: Collection[str]) -> Operation | None:
        """An unknown operation that keeps others from beginning and that nobody leads: `led` lacks its position."""
        for position, entry in self._unfinished.items():
            if entry.operation.state is OperationState.UNKNOWN and position not in led:
                return entry.operation
        return None
