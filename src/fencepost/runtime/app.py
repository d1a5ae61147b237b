"""The app: one ledger, the workflows that this process knows, and how they reach the outside.

`start`, `signal`, `cancel` and the operators' verbs write to the ledger and may be called from any process; `worker`
runs workflows in this one. Every method is async; `app.sync` offers the same methods, blocking, from the same code.
Opening the ledger happens at the first use, so that importing a module with an app touches no file.
"""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Self, TypeVar

from fencepost.core.duration import SECOND, microseconds
from fencepost.core.errors import (
    DeclarationError,
    Misuse,
    RunNotFound,
    VerbRefused,
)
from fencepost.core.guarantee import Blank, blanks
from fencepost.core.identity import check_name, check_run_id, digest_text
from fencepost.core.records import History, Run, Signal
from fencepost.core.states import RunState, SignalState
from fencepost.effects.declare import Effect
from fencepost.effects.model import Source, configured
from fencepost.effects.outside import Outside, Target
from fencepost.effects.transport import DoorOptions
from fencepost.effects.values import Door
from fencepost.runtime import verbs
from fencepost.runtime.handle import Handle, Watchers
from fencepost.runtime.host import Host
from fencepost.runtime.lease import LeaseHolder, check_margin
from fencepost.runtime.portal import Blocking
from fencepost.runtime.schedule import Schedule
from fencepost.runtime.schedules import Schedules
from fencepost.runtime.starting import Starts
from fencepost.runtime.taken import require_fit
from fencepost.runtime.worker import Worker
from fencepost.runtime.workflow import Workflow
from fencepost.store.api import NewRun, RunFilter
from fencepost.store.journal import Journal
from fencepost.store.open import open_store

if TYPE_CHECKING:
    from fencepost.store.api import Store

R = TypeVar("R")

THREADS_MAX = 64
"""Threads for plain `def` bodies."""


