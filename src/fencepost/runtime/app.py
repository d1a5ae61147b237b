"""The app: one ledger, the workflows that this process knows, and how they reach the outside.

`start`, `signal`, `cancel` and the operators' verbs write to the ledger and may be called from any process; `worker`
runs workflows in this one. Every method is async; `app.sync` offers the same methods, blocking, from the same code.
Opening the ledger happens at the first use, so that importing a module with an app touches no file. What a person may
do to a run is `operators`, what an outside system may report `callbacks`, what its code promises `declarations`.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Self, TypeVar, cast

from fencepost.core.callback import checked_secrets
from fencepost.core.duration import SECOND, microseconds
from fencepost.core.errors import Misuse
from fencepost.core.identity import check_name, check_run_id
from fencepost.core.permissions import Permissions
from fencepost.core.queue import Queue
from fencepost.core.records import History, Run, Signal
from fencepost.core.states import RunState
from fencepost.effects.hidden import Redactor, hidden
from fencepost.effects.model import Source, configured
from fencepost.effects.outside import Outside, Target
from fencepost.effects.secret import Provider
from fencepost.effects.transport import DoorOptions
from fencepost.runtime import permits, signalling
from fencepost.runtime.callbacks import Callbacks
from fencepost.runtime.declarations import Declarations
from fencepost.runtime.handle import Handle, Watchers
from fencepost.runtime.host import Host
from fencepost.runtime.lease import LeaseHolder, check_margin
from fencepost.runtime.operators import Operators, require_limit
from fencepost.runtime.portal import Blocking
from fencepost.runtime.queues import Queues
from fencepost.runtime.schedule import Schedule
from fencepost.runtime.schedules import Schedules
from fencepost.runtime.starting import ANYWHERE, Placed, Starts, begun_by
from fencepost.runtime.tracing import told_by_id
from fencepost.runtime.worker import Worker
from fencepost.runtime.workflow import Workflow
from fencepost.store.apart import INLINE_BYTES
from fencepost.store.api import NewRun, RunFilter
from fencepost.store.journal import Journal
from fencepost.store.open import open_store
from fencepost.store.passage import passage
from fencepost.store.sealed import Codec

if TYPE_CHECKING:
    from fencepost.store.api import Store

R = TypeVar("R")

SECRET_VARIABLE = "FENCEPOST_CALLBACK_SECRET"  # noqa: S105 - the name, not the secret

TOKEN_VARIABLE = "FENCEPOST_TOKEN"  # noqa: S105 - the same

THREADS_MAX = 64
"""Threads for plain `def` bodies."""


class App(Declarations, Operators, Callbacks):
    """One ledger and the workflows that may run on it.

    Args:
        url: of the ledger: `sqlite:///file.db`, a path, or `postgresql://host/database`. With the url of a console,
            `https://host`, it is an app over HTTP, which starts, signals and waits, and needs only the workflows.
        workflows: those that this process can start and work on.
        schedules: what this process's workers start at which times; `app.schedules` shows and changes what there is.
        queues: under whose limits runs are started with `queue=`; `app.queues` shows, pauses and resumes them.
        targets: the outside systems by the name under which effects declare them.
        model: the endpoint of model steps; from the environment, or local rules, if not given.
        namespace: keeps runs, keys and operators of several users of one ledger apart.
        lease: how long a worker's claim lasts without renewal; others take over one `margin` later.
        margin: a send starts only while more than this is left of the lease.
        patience: how long a start, signal or verb waits while another process keeps the ledger's write lock.
        clients: through which every effect sends; name those of one effect there. A `Layer` stands for what cannot be
            seen, such as a tool server's retries.
        permissions: who may do what in the namespace. A worker writes it into the ledger, where every process finds it;
            while none is there, this process goes by its own, and without any everybody may do everything.
        callback_secret: from which the tokens are made that effects hand out with jobs, 32 bytes or more; after a
            change `(new, old)`, until the jobs of the old one have ended. From FENCEPOST_CALLBACK_SECRET, if not given.
        strict: refuse to open the ledger while a layer under a step retries by itself; otherwise it is warned about.
        codec: encrypts what the ledger holds, such as `AesGcm`.
        inline_bytes: how large a value may be to stand in its own row; larger ones are kept apart from it.
        secrets: their values by name, or a function that gives them, for `call.secret`.
        redact: gets each text that the engine writes about a failure, a reply or a reason, and returns what of it may
            be stored. Values are not its matter: mark their fields `Redacted`.
        token: with which a console is called; from FENCEPOST_TOKEN, if not given.
    """

    def __new__(cls, url: str, **_: Any) -> Self:
        """An app on a ledger, or over HTTP."""
        from fencepost.runtime.remote import RemoteApp, is_remote

        made = RemoteApp if cls is App and is_remote(url) else cls
        return cast("Self", object.__new__(made))

    def __init__(
        self,
        url: str,
        *,
        workflows: Iterable[Workflow[..., Any]],
        schedules: Iterable[Schedule] = (),
        queues: Iterable[Queue] = (),
        targets: Mapping[str, Target] | None = None,
        model: Source | None = None,
        namespace: str = "default",
        lease: str | timedelta = "15s",
        margin: str | timedelta = "2s",
        patience: str | timedelta = "10s",
        options: DoorOptions | None = None,
        clients: Iterable[Any] = (),
        permissions: Permissions | None = None,
        callback_secret: str | Iterable[str] | None = None,
        strict: bool = False,
        codec: Codec | None = None,
        inline_bytes: int = INLINE_BYTES,
        secrets: Provider | None = None,
        redact: Redactor | None = None,
        token: str | None = None,
    ) -> None:
        self.url = url
        self.namespace = check_name(namespace, what="namespace")
        self._host: Host | None = None
        self._opening = threading.Lock()
        self._closed = False
        self.codec = codec
        self.inline_bytes = inline_bytes
        self.clients = tuple(clients)
        self.strict = strict
        self.permissions = permissions
        self.login: str | None = None
        """Whom this process speaks for, as the command line knows; None: code names whoever it acts for."""
        self._looked_under: set[int] = set()
        self.workflows: dict[tuple[str, int], Workflow[..., Any]] = {}
        for declared in workflows:
            self.register(declared)
        self.schedules = Schedules(self, schedules)
        self.queues = Queues(self, queues)
        tokens = checked_secrets(callback_secret or os.environ.get(SECRET_VARIABLE) or ())
        model_source, door_options = configured(model, os.environ), options or DoorOptions()
        self.outside = Outside(dict(targets or {}), model_source, door_options, tokens, secrets)
        self._redact = redact
        self.token = token or os.environ.get(TOKEN_VARIABLE)
        self._lease_length = microseconds(lease, what="lease")
        self._margin = microseconds(margin, what="margin")
        check_margin(self._lease_length, self._margin)
        self._patience = microseconds(patience, what="patience")
        self._starts = Starts(self._patience)
        self._workers: list[Worker] = []
        self._watchers = Watchers()
        self.clock: Callable[[], int] | None = None
        """Microseconds in place of the database's clock; for tests."""
        self.probe: Any = None
        self.lives_are_brief = False
        """Whether each run leaves memory after each answer; for tests, see `testing.replaying`."""

    # -- opening ------------------------------------------------------------------------------------------------------

    @property
    def host(self) -> Host:
        """The opened ledger with its surroundings.

        Raises:
            DeclarationError: an effect's contract has a blank; of a strict app also: a second layer retries.
            ForeignDatabase, StoreUnavailable: the ledger cannot be used; the hint says why. `KeyUnavailable`: it is
                encrypted, and the codec has another key.
            Misuse: the app is closed.
        """
        if self._closed:
            raise Misuse(
                f"the app on {self.url} is closed", hint="do this inside `async with app:`, or before app.close()"
            )
        if self._host is None:
            with self._opening:
                self._host = self._host or self._opened()
        return self._host

    def _opened(self) -> Host:
        self._refuse_blanks()
        inner = open_store(self.url, clock=self.clock, patience=self._patience / SECOND, probe=self.probe)
        try:
            store = passage(inner, inline=self.inline_bytes, codec=self.codec, scrub=hidden)
        except BaseException:
            inner.close()
            raise
        if self._redact is not None:
            hidden.redact_with(self._redact)
        return Host(
            namespace=self.namespace,
            store=store,
            journal=Journal(store),
            lease=LeaseHolder(store, length=self._lease_length, margin=self._margin),
            outside=self.outside,
            executor=ThreadPoolExecutor(THREADS_MAX, "fencepost-step"),
            workflows=self.workflows,
            schedules=self.schedules.declared,
            queues=self.queues,
            watchers=self._watchers,
            lives_are_brief=self.lives_are_brief,
        )

    @property
    def store(self) -> Store:
        """The opened ledger's store."""
        return self.host.store

    async def close(self) -> None:
        """Close the ledger, the doors and the threads. What is asked of the app later is refused."""
        self._closed = True
        host, self._host = self._host, None
        if host is not None:
            if self._redact is not None:
                hidden.redact_no_more(self._redact)
            await host.outside.aclose()
            host.executor.shutdown(wait=False)
            await asyncio.to_thread(host.journal.close)
            host.store.close()

    async def __aenter__(self) -> Self:
        self._closed = False
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    @property
    def sync(self) -> Blocking:
        """The same methods, blocking: `app.sync.start(...)`."""
        return Blocking(self)

    # -- runs ---------------------------------------------------------------------------------------------------------

    async def start(
        self,
        workflow: Workflow[..., R],
        *args: Any,
        id: str,
        on_behalf_of: str | None = None,
        connection: Any = None,
        queue: str | None = None,
        queue_key: str | None = None,
        priority: int = 0,
        delay: str | timedelta | None = None,
        dedup: str | None = None,
        **kwargs: Any,
    ) -> Handle[R]:
        """Start a run, or find the one that this id and input have started already.

        One that the body of an async step starts is shown as a detached child of the step's run.

        Args:
            workflow: one of this app's workflows.
            *args: its arguments, and
            **kwargs: by name.
            id: of the run, required; take it from the business event (`invoice:tenant-42:inv-1847`).
            on_behalf_of: the principal for whom the run acts.
            connection: of sqlite3, psycopg or SQLAlchemy, to the ledger's own database: the run is started in its
                transaction, and is there for the workers once you commit.
            queue: one of this app's queues, under whose limits it is worked on; the workflow's own if not given.
            queue_key: what the queue's `per_key` limit counts together.
            priority: of those due in the queue, the highest comes first.
            delay: it does not begin before this time is over.
            dedup: while a run with this id goes on in the queue, it is returned in place of a new one.

        Raises:
            RunInputMismatch: a run with this id has another input, workflow or principal.
            Misuse: the id is malformed, the workflow is not one of this app's, or the connection does not fit.
            ValueRefused: the input cannot be stored and read back.
            StoreBusy: another process keeps the ledger's write lock for longer than the app's patience.
        """
        queue = queue if queue is not None else workflow.queue
        self.queues.check(queue, queue_key=queue_key, priority=priority, dedup=dedup)
        if queue is not None:
            await asyncio.to_thread(self.queues.write)
        placed = ANYWHERE
        if queue is not None or delay is not None:
            later = 0 if delay is None else microseconds(delay, what="delay")
            placed = Placed(queue, queue_key, priority, dedup, later)
        return await self.begin(
            workflow, args, kwargs, id=id, on_behalf_of=on_behalf_of, connection=connection, placed=placed
        )

    async def begin(
        self, workflow: Workflow[..., R], args: tuple[Any, ...], kwargs: dict[str, Any], *, id: str,
        on_behalf_of: str | None, connection: Any = None, resource: str | None = None, placed: Placed = ANYWHERE,
    ) -> Handle[R]:  # fmt: skip
        """`start`; a run that names a `resource` does not begin before every earlier one of it has ended."""
        if not isinstance(workflow, Workflow):
            raise Misuse(f"{workflow!r} is no workflow", hint="pass the function that @workflow() decorates")
        if self.workflows.get((workflow.name, workflow.version)) is not workflow:
            raise Misuse(f"{workflow!r} is not one of this app's workflows", hint="pass it to App(workflows=[...])")
        text, fingerprint = workflow.encode(args, kwargs)
        is_claimed = connection is not None or resource is not None or placed is not ANYWHERE
        worker = None if is_claimed else next((one for one in self._workers if one.has_room()), None)
        store = self.host.store
        now = store.now()
        lease = self.host.lease.id if worker is not None else None
        new = NewRun(
            self.namespace, check_run_id(id), workflow.name, workflow.version, on_behalf_of, text, fingerprint,
            begun_by(self.host.overdue), lease, now + placed.delay, now, resource, None,
            placed.queue, placed.queue_key, placed.priority, placed.dedup,
        )  # fmt: skip
        if connection is not None:
            run = await self._starts.join(store, new, connection)
        elif resource is not None:
            run = await self._starts.stand_in_line(store, new, lambda run: self._begin(run, worker))
        else:
            run = await self._starts.write(self.host.journal, new, lambda run: self._begin(run, worker))
        return Handle(self, run, workflow.results)

    def _begin(self, run: Run, worker: Worker | None) -> None:
        """Have a new run lived: by the worker that owns it from its first row on, or by whoever claims it."""
        if worker in self._workers:
            worker.adopt(run)
        else:
            for one in self._workers:
                one.wake()

    async def signal(
        self,
        run_id: str,
        name: str,
        value: Any,
        *,
        id: str | None = None,
        sender: str = "",
        by: str | None = None,
        reason: str = "",
    ) -> Signal:
        """Send a signal to a run; it is kept until its wait comes, applied once, or refused with a reason.

        `id` tells a repeated delivery from a second signal; pass the event's own id where there is one. What code
        sends leaves no audit row when it is accepted: the signal's row says by whose `sender` and when. What a person
        sends by hand says so with `by`, needs the person's role, and leaves one with its `reason`.

        Raises:
            RunNotFound: no run has this id; start it first.
            VerbRefused: the run does not wait for this any more, or the id came before with another value, or the wait
                is open and known in this process to take another type.
        """
        return await self._sent(signalling.send, run_id, name, value, id=id, sender=sender, by=by, reason=reason)

    async def approve(
        self,
        run_id: str,
        name: str,
        *,
        by: str,
        approved: bool = True,
        comment: str = "",
        digest: str | None = None,
        id: str | None = None,
    ) -> Signal:
        """Answer a run that waits for an approval of one exact call; what becomes of it is as for a signal.

        Args:
            run_id: of the run.
            name: of the wait.
            by: who answers; this person's right is asked for when the approval is used.
            approved: whether the call is allowed.
            comment: kept with the answer, and its reason in the audit.
            digest: of the call that the person was shown: the answer is refused if another one waits. If not given, of
                what waits now. An answer that comes before its wait must give it: `effect(...).digest(run_id, item)`.
            id: of the signal; if not given, the same answer by the same person to the same wait counts once.

        Raises:
            VerbRefused: nothing waits for it, another call waits than was shown, or the person has answered otherwise.
            RunNotFound: no run has this id.
        """
        return await self._sent(
            signalling.approve, run_id, name, by=by, approved=approved, comment=comment, digest=digest, id=id
        )

    async def _sent(self, how: Callable[..., Signal], *args: Any, **kwargs: Any) -> Signal:
        kept = await asyncio.to_thread(told_by_id(how), self, *args, **kwargs)
        self._wake()
        return kept

    # -- reading --------------------------------------------------------------------------------------------------

    async def handle(self, run_id: str) -> Handle[Any]:
        """The handle of a run by its id. Raises `RunNotFound`."""
        run = await self._find(run_id)
        declared = self.workflows.get((run.workflow, run.workflow_version))
        return Handle(self, run, None if declared is None else declared.results)

    async def show(self, run_id: str) -> History:
        """Everything the ledger holds of a run. Raises `RunNotFound`."""
        run = await self._find(run_id)
        return await asyncio.to_thread(self.store.load, run.no)

    async def runs(
        self, *, state: str | None = None, workflow: str | None = None, prefix: str | None = None,
        after: int | None = None, limit: int = 50,
    ) -> list[Run]:  # fmt: skip
        """A page of runs, newest first; `after` is the number of the last run of the page before.

        Raises:
            Misuse: there is no such state, or the limit is no number from 1 on.
        """
        if state is not None and state not in set(RunState):
            raise Misuse(f"{state!r} is no state of a run", hint=f"one of: {', '.join(RunState)}")
        require_limit(limit, "runs")
        wanted = RunFilter(self.namespace, state, workflow, prefix, after, limit)
        return await asyncio.to_thread(self.store.runs, wanted)

    def _wake(self) -> None:
        for worker in self._workers:
            worker.wake()

    # -- working ------------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def worker(self, *, runs_max: int = 1_000) -> AsyncIterator[Worker]:
        """Work on runs of this app's workflows while inside; drain on the way out.

        Raises:
            Misuse: this app has a worker already; two would share a lease, and each believe the other's runs its own.
            DeclarationError: a worker with a larger margin works on the same ledger.
            StoreUnavailable: the ledger refuses the worker's lease; after a failed sync also on the way out.
        """
        if self._workers:
            raise Misuse(
                "this app has a worker already",
                hint="one worker lives many runs side by side (runs_max=); for another one make another App",
            )
        if self.permissions is not None:
            await asyncio.to_thread(permits.declare, self.store, self.namespace, self.permissions)
        worker = Worker(self.host, lease_length=self._lease_length, margin=self._margin, runs_max=runs_max)
        self._workers.append(worker)
        try:
            async with worker.running():
                yield worker
        finally:
            self._workers.remove(worker)
