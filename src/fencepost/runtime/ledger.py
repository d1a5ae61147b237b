"""The ledger without the engine: one effect performed with the same laws, inside whatever program calls it.

`ledger.perform` is a one-step run owned by this process's lease. Met again with the same operation name and request it
returns the recorded result; another process performing it right now is waited for; what a crashed caller left behind
is reconciled by the next one. Nothing here orders steps: that is a workflow.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any, Self, TypeVar

from fencepost.core.errors import InProgress, Misuse, RunFailed, StepFailed
from fencepost.effects.declare import Bound, Effect
from fencepost.effects.outside import Target
from fencepost.runtime.app import App
from fencepost.runtime.portal import Blocking
from fencepost.runtime.single import SingleEffect

R = TypeVar("R")


class Ledger:
    """A ledger for single effects. Use it with `async with`, or `close` it; `ledger.sync` is the blocking face.

    `effects` are those that may be found unfinished from an earlier life; one that is performed is added by itself. The
    other arguments are those of `App`.
    """

    def __init__(
        self,
        url: str,
        *,
        effects: Iterable[Effect[..., Any]] = (),
        targets: Mapping[str, Target] | None = None,
        namespace: str = "default",
        lease: str | timedelta = "15s",
        margin: str | timedelta = "2s",
        clients: Iterable[Any] = (),
        strict: bool = False,
    ) -> None:
        self._single: dict[int, SingleEffect] = {}
        self.app = App(
            url, workflows=(), targets=targets, namespace=namespace, lease=lease, margin=margin,
            clients=clients, strict=strict,
        )  # fmt: skip
        for effect in effects:
            self._workflow_of(effect)
        self._working = AsyncExitStack()
        self._loop: asyncio.AbstractEventLoop | None = None

    async def perform(
        self, bound: Bound[R], *, operation: str, on_behalf_of: str | None = None, within: str | timedelta = "60s"
    ) -> R:
        """Perform one effect, or return what the ledger holds of it.

        Args:
            bound: the effect with its arguments, `create_ticket(request)`.
            operation: names the business event (`ticket:442`); the same name with another request is refused.
            on_behalf_of: the principal for whom it acts.
            within: how long to wait for an outcome.

        Raises:
            StepFailed: it failed for good, proved not to have happened.
            RunHeld: its outcome is unknown and a person must settle it.
            InProgress: it is still being performed, here or elsewhere; ask again later.
            RunInputMismatch: the name was used with another request, or for another principal.
            Misuse: the ledger is closed, or serves another event loop.
        """
        if not isinstance(bound, Bound) or not isinstance(bound.step, Effect):
            raise Misuse(
                "ledger.perform takes a bound effect", hint="write ledger.perform(create_ticket(request), ...)"
            )
        bound.performed = True
        declared = self._workflow_of(bound.step)
        await self._work()
        handle = await self.app.start(declared, *bound.args, id=operation, on_behalf_of=on_behalf_of, **bound.kwargs)
        try:
            return await handle.result(within=within)  # type: ignore[no-any-return]  # the effect's R
        except TimeoutError:
            raise InProgress(
                f"{operation!r} is still being performed", hint="ask again later", ids={"operation": operation}
            ) from None
        except RunFailed as error:
            raise (error.__cause__ if isinstance(error.__cause__, StepFailed) else error) from None

    def _workflow_of(self, effect: Effect[..., Any]) -> SingleEffect:
        found = self._single.get(id(effect))
        if found is None:
            found = self._single[id(effect)] = SingleEffect(effect)
            self.app.register(found)
        return found

    async def _work(self) -> None:
        """Begin working in this event loop, at the first use."""
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
            try:
                await self._working.enter_async_context(self.app.worker())
            except BaseException:
                self._loop = None  # or the next caller would wait for a worker that never began
                raise
        elif self._loop is not loop:
            raise Misuse("a ledger serves one event loop", hint="open another for another loop, or use ledger.sync")

    async def close(self) -> None:
        """Finish what is in flight, give the lease back and close the ledger."""
        await self._working.aclose()
        self._loop = None
        await self.app.close()

    async def __aenter__(self) -> Self:
        await self.app.__aenter__()
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    @property
    def sync(self) -> Blocking:
        """The same methods, blocking: `ledger.sync.perform(...)`."""
        return Blocking(self)
