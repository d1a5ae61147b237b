"""The ledger without the engine: one effect performed with the same laws, inside whatever program calls it.

`ledger.perform` is a one-step run owned by this process's lease. Met again with the same operation name and request it
returns the recorded result; another process performing it right now is waited for; what a crashed caller left behind
is reconciled by the next one. `ledger.enqueue` leaves the effect to whatever process works, and may join the caller's
own database transaction. Nothing here orders steps: that is a workflow.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from contextlib import AsyncExitStack
from datetime import timedelta
from typing import Any, Self, TypeVar

from fencepost.core.errors import InProgress, Misuse, RunFailed, StepFailed
from fencepost.effects.declare import Bound, Effect
from fencepost.effects.hidden import Redactor
from fencepost.effects.outside import Target
from fencepost.effects.secret import Provider
from fencepost.runtime.app import App
from fencepost.runtime.handle import Handle
from fencepost.runtime.portal import Blocking
from fencepost.runtime.single import SingleEffect
from fencepost.store.apart import INLINE_BYTES
from fencepost.store.sealed import Codec

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
        codec: Codec | None = None,
        inline_bytes: int = INLINE_BYTES,
        secrets: Provider | None = None,
        redact: Redactor | None = None,
    ) -> None:
        self._single: dict[int, SingleEffect] = {}
        self.app = App(
            url, workflows=(), targets=targets, namespace=namespace, lease=lease, margin=margin,
            clients=clients, strict=strict, codec=codec, inline_bytes=inline_bytes, secrets=secrets, redact=redact,
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
        declared = self._declared(bound, "perform")
        await self.work()
        handle = await self.app.start(declared, *bound.args, id=operation, on_behalf_of=on_behalf_of, **bound.kwargs)
        try:
            return await handle.result(within=within)  # type: ignore[no-any-return]  # the effect's R
        except TimeoutError:
            raise InProgress(
                f"{operation!r} is still being performed", hint="ask again later", ids={"operation": operation}
            ) from None
        except RunFailed as error:
            raise (error.__cause__ if isinstance(error.__cause__, StepFailed) else error) from None

    async def enqueue(
        self,
        bound: Bound[R],
        *,
        operation: str,
        connection: Any = None,
        resource: str | None = None,
        on_behalf_of: str | None = None,
    ) -> Handle[R]:
        """Leave an effect to be performed by whatever process works on this ledger; returns at once.

        Args:
            bound: the effect with its arguments, `announce(order)`.
            operation: names the business event (`order:442`); enqueued again it is the same one.
            connection: of sqlite3, psycopg or SQLAlchemy, to the ledger's own database: the effect is enqueued in its
                transaction, and performed if that commits. None: it is enqueued now.
            resource: keeps an order: it does not begin before every earlier one of the same resource has ended, so that
                one that is held, its outcome unknown, keeps back the others. The order is that of the commits.
            on_behalf_of: the principal for whom it acts.

        Raises:
            RunInputMismatch: the name was used with another request or resource, or for another principal.
            Misuse: it is no effect, or the connection does not lead to the ledger or commits by itself.
            StoreUnavailable: the database refuses, and the hint says what to do.
        """
        declared = self._declared(bound, "enqueue")
        return await self.app.begin(
            declared, bound.args, bound.kwargs, id=operation, on_behalf_of=on_behalf_of, connection=connection,
            resource=resource,
        )  # fmt: skip

    def _declared(self, bound: Bound[Any], verb: str) -> SingleEffect:
        if not isinstance(bound, Bound) or not isinstance(bound.step, Effect):
            raise Misuse(
                f"ledger.{verb} takes a bound effect", hint=f"write ledger.{verb}(create_ticket(request), ...)"
            )
        bound.performed = True
        return self._workflow_of(bound.step)

    def _workflow_of(self, effect: Effect[..., Any]) -> SingleEffect:
        found = self._single.get(id(effect))
        if found is None:
            found = self._single[id(effect)] = SingleEffect(effect)
            self.app.register(found)
        return found

    async def work(self) -> None:
        """Begin to work in this event loop, until the ledger is closed: perform what is enqueued, by whomever.

        `perform` begins by itself. Only effects that this ledger was given, or has met, are worked on.
        """
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
