"""A worker's part in schedules: it declares those of its app when it begins, and fires those that are due.

Any worker whose app declares a schedule fires it, from what the ledger says of it and not from its own code; whoever
moves it first has started its runs, and the others find nothing due. One that no live worker declares stays in the
ledger and starts nothing. What is started is decided in `core.schedule`, the commit is `store.schedules`.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from fencepost.core.errors import DeclarationError
from fencepost.core.identity import canonical
from fencepost.core.records import Audit
from fencepost.core.schedule import Declared, Firing, Overlap, Plan, fire, known_as, note_of, redeclared, run_id
from fencepost.core.states import RunState
from fencepost.runtime.permits import this_process
from fencepost.runtime.timetable import Timetable
from fencepost.store.api import NewRun

if TYPE_CHECKING:
    from fencepost.runtime.host import Host
    from fencepost.runtime.workflow import Workflow

REDECLARE = "redeclare schedule"

LOG = logging.getLogger("fencepost.schedules")

timetable = lru_cache(maxsize=256)(Timetable)
"""The timetable of a line and a zone; reading a line costs more than finding its next instant."""


class Firings:
    """The schedules of one worker, over all its lives."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._began_at: int | None = None
        self._declared_under = ""
        """The lease under which they were declared last."""
        self.names = list(host.schedules)
        """Those that this worker fires."""
        self.wait_for_runs = any(one.definition.overlap == Overlap.QUEUE for one in host.schedules.values())
        """Whether the end of a run may make one due."""

    @property
    def are_declared(self) -> bool:
        """Whether the ledger knows that this worker's present life declares them."""
        return not self._host.schedules or self._declared_under == self._host.lease.id

    def declare(self) -> None:
        """Write what the app declares into the ledger, under the worker's lease. Blocking."""
        host = self._host
        if not host.schedules:
            return
        lease = host.lease.id
        plans = host.store.declare_schedules(host.namespace, lease, self._declared, self._audited)
        self.names, self._declared_under = list(host.schedules), lease
        for plan in plans:
            if plan.is_orphaned:
                LOG.warning("schedule %s is declared by no live worker, and starts nothing until one does", plan.name)

    def _declared(self, plans: list[Plan], now: int) -> list[Plan]:
        self._began_at = now if self._began_at is None else self._began_at
        return [self._plan_of(name, plans, now) for name in self._host.schedules]

    def _audited(self, before: Plan, after: Plan) -> Audit | None:
        """The row of a schedule that code starts otherwise than before: nobody's verb, and somebody's deploy."""
        if (before.name, before.definition) == (after.name, after.definition):
            return None
        why = "a worker that began declares it otherwise"
        return Audit(
            after.changed_at, this_process(), REDECLARE, about(after.name), "done", why, said_of(before),
            said_of(after), namespace=after.namespace,
        )  # fmt: skip

    def _plan_of(self, name: str, plans: list[Plan], now: int) -> Plan:
        host, schedule = self._host, self._host.schedules[name]
        assert self._began_at is not None, "it was just set"
        declared = Declared(name, schedule.definition, schedule.timetable.after(now))
        found = known_as(declared, plans, [other for other in host.schedules if other != name])
        if found is None:
            return Plan(
                0, host.namespace, name, schedule.definition, declared.next_at, host.lease.id, self._began_at,
                changed_at=now,
            )  # fmt: skip
        plan = redeclared(found, declared, lease=host.lease.id, began_at=self._began_at, now=now)
        if plan.name != found.name:
            LOG.warning("schedule %s was named %s before; it goes on under its new name", plan.name, found.name)
        elif plan.name != name:
            LOG.warning("schedule %s is named %s by newer code, and is fired under that name", name, plan.name)
        if plan.definition.times != found.definition.times:
            LOG.warning(
                "schedule %s has new times, %s instead of %s; they count from now on: next at %s",
                plan.name,
                " ".join(plan.definition.times),
                " ".join(found.definition.times),
                _shown(plan, plan.next_at),
            )
        return plan

    def fire_due(self) -> None:
        """Start what is due, if anything is. Blocking; raises `StoreUnavailable`."""
        host = self._host
        if not self.names or host.lease.lost:
            return
        now = host.store.now()
        for plan in host.store.due_schedules(host.namespace, self.names, now):
            mine = host.schedules.get(plan.name) or host.schedules.get(plan.formerly or "")
            if mine is not None and mine.definition != plan.definition and not plan.is_declarer_live:
                # Whoever declared it otherwise is gone, as the last of the old workers is after a rolling deploy.
                self.declare()
                return
            try:
                self._fire(plan, now)
            except DeclarationError as error:
                LOG.error("schedule %s is left to other workers: %s", plan.name, error)  # noqa: TRY400 - it says all
                self.names = [name for name in self.names if name not in plan.names()]

    def _fire(self, plan: Plan, now: int) -> None:
        firing = fire(plan, now, timetable(*plan.definition.times).after)
        started = self._host.store.fire_schedule(
            firing, [new_run(plan, instant, now, queue_of(self._host.workflows, plan)) for instant in firing.starts]
        )
        if started is None:
            return
        for run, is_new in started:
            if not is_new and run.fingerprint != plan.definition.fingerprint:
                said = "schedule %s: run %s was there already, with another input"
                LOG.error(said, plan.name, run.id, extra={"run": run.id})
        if firing.plan.note != plan.note:
            _tell(plan, firing, now)


def about(name: str) -> str:
    """What stands in an audit row for the run, where it is about a schedule."""
    return f"schedule:{name}"


def said_of(plan: Plan | None, start: NewRun | None = None) -> str:
    """What an audit row says of a schedule before or after; null: there is none."""
    if plan is None:
        return canonical(None)
    definition = plan.definition
    said: dict[str, Any] = {
        "workflow": definition.workflow,
        "version": definition.workflow_version,
        "input": definition.fingerprint,
        "cron": definition.cron,
        "zone": definition.zone,
        "overlap": definition.overlap,
        "catch_up": definition.catch_up,
        "next_at": plan.next_at,
        "paused": plan.paused_at is not None,
    }
    if start is not None:
        said["started"] = start.id
    return canonical(said)


def queue_of(workflows: Mapping[tuple[str, int], Workflow[..., Any]], plan: Plan) -> str | None:
    """The queue that the code of a schedule's workflow names, where this process has that code."""
    known = workflows.get((plan.definition.workflow, plan.definition.workflow_version))
    return None if known is None else known.queue


def new_run(plan: Plan, instant: int, now: int, queue: str | None = None) -> NewRun:
    """The run that stands for an instant of a schedule; whoever carries its workflow claims it."""
    definition = plan.definition
    return NewRun(
        plan.namespace,
        run_id(plan.name, _shown(plan, instant)),
        definition.workflow,
        definition.workflow_version,
        definition.principal,
        definition.input,
        definition.fingerprint,
        None,
        None,
        now,
        now,
        queue=queue,
    )


def _shown(plan: Plan, instant: int) -> str:
    return timetable(*plan.definition.times).text(instant)


def _tell(plan: Plan, firing: Firing, now: int) -> None:
    note = note_of(firing.plan)
    if note.get("kind") == "waits":
        said = f"the instant {_shown(firing.plan, firing.plan.next_at)} waits until run {note.get('run')} has ended"
    else:
        since = f"{_shown(plan, plan.next_at)} to {_shown(plan, now)}"
        said = f"of the instants from {since} some are not started, since {note.get('why')}"
    held = f"; run {note['run']} is held and waits for a person" if note.get("state") == RunState.HELD else ""
    LOG.warning("schedule %s: %s%s", plan.name, said, held)
