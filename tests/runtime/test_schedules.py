"""Schedules under a worker and a clock that the test sets: every instant started once, by policy, through redeploys."""

import json
from contextlib import asynccontextmanager
from datetime import datetime

import pytest

from fencepost.core.duration import DAY, HOUR
from fencepost.core.errors import DeclarationError, Misuse, StoreUnavailable, VerbRefused
from fencepost.core.states import RunState
from fencepost.runtime.app import App
from fencepost.runtime.run import Run
from fencepost.runtime.schedule import Schedule
from fencepost.runtime.workflow import workflow
from fencepost.store.open import wall_clock
from tests.runtime.stage import Clock, keyed, once, played, reaches, target, until

ZONE = "Europe/Berlin"


@workflow()
async def report(run: Run, name: str) -> str:
    at = run.scheduled_for
    assert at is not None
    return await run.do(keyed(f"{name} {at.isoformat()}"))


@workflow()
async def risky(run: Run, name: str) -> str:
    return await run.do(once(f"{name} {run.scheduled_for}"))


@workflow()
async def lasting(run: Run, name: str) -> str:
    return await run.wait("go on", str)


WORKFLOWS = [report, risky, lasting]


def nightly(name="nightly", what=report, *, cron="0 3 * * *", **policies):
    return Schedule(name, what, "x", cron=cron, zone=ZONE, **policies)


def clock_at(text):
    """The store's clock, going on from this moment of the zone."""
    clock = Clock()
    set_to(clock, text)
    return clock


def set_to(clock, text):
    clock.offset = round(datetime.fromisoformat(text).timestamp() * 1_000_000) - wall_clock()


@asynccontextmanager
async def working(db, clock, *schedules, **options):
    # The clock is set by days, which must not cost a lease.
    app = App(db, workflows=WORKFLOWS, schedules=schedules, **{"lease": "90d", **options})
    app.clock = clock
    async with app, app.worker():
        yield app


async def plan(app, name="nightly"):
    return next(one for one in await app.schedules.list() if one.name == name)


async def ids(app):
    return sorted(run.id.removeprefix("schedule:") for run in await app.runs(limit=1_000))


async def decided(app, clock, name="nightly"):
    """Wait until every instant up to now is decided; the ids of the runs that there are then."""

    async def is_decided():
        return (await plan(app, name)).next_at > clock()

    await until(is_decided, f"{name} to be decided")
    return await ids(app)


@played
async def test_it_is_started_once_an_instant_and_knows_for_which(db):
    clock = clock_at("2026-11-30T02:59:00+01:00")
    async with working(db, clock, nightly()) as app:
        assert await ids(app) == []
        set_to(clock, "2026-11-30T03:00:00+01:00")
        await reaches_id(app, "schedule:nightly:2026-11-30T03:00:00+01:00")
        set_to(clock, "2026-12-01T03:00:01+01:00")
        await reaches_id(app, "schedule:nightly:2026-12-01T03:00:00+01:00")
    assert target.objects == ["x 2026-11-30T03:00:00+01:00", "x 2026-12-01T03:00:00+01:00"]


async def reaches_id(app, run_id):
    async def is_there():
        return app.store.find("default", run_id) is not None

    await until(is_there, run_id)
    await reaches(app, run_id, RunState.SUCCEEDED)


@played
async def test_after_an_outage_each_policy_starts_what_it_says(db):
    clock = clock_at("2026-11-30T12:00:00+01:00")
    schedules = [
        nightly("all", catch_up="all", overlap="allow", catch_up_within="3d"),
        nightly("last", cron="1 3 * * *", catch_up="last"),
        nightly("none", cron="2 3 * * *", catch_up="none"),
    ]
    async with working(db, clock, *schedules):
        pass
    clock.offset += 5 * DAY
    async with working(db, clock, *schedules) as app:
        for name in ("all", "last", "none"):
            found = await decided(app, clock, name)
        assert found == [
            "all:2026-12-03T03:00:00+01:00",
            "all:2026-12-04T03:00:00+01:00",
            "all:2026-12-05T03:00:00+01:00",
            "last:2026-12-05T03:01:00+01:00",
        ]


