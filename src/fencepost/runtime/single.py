"""One effect as a workflow of its own: what `ledger.perform` runs, and what a worker can take over.

Its name says which effect it performs, its input is the effect's request. Nothing else is in it.
"""

from __future__ import annotations

from typing import Any

from fencepost.effects.declare import Effect
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import Workflow

PREFIX = "perform "
"""How the workflow names of single effects begin."""


class SingleEffect(Workflow[..., Any]):
    """The one-step workflow of an effect."""

    def __init__(self, effect: Effect[..., Any]) -> None:
        self.effect = effect
        self.function = self._perform
        self.name = PREFIX + effect.name
        self.version = effect.version
        self.arguments = effect.arguments
        self.results = effect.results
        self.steps = self.steps_with([effect])
        self.__doc__ = effect.__doc__
        self.__module__ = effect.__module__

    async def _perform(self, run: Run, *args: Any, **kwargs: Any) -> Any:
        return await run.do(self.effect(*args, **kwargs))