class App:
    """One ledger and the workflows that may run on it.

    Args:
        url: of the ledger: `sqlite:///file.db`, a path, or `postgresql://host/database`.
        workflows: those that this process can start and work on.
        schedules: what this process's workers start at which times; `app.schedules` shows and changes what there is.
        targets: the outside systems by the name under which effects declare them.
        model: the endpoint of model steps; from the environment, or local rules, if not given.
        namespace: keeps runs, keys and operators of several users of one ledger apart.
        lease: how long a worker's claim lasts without renewal; others take over one `margin` later.
        margin: a send starts only while more than this is left of the lease.
        patience: how long a start, signal or verb waits while another process keeps the ledger's write lock.
    """

    def __init__(
        self,
        url: str,
        *,
        workflows: Iterable[Workflow[..., Any]],
        schedules: Iterable[Schedule] = (),
        targets: Mapping[str, Target] | None = None,
        model: Source | None = None,
        namespace: str = "default",
        lease: str | timedelta = "15s",
        margin: str | timedelta = "2s",
        patience: str | timedelta = "10s",
        options: DoorOptions | None = None,
    ) -> None:
        self.url = url
        self.namespace = check_name(namespace, what="namespace")
        self._host: Host | None = None
        self._closed = False
        self.workflows: dict[tuple[str, int], Workflow[..., Any]] = {}
        for declared in workflows:
            self.register(declared)
        self.schedules = Schedules(self, schedules)
        self.outside = Outside(dict(targets or {}), configured(model, os.environ), options or DoorOptions())
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

    # -- opening ------------------------------------------------------------------------------------------------------

    def effects(self) -> list[Effect[..., Any]]:
        """The effects that the app's workflows refer to, compensations included, each once."""
        found = {id(effect): effect for declared in self.workflows.values() for effect in declared.effects}
        return list(found.values())

    def blanks(self) -> list[Blank]:
        """What the contracts of the effects leave open; nothing starts while there is any."""
        return [blank for effect in self.effects() for blank in blanks(effect.contract)]

    @property
    def host(self) -> Host:
        """The opened ledger with its surroundings.

        Raises:
            DeclarationError: an effect's contract has a blank.
            ForeignDatabase, StoreUnavailable: the ledger cannot be used; the hint says why.
            Misuse: the app is closed.
        """
        if self._closed:
            raise Misuse(
                f"the app on {self.url} is closed", hint="do this inside `async with app:`, or before app.close()"
            )
        if self._host is None:
            self._refuse_blanks()
            store = open_store(self.url, clock=self.clock, patience=self._patience / SECOND, probe=self.probe)
            self._host = Host(
                namespace=self.namespace,
                store=store,
                journal=Journal(store),
                lease=LeaseHolder(store, length=self._lease_length, margin=self._margin),
                outside=self.outside,
                executor=ThreadPoolExecutor(THREADS_MAX, "fencepost-step"),
                workflows=self.workflows,
                schedules=self.schedules.declared,
                watchers=self._watchers,
            )
        return self._host

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

    @property
    def store(self) -> Store:
        """The opened ledger's store."""
        return self.host.store

    async def close(self) -> None:
        """Close the ledger, the doors and the threads. What is asked of the app later is refused."""
        self._closed = True
        host, self._host = self._host, None
        if host is not None:
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
        **kwargs: Any,
    ) -> Handle[R]:
        """Start a run, or find the one that this id and input have started already.

        Args:
            workflow: one of this app's workflows.
            *args: its arguments, and
            **kwargs: by name.
            id: of the run, required; take it from the business event (`invoice:tenant-42:inv-1847`).
            on_behalf_of: the principal for whom the run acts.

        Raises:
            RunInputMismatch: a run with this id has another input, workflow or principal.
            Misuse: the id is malformed, or the workflow is not one of this app's.
            ValueRefused: the input cannot be stored and read back.
            StoreBusy: another process keeps the ledger's write lock for longer than the app's patience.
        """
        if not isinstance(workflow, Workflow):
            raise Misuse(f"{workflow!r} is no workflow", hint="pass the function that @workflow() decorates")
        if self.workflows.get((workflow.name, workflow.version)) is not workflow:
            raise Misuse(f"{workflow!r} is not one of this app's workflows", hint="pass it to App(workflows=[...])")
        text, fingerprint = workflow.encode(args, kwargs)
        worker = next((one for one in self._workers if one.has_room()), None)
        store = self.host.store
        now = store.now()
        new = NewRun(
            self.namespace,
            check_run_id(id),
            workflow.name,
            workflow.version,
            on_behalf_of,
            text,
            fingerprint,
            None,
            self.host.lease.id if worker is not None else None,
            now,
            now,
        )
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
    ) -> Signal:
        """Send a signal to a run; it is kept until its wait comes, applied once, or refused with a reason.

        `id` tells a repeated delivery from a second signal; pass the event's own id where there is one.

        Raises:
            RunNotFound: no run has this id; start it first.
            VerbRefused: the run does not wait for this any more, or the id came before with another value, or the wait
                is open and known in this process to take another type.
        """
        door: Door = Door(Any if value is None else type(value), where=f"signal {name}")
        payload = door.encode(value)
        store = self.host.store
        wanted = Signal(
            id=id or secrets.token_hex(16),
            name=check_name(name, what="signal name"),
            payload=payload,
            state=SignalState.KEPT,
            sent_at=store.now(),
            sender=sender,
            fingerprint=digest_text(payload.encode()),
        )
        kept = await asyncio.to_thread(self._keep_signal, run_id, wanted)
        for worker in self._workers:
            worker.wake()
        if kept.state is SignalState.REFUSED:
            raise VerbRefused(f"signal {name!r} is refused: {kept.reason}", ids={"run": run_id, "signal": kept.id})
        if kept.fingerprint != wanted.fingerprint or kept.name != wanted.name:
            raise VerbRefused(
                f"signal id {kept.id!r} came before with another name or value", ids={"run": run_id, "signal": kept.id}
            )
        return kept

    def _keep_signal(self, run_id: str, signal: Signal) -> Signal:
        run = self.store.find(self.namespace, run_id)
        if run is not None and (run.workflow, run.workflow_version) in self.workflows:
            require_fit(self.store.load(run.no), signal)
        return self.store.signal(self.namespace, run_id, signal)

    # -- what a person may do ------------------------------------------------------------------------------------

    async def cancel(self, run_id: str, *, by: str, reason: str, version: int | None = None) -> Run:
        """Ask a run to stop: nothing new begins, what was sent is settled, then it is cancelled.

        Here and below, `by` and `reason` go into the audit row, and `version` is the row version that the person saw:
        the verb is refused if the run has changed since.

        Raises:
            VerbRefused: it does not apply to the run as it is; nothing was changed, and the refusal is audited.
            RunNotFound: no run has this id.
        """
        return await self._verb(verbs.cancel, run_id, by=by, reason=reason, version=version)

    async def resume(self, run_id: str, *, by: str, reason: str, version: int | None = None) -> Run:
        """Let a held or failed run go on; see `cancel` for the arguments."""
        return await self._verb(verbs.resume, run_id, by=by, reason=reason, version=version)

    async def retry(
        self, run_id: str, step: str, *, by: str, reason: str, item: str | None = None, version: int | None = None
    ) -> Run:
        """Give an operation that failed for good a new budget, and let its run go on; see `cancel`."""
        return await self._verb(verbs.retry, run_id, step=step, item=item, by=by, reason=reason, version=version)

    async def settle(
        self,
        run_id: str,
        step: str,
        *,
        happened: bool,
        by: str,
        reason: str,
        item: str | None = None,
        result: str | None = None,
        reference: str | None = None,
        override: bool = False,
        version: int | None = None,
    ) -> Run:
        """Say of an unknown operation whether it happened; `reason` is the evidence. See `cancel`.

        Args:
            run_id: of the run.
            step: of the operation, as `fencepost show` names it.
            happened: what is known now.
            by: who says so.
            reason: how they know.
            item: of the operation, where it has one.
            result: the step's result as JSON, if it happened.
            reference: the remote object's id, if it happened.
            override: believe "did not happen" before the span is over; the guarantee is lost.
            version: the row version that the person saw.
        """
        return await self._verb(
            verbs.settle, run_id, step=step, item=item, happened=happened, by=by, reason=reason, result=result,
            reference=reference, override=override, version=version,
        )  # fmt: skip

    async def compensate(self, run_id: str, *, by: str, reason: str, version: int | None = None) -> Run:
        """Compensate the effects of a run that is held, failed or ended; see `cancel`."""
        return await self._verb(verbs.compensate, run_id, by=by, reason=reason, version=version)

    async def terminate(self, run_id: str, *, by: str, reason: str, version: int | None = None) -> Run:
        """End a run at once; its effects stand. See `cancel`."""
        return await self._verb(verbs.terminate, run_id, by=by, reason=reason, version=version)

    async def _verb(self, verb: Callable[..., Run], run_id: str, **arguments: Any) -> Run:
        run = await self._find(run_id)
        done = await asyncio.to_thread(verb, self, run, **arguments)
        for worker in self._workers:
            worker.wake()
        return done

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
        if not isinstance(limit, int) or limit < 1:
            raise Misuse(f"a page of {limit!r} runs", hint="pass a limit from 1 on")
        wanted = RunFilter(self.namespace, state, workflow, prefix, after, limit)
        return await asyncio.to_thread(self.store.runs, wanted)

    async def _find(self, run_id: str) -> Run:
        run = await asyncio.to_thread(self.store.find, self.namespace, run_id)
        if run is None:
            raise RunNotFound(f"no run has the id {run_id!r}", hint="`fencepost runs` lists them", ids={"run": run_id})
        return run

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
        worker = Worker(self.host, lease_length=self._lease_length, margin=self._margin, runs_max=runs_max)
        self._workers.append(worker)
        try:
            async with worker.running():
                yield worker
        finally:
            self._workers.remove(worker)
