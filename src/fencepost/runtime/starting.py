"""Writes the first row of a run: once per id, with bounded patience for a busy ledger, and never left unlived.

A start whose caller was told that the ledger is busy may be written all the same; then the run is handed on like any
other. One that joins the caller's own transaction is the caller's to commit. What a caller may start is `app`; living
the run is `worker`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, NamedTuple

from fencepost.core.duration import SECOND, spelled
from fencepost.core.errors import FencepostError, RunInputMismatch, StoreBusy
from fencepost.core.records import Run
from fencepost.effects.overdue import Overdue
from fencepost.runtime.handle import NO_NUMBER
from fencepost.runtime.performing import RunKeeper
from fencepost.store.api import NewRun, Started, Store
from fencepost.store.journal import Journal
from fencepost.store.ticket import Ticket

_GIVEN_AT_THE_START = {
    "workflow": "workflow",
    "fingerprint": "input",
    "principal": "principal",
    "resource": "resource",
}
"""Columns of a run in which a second start must agree with the first, and what people call them."""


class Placed(NamedTuple):
    """Where a new run waits for its turn: in which queue, and for how many microseconds in any case."""

    queue: str | None = None
    queue_key: str | None = None
    priority: int = 0
    dedup: str | None = None
    delay: int = 0


ANYWHERE = Placed()


class Starts:
    """The starts of one app; `patience` is how many microseconds each waits for the ledger."""

    def __init__(self, patience: int) -> None:
        self._patience = patience
        self._late: set[asyncio.Task[None]] = set()

    async def write(self, journal: Journal, new: NewRun, begin: Callable[[Run], None]) -> Run:
        """The run as the ledger holds it now; one that this start has made is handed to `begin`.

        Raises:
            RunInputMismatch: a run with this id was started with something else.
            StoreBusy: the patience is spent.
        """
        ticket = journal.start(new)
        try:
            async with asyncio.timeout(self._patience / SECOND):
                run, is_new = await ticket
        except TimeoutError:
            late = asyncio.create_task(_begin_late(ticket, begin))
            self._late.add(late)
            late.add_done_callback(self._late.discard)
            raise self._busy(new) from None
        _require_the_same(run, new)
        if is_new:
            begin(run)
        return run

    async def join(self, store: Store, new: NewRun, connection: Any) -> Run:
        """The run, written in the transaction of the caller's connection; whoever claims it sees it when it commits.

        Raises:
            RunInputMismatch: a run with this id was started with something else.
            Misuse: the connection does not lead to the ledger, or commits each statement by itself.
            StoreUnavailable: the database refuses, and the hint says what to do.
        """
        run, _ = await store.start_within(connection, new)
        _require_the_same(run, new)
        return replace(run, no=NO_NUMBER)

    async def stand_in_line(self, store: Store, new: NewRun, begin: Callable[[Run], None]) -> Run:
        """The run, written in a transaction of its own: whoever stands before it in its line may have to commit first.

        Raises:
            RunInputMismatch: a run with this id was started with something else.
            StoreUnavailable: the database refuses, or somebody else's transaction keeps the line for too long.
        """
        run, is_new = await asyncio.to_thread(store.start_run, new)
        _require_the_same(run, new)
        if is_new:
            begin(run)
        return run

    def _busy(self, new: NewRun) -> StoreBusy:
        return StoreBusy(
            f"the start of run {new.id!r} still waits: the ledger has not taken it for more than "
            f"{spelled(self._patience)}",
            hint="another process may keep a transaction open on it, such as a shell or a backup, its disk may be full "
            "or its server away; start it again with the same id: however often, it is one run",
            ids={"run": new.id},
        )


def begun_by(overdue: Overdue) -> int | None:
    """The run whose step's body asks for a start in this task, right now; a thread of its caller's own has none."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return None
    attempting = overdue.body_in(task)
    keeper = None if attempting is None else attempting.site.keeper
    return keeper.run if isinstance(keeper, RunKeeper) else None


async def _begin_late(ticket: Ticket[Started], begin: Callable[[Run], None]) -> None:
    with suppress(FencepostError):  # nobody waits for it any more; its caller knows that it may not be written
        run, is_new = await ticket
        if is_new:
            begin(run)


def _require_the_same(run: Run, new: NewRun) -> None:
    differing = [name for name in _GIVEN_AT_THE_START if getattr(run, name) != getattr(new, name)]
    if new.resource is None and "resource" in differing:
        differing.remove("resource")  # whoever names none takes it as it stands in its line
    if differing:
        raise RunInputMismatch(
            f"run {new.id!r} exists with another {_GIVEN_AT_THE_START[differing[0]]}",
            hint="take another id for another business event, or start it with what it was started with",
            ids={"run": new.id, "workflow": run.workflow},
        )
