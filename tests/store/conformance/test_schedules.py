"""Schedules in the ledger: declared, fired by one of many, waiting for a run, and gone only when a person says so."""

from dataclasses import replace

import pytest

from fencepost.core.errors import Misuse
from fencepost.core.schedule import Definition, Firing, Plan
from fencepost.core.states import RunState
from fencepost.store.api import Changed
from tests.store import build
from tests.store.conftest import Ledger

HOUR = 3600 * build.SECOND
HOURLY = Definition("approve", 1, "user-7", '{"n":1}', "print", "0 * * * *", "UTC", "queue", "all", HOUR)
DUE = build.NOW + HOUR


def declare(ledger: Ledger, *names: str, lease: str = "lease-1") -> list[Plan]:
    if lease not in {found.id for found in ledger.store.leases()}:
        ledger.store.take_lease(build.lease(lease, at=ledger.now, ttl=9 * HOUR))

    def declaration(plans: list[Plan], now: int) -> list[Plan]:
        known = {plan.name: plan for plan in plans}
        return [known.get(name) or Plan(0, "default", name, HOURLY, DUE, lease, now, changed_at=now) for name in names]

    return ledger.store.declare_schedules("default", lease, declaration)


def firing(plan: Plan, *, waits: bool = False) -> Firing:
    return Firing((plan.next_at,), replace(plan, next_at=plan.next_at + HOUR), waits)


def start(plan: Plan) -> object:
    return build.new_run(f"schedule:{plan.name}:{plan.next_at}")


def wake(ledger: Ledger, *names: str) -> int | None:
    return ledger.store.next_wake(build.WORKFLOWS, namespace="default", margin=0, schedules=names)


def test_a_schedule_is_found_as_it_was_declared(ledger: Ledger) -> None:
    (found,) = declare(ledger, "nightly")
    assert found.definition == HOURLY
    assert (found.name, found.next_at, found.last_at, found.version) == ("nightly", DUE, None, 0)
    assert (found.carriers, found.is_declarer_live, found.is_orphaned) == (1, True, False)
    assert declare(ledger, "nightly", lease="lease-2")[0] == replace(found, carriers=2)


def test_a_worker_is_woken_for_its_own_schedules_and_for_no_others(ledger: Ledger) -> None:
    declare(ledger, "nightly", "other")
    assert wake(ledger) is None
    assert wake(ledger, "unheard of") is None
    assert wake(ledger, "nightly") == DUE


def test_one_of_two_who_find_it_due_starts_its_run(ledger: Ledger) -> None:
    declare(ledger, "nightly")
    other = ledger.another()
    (seen,) = ledger.store.due_schedules("default", ["nightly"], DUE)
    (too,) = other.due_schedules("default", ["nightly"], DUE)

    started = ledger.store.fire_schedule(firing(seen), [start(seen)])
    assert other.fire_schedule(firing(too), [start(too)]) is None

    assert started is not None
    assert [one.is_new for one in started] == [True]
    (plan,) = ledger.store.schedules("default")
    assert (plan.next_at, plan.last_at, plan.version) == (DUE + HOUR, DUE, 1)
    assert (plan.last_run_id, plan.last_run_state) == (started[0].run.id, RunState.READY)
    assert ledger.store.due_schedules("default", ["nightly"], DUE) == []


def test_a_run_that_was_there_already_is_not_started_again(ledger: Ledger) -> None:
    (plan,) = declare(ledger, "nightly")
    ledger.store.start_run(start(plan))
    started = ledger.store.fire_schedule(firing(plan), [start(plan)])
    assert started is not None
    assert [one.is_new for one in started] == [False]


def test_a_commit_that_is_interrupted_has_neither_moved_nor_started(ledger: Ledger) -> None:
    class Interrupted(Exception):
        pass

    def interrupt(point: str) -> None:
        if point == "before:run:nothing:release":
            raise Interrupted

    (plan,) = declare(ledger, "nightly")
    with pytest.raises(Interrupted):
        ledger.another(probe=interrupt).fire_schedule(firing(plan), [start(plan)])
    assert ledger.store.schedules("default") == [plan]
    assert ledger.store.find("default", start(plan).id) is None


def test_what_waits_for_a_run_is_due_when_that_has_ended(ledger: Ledger) -> None:
    (plan,) = declare(ledger, "nightly")
    ledger.store.fire_schedule(firing(plan, waits=True), [start(plan)])
    ledger.now = DUE + HOUR
    assert ledger.store.due_schedules("default", ["nightly"], ledger.now) == []

    (run,) = ledger.claim()
    ledger.do(run, build.move_run(run, "succeed", "succeeded"))

    assert wake(ledger, "nightly") == DUE + HOUR
    (due,) = ledger.store.due_schedules("default", ["nightly"], ledger.now)
    assert (due.waits, due.last_run_state) == (True, RunState.SUCCEEDED)


