"""What leading an operation must be given: the effect's door, a clock with draws, and the place of its delivery.

Only the shapes are here. `Effect` is a door and `runtime.host` a clock; what is done with them is `perform`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from fencepost.core.recovery import Moment
from fencepost.effects.values import Carried


class Door(Protocol):
    """What `perform` must know of the effect whose operation it leads."""

    def carry_result(self, value: Any) -> Carried:
        """The canonical text of a result, with its copy; raises `ValueRefused`."""

    def reference_of(self, value: Any) -> str | None:
        """The remote object's id in a result, where the effect declares one."""

    @property
    def can_load(self) -> bool:
        """Whether a result can be read by its reference."""

    @property
    def is_fenced(self) -> bool:
        """Whether each attempt carries a token that the target compares."""


Delivery = Callable[[str], int | None]


class Clock(Protocol):
    """Where `perform` gets the time and its draws from."""

    def now(self) -> int:
        """The store's clock, for what is written down."""

    def moment(self, owned_since: int, scope: str) -> Moment:
        """Now, for decisions.

        The later of the store's clock and its highest stored time; how long ago on the boot-time clock `owned_since`
        was; and where a key is valid now.
        """

    def boot_now(self) -> int:
        """The boot-time clock, in microseconds."""

    def may_be_contained(self, toward: str) -> bool:
        """Whether this process has heard that one of these marks is contained; then the ledger is asked."""

    def draw(self) -> float:
        """A draw in [0, 1) for the jitter."""