@played
async def test_a_clock_that_is_set_back_starts_nothing_again(db):
    clock = clock_at("2026-11-30T02:00:00+01:00")
    async with working(db, clock, nightly()) as app:
        clock.offset += HOUR
        await until(lambda: target.objects, "the first")
        clock.offset -= HOUR
        await until(lambda: _told_of_all(app), "another look")
        clock.offset += HOUR
        assert await decided(app, clock) == ["another", "nightly:2026-11-30T03:00:00+01:00"]
    assert len(target.requests) == 1


async def _told_of_all(app):
    """Another run is lived, so the worker has looked whether something is due."""
    handle = await app.start(lasting, "x", id="another")
    await app.signal("another", "go on", "now", id="once")
    return await handle.result()


@played
async def test_two_workers_start_each_instant_once(db):
    clock = clock_at("2026-11-30T12:00:00+01:00")
    schedules = [
        nightly(f"n{minute}", cron=f"{minute} * * * *", overlap="allow", catch_up="all") for minute in range(8)
    ]
    async with working(db, clock, *schedules) as one, working(db, clock, *schedules) as two:
        clock.offset += 4 * HOUR
        for schedule in schedules:
            await decided(one, clock, schedule.name)
        found = await ids(two)
        for run_id in found:
            await reaches(two, f"schedule:{run_id}", RunState.SUCCEEDED)
    assert len(found) == len(set(found)) >= 32
    assert len(target.requests) == len(set(target.requests)) == len(found)


@played
async def test_a_worker_that_loses_its_lease_goes_on_firing_under_the_next(db):
    clock = clock_at("2026-11-30T02:59:00+01:00")
    async with working(db, clock, nightly(), lease="900ms", margin="100ms") as app:
        first = await plan(app)
        app.host.lease.give_up("the test says so")

        async def is_declared_again():
            return (await plan(app)).declared_by != first.declared_by

        await until(is_declared_again, "a new life")
        clock.offset += HOUR
        await reaches_id(app, "schedule:nightly:2026-11-30T03:00:00+01:00")


@played
async def test_a_worker_whose_schedules_the_ledger_refuses_does_not_begin_and_keeps_no_lease(db, monkeypatch):
    clock = clock_at("2026-11-30T12:00:00+01:00")
    app = App(db, workflows=WORKFLOWS, schedules=[nightly()])
    app.clock = clock

    def unreachable(*_):
        raise StoreUnavailable("not now", hint="later")

    async with app:
        monkeypatch.setattr(app.store, "declare_schedules", unreachable)
        with pytest.raises(StoreUnavailable):
            async with app.worker():
                pass
        assert app.store.leases() == []
        monkeypatch.undo()
        async with app.worker():
            assert (await plan(app)).carriers == 1


# -- overlap ----------------------------------------------------------------------------------------------------------


@played
async def test_while_a_run_is_held_the_next_instants_are_skipped_and_that_is_said(db, caplog):
    clock = clock_at("2026-11-30T02:00:00+01:00")
    target.plan("x 2026-11-30 03:00:00+01:00", "lose")
    async with working(db, clock, nightly(what=risky)) as app:
        clock.offset += HOUR
        await until(lambda: target.objects, "the first")
        await reaches(app, "schedule:nightly:2026-11-30T03:00:00+01:00", RunState.HELD)
        clock.offset += DAY
        assert await decided(app, clock) == ["nightly:2026-11-30T03:00:00+01:00"]
        found = await plan(app)
        assert (found.passed, json.loads(found.note)["state"]) == (1, "held")
    assert "is held and waits for a person" in caplog.text


@played
async def test_what_is_queued_starts_when_the_run_before_has_ended(db):
    clock = clock_at("2026-11-30T02:00:00+01:00")
    async with working(db, clock, nightly(what=lasting, overlap="queue")) as app:
        clock.offset += HOUR
        await reaches_waiting(app, "schedule:nightly:2026-11-30T03:00:00+01:00")
        clock.offset += DAY

        async def waits():
            return (await plan(app)).waits

        await until(waits, "the second to wait")
        assert len(await ids(app)) == 1
        await app.signal("schedule:nightly:2026-11-30T03:00:00+01:00", "go on", "now")
        await reaches_waiting(app, "schedule:nightly:2026-12-01T03:00:00+01:00")
        assert not (await plan(app)).waits


