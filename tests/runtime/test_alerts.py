"""Each alert fires for what it is about, names it, and is quiet on a ledger in which everything is well."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from fencepost.core.alerts import ALERTS, thresholds
from fencepost.core.containment import BREAKER, Containment, Kind, mark
from fencepost.core.duration import DAY, HOUR, MINUTE
from fencepost.core.errors import DeclarationError, SecondPersonNeeded
from fencepost.core.permissions import Permissions
from fencepost.core.states import RunState
from fencepost.effects.answers import Conflicting
from fencepost.runtime import restoring
from fencepost.runtime.alerting import MEASURES, readings
from fencepost.runtime.app import App
from fencepost.runtime.containing import audit
from fencepost.runtime.run import Run
from fencepost.runtime.schedule import Schedule
from fencepost.runtime.workflow import workflow
from tests.runtime.stage import (
    Clock,
    Gate,
    asked,
    expire,
    lose,
    once,
    operation,
    played,
    reaches,
    target,
    until,
    working,
)  # fmt: skip
from tests.store.tamper import tampering


@workflow(name="one")
async def one(run: Run) -> str:
    return await run.do(once("a"))


@workflow(name="look")
async def look(run: Run) -> str:
    return await run.do(asked("a"))


@workflow(name="breaks")
async def breaks(run: Run) -> str:
    await run.do(once("a"))
    raise ValueError("and then it failed")


@workflow(name="breaks later")
async def breaks_later(run: Run) -> str:
    await run.do(once("a"))
    await run.do(once("b"), item="b")
    raise ValueError("and then it failed")


@workflow(name="other")
async def other(run: Run) -> None:
    """What another deployment carries."""


async def held(db: str, clock: Clock) -> None:
    target.plan("a", "lose")
    async with working(db, one, clock=clock) as app:
        await app.start(one, id="r")
        await reaches(app, "r", RunState.HELD)


async def unknown(db: str, clock: Clock) -> None:
    await held(db, clock)
    clock.offset += 2 * HOUR


async def in_conflict(db: str, clock: Clock) -> None:
    target.plan("a", "lose")
    target.answers.append(Conflicting(2))
    async with working(db, look, clock=clock) as app:
        await app.start(look, id="r")
        await reaches(app, "r", RunState.HELD)
        await app.terminate("r", by="ann", reason="so that it has ended")


async def badly_compensated(db: str, clock: Clock) -> None:
    target.plan("undo a", "refuse")
    async with working(db, breaks, clock=clock) as app:
        await app.start(breaks, id="r")
        await reaches(app, "r", RunState.FAILED)
        await app.compensate("r", by="ann", reason="it should not stand")
        await reaches(app, "r", RunState.COMPENSATION_FAILED, RunState.HELD)


async def lost_worker(db: str, clock: Clock) -> None:
    gate = Gate()
    target.plan("a", gate)
    async with working(db, one, clock=clock) as app:
        await app.start(one, id="r")
        await gate.reached.wait()
        expire(app)
        await fires("workers lost", db, clock, "pid ")
        lose(app)
        await fires("lease losses", db, clock, "pid ", **{"lease losses": "0"})
        async with working(db, one, clock=clock) as heir:
            await reaches(heir, "r", RunState.HELD)
            gate.opened.set()
            await until(lambda: reported(heir), "the late reply")
        await fires("stale writes", db, clock, "r", **{"stale writes": "0"})


async def reported(app: App) -> bool:
    return any(not seen.current for seen in (await operation(app, "r", "once")).observations)


async def unclaimed(db: str, clock: Clock) -> None:
    async with App(db, workflows=[one]) as app:
        app.clock = clock
        await app.start(one, id="r")
    clock.offset += 10 * MINUTE


async def shut(db: str, clock: Clock) -> None:
    async with App(db, workflows=[]) as app:
        app.clock = clock
        now, wanted = app.store.now(), mark("default", Kind.CREDENTIAL, "acct-7")
        opened = Containment(wanted, "default", Kind.CREDENTIAL, "acct-7", BREAKER, "401", now, MINUTE, now + MINUTE)
        app.store.contain(opened, audit(opened, "contain", by=BREAKER, reason="401", after=opened))
        clock.offset += 4 * MINUTE
        assert not any(one.fires for one in readings(app.store, "default"))
        await app.contain("target", "bank", by="ann", reason="it books twice")  # no breaker, and no day has passed
    clock.offset += 4 * MINUTE


async def forgotten(db: str, clock: Clock) -> None:
    async with App(db, workflows=[]) as app:
        app.clock = clock
        await app.contain("target", "bank", by="ann", reason="it books twice")
        clock.offset += 23 * HOUR
        assert not any(one.fires for one in readings(app.store, "default"))
    clock.offset += 2 * HOUR


async def missed(db: str, clock: Clock) -> None:
    async with working(db, other, clock=clock, schedules=[Schedule("nightly", other, cron="0 3 * * *")]):
        pass
    clock.offset += 2 * DAY


async def proposed(db: str, clock: Clock) -> None:
    await held(db, clock)
    async with App(db, workflows=[], permissions=Permissions({"ann": "operator"}, two_persons=["cancel"])) as app:
        with pytest.raises(SecondPersonNeeded):
            await app.cancel("r", by="ann", reason="she says so")
    clock.offset += 2 * HOUR


async def tampered(db: str, clock: Clock) -> None:
    await held(db, clock)
    async with App(db, workflows=[]) as app:
        await app.terminate("r", by="ann", reason="tidy")
    with tampering(db) as inside:
        inside.do("UPDATE audit SET reason = 'nothing'")


async def restored(db: str, clock: Clock) -> None:
    await held(db, clock)
    async with App(db, workflows=[]) as app:
        restoring.restored(app, by="ann", reason="from yesterday's backup")
    clock.offset += MINUTE


async def set_back(db: str, clock: Clock) -> None:
    await held(db, clock)
    clock.offset -= HOUR


STAGES: dict[str, tuple[Callable[[str, Clock], Awaitable[None]], str]] = {
    "unknown effects": (unknown, "r once"),
    "conflicts": (in_conflict, "r asked"),
    "held runs": (held, "1 by unknown outcome"),
    "compensation failed": (badly_compensated, "r"),
    "queue age": (unclaimed, "r"),
    "open breakers": (shut, "credential acct-7"),
    "containments": (forgotten, "target bank by ann"),
    "schedules": (missed, "nightly"),
    "proposals": (proposed, "cancel r"),
    "audit": (tampered, "row 1: changed"),
    "lost time": (restored, "epoch "),
    "clock": (set_back, ""),
}
ELSEWHERE = {"workers lost", "lease losses", "stale writes", "versions", "journal latency"}


async def fires(name: str, db: str, clock: Clock, says: str, **own: str) -> None:
    """Ask as another process does."""
    app = App(db, workflows=[])
    app.clock = clock
    async with app:
        (found,) = readings(app.store, "default", thresholds=thresholds(own), names=[name])
        assert (found.fires, found.says[: len(says)]) == (True, says), found
        (elsewhere,) = readings(app.store, "another", thresholds=thresholds(own), names=[name])
        assert elsewhere.fires is (name in ("lease losses", "audit", "lost time", "clock"))


def test_every_alert_is_measured_and_played() -> None:
    assert set(MEASURES) == set(ALERTS) == set(STAGES) | ELSEWHERE


@pytest.mark.parametrize("name", STAGES)
@played
async def test_an_alert_fires_and_names_what_it_is_about(db, name):
    clock = Clock()
    play, says = STAGES[name]
    await play(db, clock)
    await fires(name, db, clock, says)


@played
async def test_a_run_that_was_compensated_in_part_calls_somebody_too(db):
    target.plan("undo a", "refuse")
    clock = Clock()
    async with working(db, breaks_later, clock=clock) as app:
        await app.start(breaks_later, id="half")
        await reaches(app, "half", RunState.FAILED)
        await app.compensate("half", by="ann", reason="it should not stand")
        await reaches(app, "half", RunState.PARTLY_COMPENSATED)
    await fires("compensation failed", db, clock, "half")


@played
async def test_a_worker_that_is_lost_comes_back_and_finds_its_writes_refused(db):
    await lost_worker(db, Clock())


@played
async def test_a_version_that_no_live_worker_carries_is_named(db):
    clock = Clock()
    async with App(db, workflows=[one]) as app:
        await app.start(one, id="r")
        assert all(not one.fires for one in readings(app.store, "default", names=["versions"]))
    async with working(db, other, clock=clock):
        await fires("versions", db, clock, "one version 1: 1, such as r")


@played
async def test_a_journal_that_takes_its_time_is_said_to(db):
    async with App(db, workflows=[]) as app:
        (found,) = readings(app.store, "default", thresholds={"journal latency": 0}, names=["journal latency"])
        assert found.fires
        assert 0 < found.value < 10 * MINUTE


@played
async def test_a_ledger_in_which_all_is_well_calls_nobody(db):
    async with working(db, one) as app:
        assert await (await app.start(one, id="r")).result() == "made a"
        found = readings(app.store, "default")
        assert [reading.name for reading in found] == list(ALERTS)
        assert [reading.name for reading in found if reading.fires] == []


@pytest.mark.parametrize("wrong", [{"nonsense": "1"}, {"queue age": "5"}, {"held runs": "5m"}], ids=str)
def test_a_threshold_that_cannot_be_meant_is_refused(wrong: Any) -> None:
    with pytest.raises(DeclarationError):
        thresholds(wrong)
