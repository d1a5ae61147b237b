"""What a person may do to a schedule: see, pause, resume, fire and remove it; each verb one transaction, audited.

The verbs act on what the ledger holds and need no app's code, so that an orphan can be fired or removed too. A refusal
changes nothing and leaves its own row. When a schedule fires by itself is `firing`'s matter.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from fencepost.core.duration import SECOND
from fencepost.core.errors import ChangedSince, DeclarationError, Misuse, VerbRefused
from fencepost.core.records import Audit
from fencepost.core.schedule import Overlap, Plan, resumed
from fencepost.runtime.firing import about, new_run, queue_of, said_of, timetable
from fencepost.runtime.permits import require, require_a_word
from fencepost.runtime.portal import Blocking
from fencepost.runtime.schedule import Schedule
from fencepost.store.api import Changed, NewRun

if TYPE_CHECKING:
    from fencepost.runtime.app import App
    from fencepost.runtime.deeds import Desk


class Schedules:
    """The schedules of an app: those that it declares, and what a person may do to those of its ledger.

    Every verb takes `by` and `reason`, which go into the audit row, and `version`, the row version that the person saw.
    It raises `VerbRefused` where it does not apply, `Misuse` where there is no such schedule.
    """

    def __init__(self, app: App, schedules: Iterable[Schedule]) -> None:
        self._app = app
        self.declared: dict[str, Schedule] = {}
        for schedule in schedules:
            self._add(schedule)

    def _add(self, schedule: Schedule) -> None:
        if not isinstance(schedule, Schedule):
            raise DeclarationError(
                f"{schedule!r} is no schedule", hint='pass Schedule("name", workflow, cron="0 3 * * *")'
            )
        if self._app.workflows.get((schedule.workflow.name, schedule.workflow.version)) is not schedule.workflow:
            raise DeclarationError(
                f"{schedule!r} starts a workflow that is not one of this app's", hint="pass it to App(workflows=[...])"
            )
        for other in self.declared.values():
            if other.name == schedule.name:
                raise DeclarationError(f"two schedules are named {schedule.name!r}", hint="give one another name")
            if other.definition.deed == schedule.definition.deed:
                raise DeclarationError(
                    f"schedules {other.name!r} and {schedule.name!r} start the same workflow with the same input "
                    "at the same times",
                    hint="leave one out, or give it another input",
                )
        self.declared[schedule.name] = schedule

    @property
    def sync(self) -> Blocking:
        """The same methods, blocking; `app.sync.schedules` is the same."""
        return Blocking(self)

    async def list(self) -> list[Plan]:
        """Every schedule of the ledger, those that no code declares any more included."""
        return await asyncio.to_thread(self._app.store.schedules, self._app.namespace)

    async def pause(self, name: str, *, by: str, reason: str, version: int | None = None) -> Plan:
        """Start nothing until it is resumed."""
        return await asyncio.to_thread(pause, self._app, name, by=by, reason=reason, version=version)

    async def resume(self, name: str, *, by: str, reason: str, version: int | None = None) -> Plan:
        """Go on from now on; what passed in the pause is not caught up."""
        return await asyncio.to_thread(resume, self._app, name, by=by, reason=reason, version=version)

    async def fire(self, name: str, *, by: str, reason: str, version: int | None = None) -> Plan:
        """Start a run for this moment, whatever the timetable says; it is the plan's `last_run`."""
        return await asyncio.to_thread(fire, self._app, name, by=by, reason=reason, version=version)

    async def remove(self, name: str, *, by: str, reason: str, version: int | None = None) -> None:
        """Remove one that no live worker declares. Its runs stay."""
        await asyncio.to_thread(remove, self._app, name, by=by, reason=reason, version=version)


def pause(app: Desk, name: str, *, by: str, reason: str, version: int | None = None) -> Plan:
    """Start nothing until it is resumed. Runs that were started go on."""

    def changed(plan: Plan, now: int) -> Plan:
        if plan.paused_at is not None:
            raise VerbRefused(f"schedule {name!r} is paused already", ids={"schedule": name})
        return replace(plan, paused_at=now, changed_at=now)

    return _kept(_perform(app, name, "pause schedule", changed, by=by, reason=reason, version=version))


def resume(app: Desk, name: str, *, by: str, reason: str, version: int | None = None) -> Plan:
    """Go on from now on; what passed in the pause is not caught up."""

    def changed(plan: Plan, now: int) -> Plan:
        if plan.paused_at is None:
            raise VerbRefused(f"schedule {name!r} is not paused", ids={"schedule": name})
        return resumed(plan, now, timetable(*plan.definition.times).after)

    return _kept(_perform(app, name, "resume schedule", changed, by=by, reason=reason, version=version))


def fire(app: Desk, name: str, *, by: str, reason: str, version: int | None = None) -> Plan:
    """Start a run for this moment, also of a paused or orphaned schedule; its timetable stays as it is."""

    def changed(plan: Plan, now: int) -> Plan:
        if plan.is_busy and plan.definition.overlap != Overlap.ALLOW:
            raise VerbRefused(
                f"run {plan.last_run_id} of schedule {name!r} is {plan.last_run_state}, which is not over",
                hint="wait for it, settle or cancel it, or start the workflow by hand under an id of its own",
                ids={"schedule": name, "run": plan.last_run_id or ""},
            )
        return replace(plan, last_at=now // SECOND * SECOND, changed_at=now)

    def started(plan: Plan, now: int) -> NewRun:
        return new_run(plan, now, now, queue_of(app.workflows, plan))

    return _kept(_perform(app, name, "fire schedule", changed, started, by=by, reason=reason, version=version))


def remove(app: Desk, name: str, *, by: str, reason: str, version: int | None = None) -> None:
    """Remove a schedule that no live worker declares. Its runs stay."""

    def changed(plan: Plan, now: int) -> None:
        del now
        if not plan.is_orphaned:
            raise VerbRefused(
                f"schedule {name!r} is declared by {plan.carriers} live workers, which would declare it again",
                hint="take it out of the code first, or pause it",
                ids={"schedule": name},
            )

    _perform(app, name, "remove schedule", changed, by=by, reason=reason, version=version)


def _perform(
    app: Desk,
    name: str,
    verb: str,
    changed: Callable[[Plan, int], Plan | None],
    started: Callable[[Plan, int], NewRun] | None = None,
    *,
    by: str,
    reason: str,
    version: int | None,
) -> Plan | None:
    def audit(at: int, before: str, after: str, outcome: str = "done", why: str = reason) -> Audit:
        return Audit(at, by, verb, about(name), outcome, why, before, after, namespace=app.namespace)

    def change(plan: Plan, now: int) -> Changed:
        if version is not None and version != plan.version:
            raise ChangedSince(
                "the schedule has changed since you looked at it",
                hint="look again, then decide",
                ids={"schedule": name},
            )
        after = changed(plan, now)
        start = None if started is None else started(plan, now)
        return Changed(after, audit(now, said_of(plan), said_of(after, start)), start)

    try:
        require_a_word(verb, by, reason, ids={"schedule": name})
        require(app, verb, by)
        return app.store.change_schedule(app.namespace, name, change)
    except Misuse as refused:
        found = next((plan for plan in app.store.schedules(app.namespace) if plan.name == name), None)
        why = f"{reason} (refused: {refused.message})"
        app.store.audit(audit(app.store.now(), said_of(found), said_of(found), "refused", why))
        raise


def _kept(plan: Plan | None) -> Plan:
    assert plan is not None, "only removing leaves none"
    return plan