async def reaches_waiting(app, run_id):
    await until(lambda: app.store.find("default", run_id), run_id)
    await reaches(app, run_id, RunState.WAITING)


# -- redeployed -------------------------------------------------------------------------------------------------------


@played
async def test_new_times_count_from_now_on_and_the_worker_says_so(db, caplog):
    clock = clock_at("2026-11-30T12:00:00+01:00")
    async with working(db, clock, nightly()):
        pass
    clock.offset += 2 * DAY
    async with working(db, clock, nightly(cron="0 5 * * *")) as app:
        found = await plan(app)
        assert await ids(app) == []  # what the old times would have started in the meantime is not caught up
        assert datetime.fromtimestamp(found.next_at / 1e6).astimezone().isoformat() > "2026-12-03"
        (row,) = app.store.audits("default", "schedule:nightly")
        assert (row.verb, row.outcome, row.actor.startswith("pid ")) == ("redeclare schedule", "done", True)
        assert [json.loads(said)["cron"] for said in (row.before, row.after)] == ["0 3 * * *", "0 5 * * *"]
        assert (await app.check()).found == []
    assert "new times, 0 5 * * * Europe/Berlin instead of 0 3 * * * Europe/Berlin" in caplog.text


@played
async def test_one_that_is_not_in_the_code_any_more_stays_as_an_orphan_and_starts_nothing(db, caplog):
    clock = clock_at("2026-11-30T12:00:00+01:00")
    async with working(db, clock, nightly(), nightly("kept", cron="1 3 * * *")):
        pass
    async with working(db, clock, nightly("kept", cron="1 3 * * *")) as app:
        clock.offset += DAY
        assert await decided(app, clock, "kept") == ["kept:2026-12-01T03:01:00+01:00"]
        assert (await plan(app)).is_orphaned
        assert "schedule nightly is declared by no live worker" in caplog.text
        await app.schedules.remove("nightly", by="ann", reason="it moved")
        assert [one.name for one in await app.schedules.list()] == ["kept"]


@played
async def test_one_that_was_renamed_fires_once_under_its_new_name_also_beside_the_old_workers(db):
    clock = clock_at("2026-11-30T12:00:00+01:00")
    async with working(db, clock, nightly()), working(db, clock, nightly("renamed")) as new:
        clock.offset += DAY
        assert await decided(new, clock, "renamed") == ["renamed:2026-12-01T03:00:00+01:00"]
        await reaches(new, "schedule:renamed:2026-12-01T03:00:00+01:00", RunState.SUCCEEDED)
        assert [(one.name, one.formerly) for one in await new.schedules.list()] == [("renamed", "nightly")]
    async with working(db, clock, nightly()) as rolled_back:
        clock.offset += DAY
        assert len(await decided(rolled_back, clock, "renamed")) == 2
        await reaches(rolled_back, "schedule:renamed:2026-12-02T03:00:00+01:00", RunState.SUCCEEDED)
    assert len(target.requests) == 2


@played
async def test_the_times_of_the_newest_code_return_when_an_old_worker_has_ended(db):
    clock = clock_at("2026-11-30T12:00:00+01:00")
    old, new = nightly(), nightly(cron="0 5 * * *")
    async with working(db, clock, new) as app:
        async with working(db, clock, old):  # of the old code, started again in the middle of a rolling deploy
            assert (await plan(app)).definition.cron == "0 3 * * *"
        clock.offset += DAY

        async def is_new():
            return (await plan(app)).definition.cron == "0 5 * * *"

        await until(is_new, "the new times")
        assert await ids(app) == []


# -- verbs -----------------------------------------------------------------------------------------------------------


