"""Schedules on the command line: listed with their state, and a person's verbs, without the code of any app."""

import asyncio
from collections.abc import Callable

import pytest

from fencepost.runtime.app import App
from fencepost.runtime.schedule import Schedule
from tests.cli.shop import greet

YEARLY = "0 3 1 1 *"


@pytest.fixture
def declared(db: str) -> Callable[..., None]:
    """Have a worker declare schedules and end."""

    def declare(*schedules: Schedule) -> None:
        async def live() -> None:
            app = App(db, workflows=[greet], schedules=schedules)
            async with app, app.worker():
                pass

        asyncio.run(live())

    return declare


@pytest.fixture
def yearly(declared):
    declared(Schedule("yearly", greet, "ann", cron=YEARLY, zone="Europe/Berlin", catch_up_within="7d"))


def listed(fencepost, db):
    return fencepost("schedule", "--db", db, "--json").json["schedules"]


def test_a_ledger_without_schedules_says_so(fencepost, db, started):
    started("greet", "ann")
    ended = fencepost("schedule", "--db", db)
    assert (ended.code, ended.out, ended.err) == (0, "", "no schedules\n")


def test_they_are_listed_with_times_state_and_policy(fencepost, db, yearly):
    lines = fencepost("schedule", "--db", db).out.splitlines()
    assert lines[0].split() == ["schedule", "times", "state", "next", "last", "policy", "note"]
    assert lines[1].startswith(f"yearly    {YEARLY} Europe/Berlin  no worker  2")
    assert lines[1].endswith("-01-01T03:00:00+01:00  never  overlap skip, catch up last within 7d")
    (row,) = listed(fencepost, db)
    assert row["next_at"].endswith("-01-01T02:00:00.000000Z")
    wanted = {"name": "yearly", "cron": YEARLY, "state": "no worker", "workers": 0, "last_run": None, "note": None}
    assert wanted.items() <= row.items()


def test_one_that_no_worker_declares_is_an_orphan_beside_a_worker_that_lives(fencepost, db, yearly):
    async def beside() -> list:
        app = App(db, workflows=[greet])
        async with app, app.worker():
            return await asyncio.to_thread(listed, fencepost, db)

    assert [row["state"] for row in asyncio.run(beside())] == ["orphaned"]


def test_it_is_paused_and_resumed_with_an_audit_row_each(fencepost, db, yearly):
    ended = fencepost("schedule", "pause", "yearly", "--reason", "the bank is closed", "--by", "ann", "--db", db)
    assert (ended.code, ended.out) == (0, "pause: schedule yearly starts nothing until it is resumed\n")
    assert [row["state"] for row in listed(fencepost, db)] == ["paused"]
    assert fencepost("schedule", "pause", "yearly", "--reason", "x", "--db", db).code == 1
    ended = fencepost("schedule", "resume", "yearly", "--reason", "it is open", "--by", "ann", "--db", db, "--json")
    assert (ended.json["verb"], ended.json["schedule"]["name"]) == ("resume", "yearly")
    app = App(db, workflows=[])
    with app.sync:
        rows = app.store.audits("default", "schedule:yearly")
    assert [(row.verb, row.actor, row.outcome) for row in rows][::2] == [
        ("pause schedule", "ann", "done"),
        ("resume schedule", "ann", "done"),
    ]
    assert rows[1].outcome == "refused"


def test_fired_now_it_starts_a_run_that_a_worker_lives(fencepost, db, yearly, lived):
    ended = fencepost("schedule", "fire", "yearly", "--reason", "the auditor asks", "--db", db)
    assert ended.code == 0, ended.err
    assert ended.out.startswith("fire: schedule yearly has started run schedule:yearly:2")
    run = ended.out.split()[-1]
    assert lived(run) == "succeeded"
    (row,) = listed(fencepost, db)
    assert (row["last_run"], row["last_run_state"]) == (run, "succeeded")


def test_a_verb_on_another_version_than_was_seen_is_refused(fencepost, db, yearly):
    ended = fencepost("schedule", "fire", "yearly", "--reason", "x", "--if-version", "7", "--db", db)
    assert ended.code == 1
    assert "has changed since" in ended.err


def test_removed_it_is_gone_and_an_unknown_one_is_refused(fencepost, db, yearly):
    ended = fencepost("schedule", "remove", "yearly", "--reason", "it moved", "--db", db)
    assert (ended.code, ended.out) == (0, "remove: schedule yearly is gone; its runs stay\n")
    assert listed(fencepost, db) == []
    ended = fencepost("schedule", "remove", "yearly", "--reason", "again", "--db", db)
    assert ended.code == 1
    assert "there is no schedule 'yearly'" in ended.err


def test_what_has_changed_is_noted(fencepost, db, declared, yearly):
    declared(Schedule("renamed", greet, "ann", cron=YEARLY, zone="Europe/Berlin"))
    (row,) = listed(fencepost, db)
    assert (row["name"], row["formerly"], row["note"]["kind"]) == ("renamed", "yearly", "renamed")
    declared(Schedule("renamed", greet, "ann", cron="0 4 1 1 *", zone="Europe/Berlin"))
    assert f"times changed, they were {YEARLY} Europe/Berlin" in fencepost("schedule", "--db", db).out