def test_what_waits_for_a_run_of_several_turns_is_due_when_the_last_of_them_has_ended(ledger: Ledger) -> None:
    (plan,) = declare(ledger, "nightly")
    ledger.store.fire_schedule(firing(plan, waits=True), [start(plan)])
    ledger.now = DUE + HOUR
    (run,) = ledger.claim()
    ledger.do(run, build.move_run(run, "continue", "continued"), build.next_turn(run, lease=run.lease))

    assert ledger.store.due_schedules("default", ["nightly"], ledger.now) == []
    assert wake(ledger, "nightly") != DUE + HOUR
    assert ledger.store.schedules("default")[0].last_run_state is RunState.RUNNING
    following = ledger.store.find("default", run.id)
    ledger.do(following, build.move_run(following, "succeed", "succeeded"))

    assert wake(ledger, "nightly") == DUE + HOUR
    (due,) = ledger.store.due_schedules("default", ["nightly"], ledger.now)
    assert (due.waits, due.last_run_state) == (True, RunState.SUCCEEDED)


def test_it_is_due_under_its_former_name_too(ledger: Ledger) -> None:
    (plan,) = declare(ledger, "nightly")

    def renamed(plans: list[Plan], now: int) -> list[Plan]:
        return [replace(plans[0], name="nightly-report", formerly="nightly", changed_at=now)]

    (found,) = ledger.store.declare_schedules("default", "lease-1", renamed)
    assert (found.no, found.names()) == (plan.no, {"nightly", "nightly-report"})
    for name in found.names():
        assert wake(ledger, name) == DUE


def test_its_former_name_is_another_schedules_once_that_is_declared_beside_it(ledger: Ledger) -> None:
    declare(ledger, "nightly")

    def renamed(plans: list[Plan], now: int) -> list[Plan]:
        return [replace(plans[0], name="nightly-report", formerly="nightly", changed_at=now)]

    ledger.store.declare_schedules("default", "lease-1", renamed)
    declare(ledger, "nightly", "nightly-report")

    due = ledger.store.due_schedules("default", ["nightly"], DUE)
    assert [plan.name for plan in due] == ["nightly"]


def test_one_that_no_live_worker_declares_stays_and_is_an_orphan(ledger: Ledger) -> None:
    declare(ledger, "nightly")
    ledger.store.end_lease("lease-1", now=ledger.now)
    (found,) = ledger.store.schedules("default")
    assert (found.is_orphaned, found.is_declarer_live, found.next_at) == (True, False, DUE)
    adopted = declare(ledger, "nightly", lease="lease-2")[0]
    assert (adopted.carriers, adopted.no) == (1, found.no)


def test_a_persons_change_is_written_with_its_audit_row_and_beats_a_firing_that_saw_it_before(ledger: Ledger) -> None:
    (plan,) = declare(ledger, "nightly")
    written = build.audit("pause schedule", run_id="schedule:nightly")

    def pause(plan: Plan, now: int) -> Changed:
        return Changed(replace(plan, paused_at=now), written)

    paused = ledger.store.change_schedule("default", "nightly", pause)

    assert paused is not None
    assert paused.paused_at == ledger.now
    assert ledger.store.fire_schedule(firing(plan), [start(plan)]) is None
    assert wake(ledger, "nightly") is None
    assert [row.verb for row in ledger.store.audits("default", "schedule:nightly")] == ["pause schedule"]


def test_a_removed_schedule_is_gone_and_its_runs_stay(ledger: Ledger) -> None:
    (plan,) = declare(ledger, "nightly")
    ledger.store.fire_schedule(firing(plan), [start(plan)])

    def remove(_: Plan, __: int) -> Changed:
        return Changed(None, build.audit("remove schedule", run_id="schedule:nightly"))

    assert ledger.store.change_schedule("default", "nightly", remove) is None
    assert ledger.store.schedules("default") == []
    assert ledger.store.find("default", start(plan).id) is not None
    with pytest.raises(Misuse, match="there is no schedule 'nightly'"):
        ledger.store.change_schedule("default", "nightly", remove)


def test_a_change_that_is_refused_changes_nothing(ledger: Ledger) -> None:
    (plan,) = declare(ledger, "nightly")

    def refuse(_: Plan, __: int) -> Changed:
        raise Misuse("no", hint="no")

    with pytest.raises(Misuse):
        ledger.store.change_schedule("default", "nightly", refuse)
    assert ledger.store.schedules("default") == [plan]
    assert ledger.store.audits(None, None) == []
