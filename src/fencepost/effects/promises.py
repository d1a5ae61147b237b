"""What a target promises, as an effect declares it: a key that it remembers, a fence that it compares, or nothing.

What each promise buys is computed in `core.guarantee`; how a key travels is carried out by `call`, how a fence is
raised by `perform`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from fencepost.core import contract as contracts
from fencepost.core.duration import microseconds
from fencepost.core.errors import DeclarationError
from fencepost.core.fence import Fence

Duration = str | timedelta


@dataclass(frozen=True, slots=True)
class KeyHeader:
    """The operation's key travels in an HTTP header, which `call.http` sets on the attempt's write.

    `window` is how long the target says it remembers a key ("24h"; None only if it promises for ever).
    """

    header: str
    window: Duration | None
    replays_failures: bool = False

    def promise(self) -> contracts.KeyPromise:
        """What it means for recovery."""
        return contracts.KeyPromise(_optional(self.window), f"header {self.header}", self.replays_failures)


@dataclass(frozen=True, slots=True)
class KeyArgument:
    """The operation's key travels in an argument of the request: a field of the JSON body that `call.http` sends.

    For other clients the body passes `call.key` itself.
    """

    argument: str
    window: Duration | None
    replays_failures: bool = False

    def promise(self) -> contracts.KeyPromise:
        """What it means for recovery."""
        return contracts.KeyPromise(_optional(self.window), f"argument {self.argument}", self.replays_failures)


def _optional(duration: Duration | None) -> int | None:
    return None if duration is None else microseconds(duration, what="window")


@dataclass(frozen=True, slots=True)
class Stands:
    """Declared in place of a compensation: the effect is meant to stand, and `why`."""

    why: str

    @property
    def name(self) -> str:
        """What tables show for it."""
        return f"stands: {self.why}"


@dataclass(frozen=True, slots=True)
class Fenced:
    """The target compares tokens: every attempt carries one of its resource's, and the body sends `call.token(...)`.

    `resource` names what a request touches there, such as "account:7": a text, or a function of the effect's
    arguments. Runs that share a resource share its tokens.
    """

    fence: Fence
    resource: str | Callable[..., str]

    def resource_of(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """The resource that a request with these arguments touches.

        Raises:
            DeclarationError: the function raises, or does not give a text.
        """
        try:
            found = self.resource if isinstance(self.resource, str) else self.resource(*args, **kwargs)
        except Exception as error:
            raise DeclarationError(
                f"resource= of a fenced effect raised {type(error).__name__}: {error}",
                hint="give a function that takes the effect's own arguments",
            ) from error
        if not isinstance(found, str) or not found:
            raise DeclarationError(
                f"resource= of a fenced effect gave {found!r}, which names nothing",
                hint='give a text such as "account:7", or a function of the effect\'s arguments that returns one',
            )
        return found
