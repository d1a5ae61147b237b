"""What a schedule does when its instant has come, or when the code that declares it has changed.

A schedule starts a run at each instant of its timetable. Which of the instants that have passed are started after an
outage says its *catch-up* policy, what happens while the run before is not over its *overlap* policy. A held run is not
over: nobody knows yet whether what it did has happened. Every decision moves `next_at` forward and never back, so that
a clock that is set back finds nothing due.

When a cron line falls due is an argument here (`After`); `runtime.timetable` knows zones and daylight saving.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, NamedTuple

from fencepost.core.duration import DAY, MINUTE
from fencepost.core.identity import canonical
from fencepost.core.states import FINAL_RUN_STATES, RunState

After = Callable[[int], int]
"""The first instant of a timetable that is later than this one; microseconds since the Unix epoch."""

LATE_MAX: Final = MINUTE
"""An instant that is found due so late was missed: no worker was there for it."""

STARTS_MAX: Final = 100
"""So many runs of one schedule are started in one commit; the rest of a long outage follows in the next."""

CATCH_UP_WITHIN_MAX: Final = 31 * DAY
"""Instants that are older are never started: nobody wants a month of them, and each must be found."""


class Overlap(StrEnum):
    """What becomes of an instant while the run before is not over: left out, started when it is over, or at once."""

    SKIP = "skip"
    QUEUE = "queue"
    ALLOW = "allow"


class CatchUp(StrEnum):
    """Which instants are started of those that passed while no worker was there."""

    ALL = "all"
    LAST = "last"
    NONE = "none"


class Definition(NamedTuple):
    """What the code says of a schedule; `catch_up_within` in microseconds."""

    workflow: str
    workflow_version: int
    principal: str | None
    input: str
    fingerprint: str
    cron: str
    zone: str
    overlap: str
    catch_up: str
    catch_up_within: int

    @property
    def times(self) -> tuple[str, str]:
        """When it fires."""
        return self.cron, self.zone

    @property
    def deed(self) -> tuple[object, ...]:
        """What it does and when, under whatever name and policies."""
        return self.workflow, self.principal, self.fingerprint, *self.times


@dataclass(frozen=True, slots=True)
class Plan:
    """A schedule as the ledger holds it: a definition, and how far it has come.

    `next_at` is the first instant that is not decided yet; with `waits` it was due already, and the run before was not
    over. `last_at` is the instant that `last_run` stands for. `passed` counts the instants that were not started, and
    `note` says in JSON why the last of them was not, or what else has changed.
    """

    no: int
    namespace: str
    name: str
    definition: Definition
    next_at: int
    declared_by: str
    declared_at: int
    version: int = 0
    changed_at: int = 0
    formerly: str | None = None
    last_at: int | None = None
    last_run: int | None = None
    waits: bool = False
    passed: int = 0
    note: str | None = None
    paused_at: int | None = None
    last_run_id: str | None = None
    last_run_state: RunState | None = None
    carriers: int = 0
    """How many live workers declare it."""
    is_declarer_live: bool = False
    """Whether the worker by whose code it stands is one of them."""

    @property
    def is_busy(self) -> bool:
        """Whether the run that it started last is not over."""
        return self.last_run_state is not None and self.last_run_state not in FINAL_RUN_STATES

    @property
    def is_orphaned(self) -> bool:
        """Whether no live worker declares it, so that nobody fires it."""
        return self.carriers == 0

    def names(self) -> set[str]:
        """The names under which code may know it."""
        return {self.name} if self.formerly is None else {self.name, self.formerly}


@dataclass(frozen=True, slots=True)
class Firing:
    """What is to be done now: runs to start, oldest first, and the plan as it is afterwards."""

    starts: tuple[int, ...]
    plan: Plan
    waits: bool
    """Whether the next instant waits for the last of these runs, or for the one before if there are none."""


def fire(plan: Plan, now: int, after: After) -> Firing:
    """Decide every instant of a plan up to `now`; its `next_at` has come."""
    assert plan.next_at <= now, "only what is due is fired"
    definition = plan.definition
    oldest = now - definition.catch_up_within
    due, next_at = _due(plan, now, oldest, after)
    chosen = _caught_up(CatchUp(definition.catch_up), due, now, waited=plan.waits)
    passed = len(due) - len(chosen)
    too_old = plan.next_at < oldest and not plan.waits
    why = "some were too old" if too_old else "nobody was there" if passed else None
    waits = False
    if definition.overlap == Overlap.SKIP and chosen:
        kept = [] if plan.is_busy else chosen[-1:]
        why = "the run before was not over" if len(kept) < len(chosen) else why
        passed, chosen = passed + len(chosen) - len(kept), kept
    elif definition.overlap == Overlap.QUEUE and chosen:
        first = 0 if plan.is_busy else 1
        waits = len(chosen) > first
        next_at = chosen[first] if waits else next_at
        chosen = chosen[:first]
    before = {"run": plan.last_run_id, "state": str(plan.last_run_state)} if plan.is_busy else {}
    note = plan.note if why is None else noted("passed", now, why=why, passed=passed, **before)
    if waits and plan.is_busy:
        note = noted("waits", now, **before)
    moved = replace(
        plan, next_at=next_at, waits=waits and plan.is_busy, passed=plan.passed + passed, note=note, changed_at=now
    )
    return Firing(tuple(chosen), moved, waits)


def _due(plan: Plan, now: int, oldest: int, after: After) -> tuple[list[int], int]:
    """The instants to decide on, oldest first, and the first one that is not among them."""
    # What waits for its run was not missed: it stays due however long that takes.
    due = [plan.next_at] if plan.waits or plan.next_at >= oldest else []
    instant = after(max(plan.next_at, oldest - 1))
    while instant <= now:
        if plan.definition.catch_up == CatchUp.ALL and len(due) == STARTS_MAX:
            break
        due.append(instant)
        instant = after(instant)
    return due, instant


def _caught_up(policy: CatchUp, due: list[int], now: int, *, waited: bool) -> list[int]:
    if policy is CatchUp.ALL:
        return due
    if policy is CatchUp.NONE and not waited:
        return [instant for instant in due[-1:] if now - instant <= LATE_MAX]
    return due[-1:]


def run_id(name: str, instant: str) -> str:
    """The id of the run that stands for an instant, which is written as the zone's clocks show it, with the offset."""
    return f"schedule:{name}:{instant}"


