"""What the code of an app declares: its workflows, their effects with what the contracts leave open, and who retries.

It is all looked at before the ledger is opened, and of a workflow that comes later when it comes. What a contract needs
is decided in `core.guarantee`, and which layers retry by themselves in `effects.layers`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from fencepost.core.errors import DeclarationError
from fencepost.core.guarantee import Blank, blanks
from fencepost.effects.declare import Effect, Step
from fencepost.effects.layers import Stack, say_layers, stacks_of
from fencepost.effects.outside import Outside
from fencepost.runtime.workflow import Workflow

if TYPE_CHECKING:
    from fencepost.runtime.host import Host


class Declarations:
    """The part of an `App` that its code declares."""

    workflows: dict[tuple[str, int], Workflow[..., Any]]
    outside: Outside
    clients: tuple[Any, ...]
    strict: bool
    _host: Host | None
    _looked_under: set[int]

    def register(self, declared: Workflow[..., Any]) -> None:
        """Let this process start and work on one more workflow.

        Raises:
            DeclarationError: it is none, another has its name, or once the ledger is open: a contract has a blank.
        """
        if not isinstance(declared, Workflow):
            raise DeclarationError(f"{declared!r} is no workflow", hint="decorate it with @workflow(version=1)")
        known = self.workflows.setdefault((declared.name, declared.version), declared)
        if known is not declared:
            raise DeclarationError(
                f"two workflows are named {declared.name!r} in version {declared.version}",
                hint="give one another name= or version=",
            )
        if self._host is not None:
            self._refuse_blanks()

    def effects(self) -> list[Effect[..., Any]]:
        """The effects that the app's workflows refer to, compensations included, each once."""
        found = {id(effect): effect for declared in self.workflows.values() for effect in declared.effects}
        return list(found.values())

    def blanks(self) -> list[Blank]:
        """What the contracts of the effects leave open; nothing starts while there is any."""
        return [blank for effect in self.effects() for blank in blanks(effect.contract)]

    def stacks(self) -> list[Stack]:
        """The steps under which another layer retries by itself, each with how often that may send."""
        return stacks_of(self._steps(), self.clients)

    def _steps(self) -> Iterator[Step[..., Any]]:
        return (step for declared in self.workflows.values() for step in declared.steps)

    def _refuse_blanks(self) -> None:
        for effect in self.effects():
            if effect.declared.target is not None:
                self.outside.target(effect.declared.target)  # raises for one that nobody has configured
        found = self.blanks()
        if found:
            raise DeclarationError(
                "; ".join(f"effect {blank.effect}: {blank.kind}" for blank in found),
                hint="; ".join(sorted({blank.mend for blank in found})),
            )
        fresh = {id(step): step for step in self._steps() if id(step) not in self._looked_under}
        say_layers(stacks_of(fresh.values(), self.clients), strict=self.strict)
        self._looked_under.update(fresh)
