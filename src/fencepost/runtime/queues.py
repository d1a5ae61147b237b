"""An app's queues: declared in code, written into the ledger when they are first used, paused and resumed by people.

The limits hold for all workers together, since a claim counts the rows of runs. Any worker claims from any queue of its
namespace whose workflows it knows. A second click changes nothing. What may be claimed is `core.queue`.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING

from fencepost.core.errors import DeclarationError, Misuse
from fencepost.core.identity import canonical
from fencepost.core.queue import Queue, QueueStanding
from fencepost.core.records import Audit
from fencepost.runtime.permits import ask
from fencepost.runtime.portal import Blocking

if TYPE_CHECKING:
    from fencepost.runtime.app import App
    from fencepost.store.api import Store


class Queues:
    """The queues of an app: those that it declares, and what a person may do to those of its ledger."""

    def __init__(self, app: App, queues: Iterable[Queue]) -> None:
        self._app = app
        self.declared: dict[str, Queue] = {}
        self._lock = threading.Lock()
        self._written: Store | None = None
        for queue in queues:
            if not isinstance(queue, Queue):
                raise DeclarationError(f"{queue!r} is no queue", hint='pass Queue("mail", concurrency=5)')
            if queue.name in self.declared:
                raise DeclarationError(f"two queues are named {queue.name!r}", hint="give one another name")
            self.declared[queue.name] = queue

    @property
    def sync(self) -> Blocking:
        """The same methods, blocking; `app.sync.queues` is the same."""
        return Blocking(self)

    async def list(self) -> list[QueueStanding]:
        """Every queue of the ledger, with how many of its slots are taken, by name."""
        return await asyncio.to_thread(self._app.store.queues, self._app.namespace)

    async def pause(self, name: str, *, by: str, reason: str) -> QueueStanding:
        """Let no run of a queue begin or go on until it is resumed; what is in work goes on, and what is cancelled too.

        Raises:
            Misuse: there is no such queue, or who or why is missing.
        """
        return await asyncio.to_thread(pause, self._app, name, by=by, reason=reason)

    async def resume(self, name: str, *, by: str, reason: str) -> QueueStanding:
        """Let the runs of a paused queue go on; see `pause`."""
        return await asyncio.to_thread(resume, self._app, name, by=by, reason=reason)

    def write(self) -> None:
        """See that the ledger has the limits of the code, once for each time that it is opened. Blocking."""
        store = self._app.store
        if not self.declared or self._written is store:
            return
        with self._lock:
            if self._written is not store:
                store.declare_queues(self._app.namespace, list(self.declared.values()))
                self._written = store

    def check(self, name: str | None, *, queue_key: str | None, priority: int, dedup: str | None) -> None:
        """Raises `Misuse` unless a run can be started so."""
        if name is None:
            if queue_key is not None or priority or dedup is not None:
                raise Misuse(
                    "queue_key=, priority= and dedup= are of a queue", hint="pass queue= too, or leave them out"
                )
        elif name not in self.declared:
            known = ", ".join(self.declared) or "none"
            raise Misuse(
                f"this app has no queue {name!r}", hint=f"pass Queue({name!r}) to App(queues=...); it has: {known}"
            )
        if type(priority) is not int:
            raise Misuse(f"a priority of {priority!r}", hint="pass a whole number; a higher one comes first")


def pause(app: App, name: str, *, by: str, reason: str) -> QueueStanding:
    """Let no run of a queue begin or go on until it is resumed."""
    return _moved(app, name, "pause queue", by=by, reason=reason, actor=by)


def resume(app: App, name: str, *, by: str, reason: str) -> QueueStanding:
    """Let the runs of a paused queue go on."""
    return _moved(app, name, "resume queue", by=by, reason=reason, actor=None)


def _moved(app: App, name: str, verb: str, *, by: str, reason: str, actor: str | None) -> QueueStanding:
    ask(app, verb, f"queue:{name}", by=by, reason=reason)
    before = _named(app, name)
    after = {"paused": actor is not None}
    row = Audit(
        app.store.now(), by, verb, f"queue:{name}", "done", reason, canonical({"paused": before.paused_at is not None}),
        canonical(after), namespace=app.namespace,
    )  # fmt: skip
    app.store.pause_queue(app.namespace, name, actor=actor, audit=row)
    return _named(app, name)


def _named(app: App, name: str) -> QueueStanding:
    found = app.store.queues(app.namespace)
    one = next((one for one in found if one.name == name), None)
    if one is None:
        known = ", ".join(one.name for one in found) or "none"
        raise Misuse(f"there is no queue {name!r}", hint=f"there are: {known}", ids={"queue": name})
    return one