_INSTANT: Final = re.compile(r"schedule:.+:(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d\d:\d\d)")


def instant_in(run_id: str) -> datetime | None:
    """The instant that a run stands for, by its id; None: no schedule has started it."""
    found = _INSTANT.fullmatch(run_id)
    return None if found is None else datetime.fromisoformat(found[1])


def noted(kind: str, at: int, **said: object) -> str:
    """The note of a plan: what happened to it last that nobody would see from its columns."""
    return canonical({"kind": kind, "at": at, **said})


def note_of(plan: Plan) -> dict[str, Any]:
    """A plan's note as data; empty without one."""
    return {} if plan.note is None else dict(json.loads(plan.note))


# -- what the code says ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Declared:
    """A schedule as a worker that begins declares it; `next_at` is the first instant from now on."""

    name: str
    definition: Definition
    next_at: int


def known_as(declared: Declared, plans: Sequence[Plan], others: Collection[str]) -> Plan | None:
    """The plan that a declared schedule is: by its name, by its former one, or because it does the very same.

    A new name for the same workflow, input and times is the old schedule renamed, unless its code (`others`) declares
    the old name beside it: two rows would start everything twice for as long as workers of both kinds live.
    """
    by_name = next((plan for plan in plans if plan.name == declared.name), None)
    if by_name is not None:
        return by_name
    formerly = next((plan for plan in plans if plan.formerly == declared.name and plan.name not in others), None)
    if formerly is not None:
        return formerly
    twins = (plan for plan in plans if plan.definition.deed == declared.definition.deed)
    return next((plan for plan in twins if not plan.names() & set(others)), None)


def redeclared(plan: Plan, declared: Declared, *, lease: str, began_at: int, now: int) -> Plan:
    """The plan once a worker that began at `began_at` has declared it.

    The worker that began last is right while it lives, so that the old ones of a rolling deploy do not take it back.
    New times count from now on: what the old ones would have started is not caught up.
    """
    if plan.is_declarer_live and plan.declared_at > began_at:
        return plan
    renamed = declared.name not in plan.names()
    by = replace(
        plan,
        name=declared.name if renamed else plan.name,
        formerly=plan.name if renamed else plan.formerly,
        definition=declared.definition,
        declared_by=lease,
        declared_at=began_at,
        changed_at=now,
    )
    if renamed:
        by = replace(by, note=noted("renamed", now, name=plan.name))
    if plan.definition.times == declared.definition.times:
        # What lies ahead was found under the zone's rules of then, which governments change.
        is_ahead = plan.next_at > now and declared.next_at > (plan.last_at or 0)
        return replace(by, next_at=declared.next_at) if is_ahead else by
    was = " ".join(plan.definition.times)
    return replace(by, next_at=declared.next_at, waits=False, note=noted("times changed", now, was=was))


def resumed(plan: Plan, now: int, after: After) -> Plan:
    """The plan without its pause, from now on: what passed meanwhile was meant not to start."""
    return replace(plan, paused_at=None, next_at=after(now), waits=False, note=None, changed_at=now)
