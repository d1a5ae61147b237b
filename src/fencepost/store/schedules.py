"""The store's verbs about schedules: declared by workers, fired by whoever finds one due, changed by people.

A firing moves the schedule under a compare-and-set and starts its runs in the same commit, so that two workers, or a
kill between the two, start nothing twice and lose nothing. What is started, and what a declaration makes of the rows
that there are, is decided in `core.schedule`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from fencepost.core.errors import NotThere
from fencepost.core.schedule import Firing, Plan
from fencepost.store import faultpoints, rows
from fencepost.store.api import Change, Declaration, NewRun, Redeclared, Started
from fencepost.store.statements import Statements, Work
from fencepost.store.verbs import Verbs, whole


class ScheduleVerbs(Verbs):
    """What both stores do alike with schedules."""

    @whole
    def schedules(self, namespace: str) -> list[Plan]:
        """See `Store.schedules`."""
        with self._reading() as reading:
            return _plans(reading, namespace, self.now())

    @whole
    def due_schedules(self, namespace: str, names: Sequence[str], now: int) -> list[Plan]:
        """See `Store.due_schedules`."""
        found = self._read("due_schedules", namespace=namespace, names=json.dumps(names), now=now)
        return [rows.plan(row) for row in found]

    @whole
    def declare_schedules(
        self, namespace: str, lease: str, declaration: Declaration, audit: Redeclared | None = None
    ) -> list[Plan]:
        """See `Store.declare_schedules`."""
        now = self.now()
        with self._writing() as work:
            work.lock("lock_schedules")
            before = _plans(work, namespace, now)
            plans = declaration(before, now)
            work.change("forget_carriers")
            for plan in plans:
                if plan not in before:
                    self._write_plan(work, plan)
                    work.change("take_name", namespace=namespace, name=plan.name)
                    self._audit_change(work, _as_it_was(before, plan), plan, audit)
            by_name = {plan.name: plan.no for plan in _plans(work, namespace, now)}
            for plan in plans:
                work.change("carry_schedule", schedule=by_name[plan.name], lease=lease)
            work.announce()
            return _plans(work, namespace, now)

    @whole
    def fire_schedule(self, firing: Firing, starts: Sequence[NewRun]) -> list[Started] | None:
        """See `Store.fire_schedule`."""
        with self._writing() as work:
            if not self._write_plan(work, firing.plan):
                work.was_in_vain()
                return None
            if not starts:
                return []
            if self.probe is not None:
                work.passing([faultpoints.of_start(new) for new in starts])
            started = [self._start(work, new) for new in starts]
            last, plan = started[-1].run, firing.plan
            work.change(
                "note_started", no=plan.no, last_at=firing.starts[-1], last_run=last.no, waits=int(firing.waits)
            )
            return started

    @whole
    def change_schedule(self, namespace: str, name: str, change: Change) -> Plan | None:
        """See `Store.change_schedule`."""
        now = self.now()
        with self._writing() as work:
            work.lock("lock_schedules")
            before = _named(_plans(work, namespace, now), name)
            plan, audit, start = change(before, now)
            if plan is None:
                work.change("remove_carriers", no=before.no)
                work.change("remove_schedule", no=before.no)
            else:
                self._write_plan(work, plan)
            if plan is not None and start is not None:
                run = self._start(work, start).run
                work.change("note_started", no=plan.no, last_at=plan.last_at, last_run=run.no, waits=int(plan.waits))
            self._append(work, audit)
            work.announce()
            return None if plan is None else _named(_plans(work, namespace, now), plan.name)

    def _audit_change(self, work: Work, before: Plan | None, plan: Plan, audit: Redeclared | None) -> None:
        row = None if before is None or audit is None else audit(before, plan)
        if row is not None:
            self._append(work, row)

    def _write_plan(self, work: Work, plan: Plan) -> bool:
        """Insert a plan without a number, or write one that is still as it was seen; whether it was."""
        name = "move_schedule" if plan.no else "add_schedule"
        values = plan.definition._asdict() | {
            column: getattr(plan, column) for column in self.queries[name].parameters if hasattr(plan, column)
        }
        if plan.no:
            values["waits"] = int(plan.waits)
        return work.change(name, **values) == 1


def _plans(reading: Statements, namespace: str, now: int) -> list[Plan]:
    return [rows.plan(row) for row in reading.execute("all_schedules", namespace=namespace, now=now)]


def _as_it_was(before: list[Plan], plan: Plan) -> Plan | None:
    return next((one for one in before if one.no == plan.no), None)


def _named(plans: list[Plan], name: str) -> Plan:
    found = next((plan for plan in plans if plan.name == name), None)
    if found is None:
        known = ", ".join(plan.name for plan in plans) or "none"
        raise NotThere(f"there is no schedule {name!r}", hint=f"there are: {known}", ids={"schedule": name})
    return found
