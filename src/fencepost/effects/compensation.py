"""On which terms an effect is made acceptable again: by which effect, who may start that, and what if it fails.

An effect declares `compensate=cancel_task`, or `compensate=Compensation(cancel_task, ...)` where more is to be said.
These are only the terms; in which order they are met is decided in `core.compensation`, and it is done by the runtime.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from fencepost.core.compensation import OPERATOR, WORKFLOW
from fencepost.core.errors import DeclarationError

if TYPE_CHECKING:
    from fencepost.effects.declare import Effect
    from fencepost.effects.policy import Policy


_SPOKEN = {WORKFLOW: "the workflow", OPERATOR: "an operator"}


@dataclass(frozen=True, slots=True)
class Compensation:
    """An effect that makes another one acceptable, and on which terms.

    `effect` has a key, contract, budget and evidence of its own; its body takes `(call, *arguments, result or None,
    reference)` of the effect that it compensates.

    `by` are the roles that may start it: "workflow" is the workflow's own code and what it declares, "operator" any
    person who may use the verb; whatever else is said names a role of the person's. `policy` is asked just before it is
    sent, with the principal and the arguments of the body: what it refuses is shown as refused, with its reason.
    `restores`: it brings the former state back, so that the effect is said to be restored. `on_failure`: what rests on
    nothing of it is compensated all the same; what this effect was done `after` is held back, or, with "go on", is not.

    Raises:
        DeclarationError: nobody may start it, or there is no such `on_failure`.
    """

    effect: Effect[..., Any]
    by: Collection[str] = (WORKFLOW, OPERATOR)
    policy: Policy | None = None
    restores: bool = False
    on_failure: Literal["hold", "go on"] = "hold"

    def __post_init__(self) -> None:
        """Refuse terms that cannot be meant."""
        roles = [] if isinstance(self.by, str) else list(self.by)
        if not roles or not all(isinstance(role, str) and role for role in roles):
            raise DeclarationError(
                f"by={self.by!r} of a compensation names nobody",
                hint='give the roles that may start it, such as by={"workflow", "operator"}',
            )
        if self.on_failure not in ("hold", "go on"):
            raise DeclarationError(
                f"on_failure={self.on_failure!r} of a compensation is not known", hint='write "hold" or "go on"'
            )
        object.__setattr__(self, "by", frozenset(roles))

    @property
    def name(self) -> str:
        """What tables show for it."""
        return self.effect.name

    @property
    def starters(self) -> str:
        """Who may start it, for people."""
        return " or ".join(
            _SPOKEN.get(role, role) for role in sorted(self.by, key=lambda role: (role != WORKFLOW, role))
        )
