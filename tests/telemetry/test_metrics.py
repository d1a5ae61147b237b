"""Metrics say what the ledger and the process hold: each number against what was done to make it."""

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from fencepost.core.alerts import ALERTS
from fencepost.core.duration import HOUR, MINUTE
from fencepost.core.errors import Permanent
from fencepost.core.states import RunState
from fencepost.runtime.alerting import COSTLY
from fencepost.runtime.app import App
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from fencepost.telemetry import metrics
from fencepost.telemetry.metrics import NAMES, OF_ALERTS
from tests.runtime.stage import Clock, Gate, expire, keyed, once, played, reaches, target, until, working


@workflow(version=1)
async def one(run: Run, name: str) -> str:
    return await run.do(once(name))


@workflow(version=1)
async def two(run: Run, name: str) -> str:
    await run.do(keyed(f"{name} first"), item="1")
    return await run.do(keyed(f"{name} second"), item="2")


def read(app):
    return {family.name: family for family in text_string_to_metric_families(metrics(app))}


def value(found, name, sample=None, **labels):
    fitting = [
        one.value for one in found[name].samples
        if one.name == (sample or one.name) and labels.items() <= one.labels.items()
    ]  # fmt: skip
    assert len(fitting) == 1, (name, labels, found[name].samples)
    return fitting[0]


def test_every_alert_that_is_cheap_has_a_metric_and_the_most_urgent_comes_first():
    assert OF_ALERTS.keys() == ALERTS.keys() - COSTLY
    assert next(iter(OF_ALERTS)) == "unknown effects"
    assert [*OF_ALERTS][1] == "held runs"
    assert len(set(NAMES)) == len(NAMES)


@played
async def test_a_ledger_of_which_all_is_well_names_every_metric_in_order(db):
    async with working(db, one) as app:
        found = read(app)
    assert set(found) == set(NAMES)
    assert next(iter(found)) == "fencepost_unknown_effect_oldest_age_seconds"
    assert value(found, "fencepost_unknown_effect_oldest_age_seconds", namespace="default") == 0
    assert found["fencepost_held_runs"].samples == []


@played
async def test_an_unknown_effect_is_as_old_as_it_is_and_its_run_is_held_by_its_reason(db):
    clock = Clock()
    target.plan("a", "lose")
    async with working(db, one, clock=clock) as app:
        await app.start(one, "a", id="r")
        await reaches(app, "r", RunState.HELD)
        clock.offset = HOUR
        found = read(app)
    age = value(found, "fencepost_unknown_effect_oldest_age_seconds", namespace="default")
    assert 3_600 <= age < 3_700
    assert value(found, "fencepost_unknown_effects") == 1
    [held] = found["fencepost_held_runs"].samples
    assert held.value == 1
    assert held.labels["reason"] == "unknown outcome, and the target cannot be asked"
    assert value(found, "fencepost_attempts", **{"target": "", "class": "unresolved"}) == 1


@played
async def test_attempts_are_counted_by_class_and_sends_by_attempt(db):
    target.plan("a first", "busy")
    target.plan("b first", Permanent("no"))
    async with working(db, two) as app:
        await (await app.start(two, "a", id="a")).result()
        await (await app.start(two, "b", id="b")).result()
        found = read(app)
    attempts = {one.labels["class"]: one.value for one in found["fencepost_attempts"].samples}
    assert attempts == {"transient": 1, "applied": 4, "unresolved": 1}
    busy = value(found, "fencepost_sends_per_attempt", "fencepost_sends_per_attempt_bucket", target="", le="1.0")
    assert busy == value(found, "fencepost_sends_per_attempt", "fencepost_sends_per_attempt_count") == 1
    assert value(found, "fencepost_attempts_not_countable") == 5


@played
async def test_commits_are_counted_with_their_groups(db):
    async with working(db, two) as app:
        before = app.host.journal.commits
        await (await app.start(two, "a", id="a")).result()
        found = read(app)
        commits = app.host.journal.commits
    count = value(found, "fencepost_journal_commit_seconds", "fencepost_journal_commit_seconds_count")
    assert count == value(found, "fencepost_journal_batch_groups", "fencepost_journal_batch_groups_count")
    assert before < count <= commits
    assert value(found, "fencepost_journal_commit_seconds", "fencepost_journal_commit_seconds_sum") > 0


@played
async def test_a_former_owners_write_and_its_lost_lease_are_counted(db):
    gate = Gate()
    target.plan("a first", gate)
    async with working(db, two) as app, working(db, two) as heir:
        await app.start(two, "a", id="r")
        await gate.reached.wait()
        owner = app if (await app.show("r")).run.lease == app.host.lease.id else heir
        other = heir if owner is app else app
        expire(owner)
        await reaches(other, "r", RunState.SUCCEEDED)
        gate.opened.set()
        await until(lambda: owner.host.counts.leases_lost, "the lease to be known as lost")
        await until(lambda: owner.host.counts.refused, "the write to be refused")
        found = read(owner)
    assert value(found, "fencepost_groups_refused", answer="stale") >= 1
    assert value(found, "fencepost_leases_lost") == 1
    assert value(found, "fencepost_lease_losses_last_hour") == 1
    assert value(found, "fencepost_stale_writes_refused_last_hour") == 1


@played
async def test_a_run_that_nobody_takes_makes_the_queue_old(db):
    clock = Clock()
    app = App(db, workflows=[one])
    app.clock = clock
    async with app:
        await app.start(one, "a", id="r")
        clock.offset = 10 * MINUTE
        found = read(app)
    assert 600 <= value(found, "fencepost_queue_age_seconds", namespace="default") < 700
    assert found["fencepost_worker_stuck_seconds"].samples == []


@played
async def test_hostile_reasons_of_a_hold_are_labels_and_nothing_else(db):
    async with working(db, one) as app:
        target.plan("a", Permanent('"} 1\n# EOF'))
        await app.start(one, "a", id="r")
        await until(lambda: app.host.counts.attempts, "the attempt")
        assert set(read(app)) == set(NAMES)


@pytest.mark.parametrize("namespace", ["left", "right"])
@played
async def test_a_namespace_counts_its_own(db, namespace):
    target.plan("a", "lose")
    async with working(db, one, namespace="left") as app:
        await app.start(one, "a", id="r")
        await reaches(app, "r", RunState.HELD)
    async with App(db, workflows=[one], namespace=namespace) as app:
        assert value(read(app), "fencepost_unknown_effects", namespace=namespace) == (namespace == "left")