@played
async def test_a_paused_schedule_starts_nothing_and_goes_on_from_now_on(db):
    clock = clock_at("2026-11-30T12:00:00+01:00")
    async with working(db, clock, nightly(), nightly("other", cron="1 3 * * *")) as app:
        await app.schedules.pause("nightly", by="ann", reason="the bank is closed")
        clock.offset += DAY
        await decided(app, clock, "other")
        await app.schedules.resume("nightly", by="ann", reason="it is open")
        assert await decided(app, clock) == ["other:2026-12-01T03:01:00+01:00"]
        rows = app.store.audits("default", "schedule:nightly")
        assert [(row.verb, row.actor, row.reason) for row in rows] == [
            ("pause schedule", "ann", "the bank is closed"),
            ("resume schedule", "ann", "it is open"),
        ]


@played
async def test_fired_by_hand_it_starts_one_run_for_now_and_keeps_its_times(db):
    clock = clock_at("2026-11-30T12:00:00+01:00")
    async with working(db, clock, nightly(what=lasting)) as app:
        before = await plan(app)
        fired = await app.schedules.fire("nightly", by="ann", reason="the auditor asks")
        assert fired.next_at == before.next_at
        assert fired.last_run_id.startswith("schedule:nightly:2026-11-30T12:0")
        with pytest.raises(VerbRefused, match="which is not over"):
            await app.schedules.fire("nightly", by="ann", reason="again")
        with pytest.raises(VerbRefused, match="has changed since"):
            await app.schedules.pause("nightly", by="ann", reason="x", version=before.version)
        rows = app.store.audits("default", "schedule:nightly")
        assert [(row.verb, row.outcome) for row in rows] == [
            ("fire schedule", "done"),
            ("fire schedule", "refused"),
            ("pause schedule", "refused"),
        ]
        assert json.loads(rows[0].after)["started"] == fired.last_run_id


@pytest.mark.parametrize(
    ("verb", "error", "says"),
    [
        ("resume", VerbRefused, "is not paused"),
        ("remove", VerbRefused, "is declared by 1 live"),
        ("fire", Misuse, "needs who does it and why"),
    ],
)
@played
async def test_a_verb_that_does_not_apply_is_refused_and_audited(db, verb, error, says):
    clock = clock_at("2026-11-30T12:00:00+01:00")
    async with working(db, clock, nightly()) as app:
        before = await plan(app)
        with pytest.raises(error, match=says):
            await getattr(app.schedules, verb)("nightly", by="ann", reason=" " if verb == "fire" else "x")
        assert await plan(app) == before
        assert [row.outcome for row in app.store.audits("default", "schedule:nightly")] == ["refused"]


def test_blocking_callers_have_the_same_verbs(db):
    clock = clock_at("2026-11-30T12:00:00+01:00")
    app = App(db, workflows=WORKFLOWS, schedules=[nightly()])
    app.clock = clock
    with app.sync:
        with app.sync.worker():
            assert app.sync.schedules.pause("nightly", by="ann", reason="x").paused_at is not None
        assert [one.name for one in app.sync.schedules.list()] == ["nightly"]


# -- declared --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("declare", "says"),
    [
        (lambda: nightly(overlap="never"), "overlap of schedule 'nightly' is 'never'"),
        (lambda: nightly(catch_up="some"), "catch_up of schedule 'nightly' is 'some'"),
        (lambda: nightly(catch_up_within="90d"), "catches up within 90d"),
        (lambda: nightly(what=print), "which is no workflow"),
        (lambda: App("x", workflows=[], schedules=[nightly()]), "not one of this app's"),
        (lambda: App("x", workflows=WORKFLOWS, schedules=["nightly"]), "is no schedule"),
        (lambda: App("x", workflows=WORKFLOWS, schedules=[nightly(), nightly(cron="1 3 * * *")]), "two schedules"),
        (lambda: App("x", workflows=WORKFLOWS, schedules=[nightly(), nightly("twin")]), "the same workflow"),
    ],
)
def test_what_cannot_be_meant_is_refused_when_it_is_declared(declare, says):
    with pytest.raises(DeclarationError, match=says):
        declare()


@played
async def test_an_app_without_schedules_asks_and_writes_nothing_of_them(db):
    asked = []
    app = App(db, workflows=WORKFLOWS)
    async with app:
        store = app.store
        for name in ("declare_schedules", "due_schedules", "fire_schedule"):
            setattr(store, name, lambda *_, name=name: asked.append(name))
        async with app.worker():
            await _told_of_all(app)
    assert asked == []
