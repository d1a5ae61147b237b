"""Queues on the command line, without the code of any app; a run that waits for its turn says so."""

import asyncio

import pytest

from fencepost.core.queue import Queue, Rate
from fencepost.runtime.app import App
from tests.cli.shop import greet


@pytest.fixture
def queued(db):
    async def start() -> None:
        app = App(db, workflows=[greet], queues=[Queue("mail", concurrency=5, rate=Rate(100, "1m"))])
        async with app:
            await app.start(greet, "ann", id="r", queue="mail", queue_key="ann", priority=3)

    asyncio.run(start())


def test_it_is_listed_paused_and_resumed(fencepost, db, queued):
    lines = fencepost("queue", "--db", db).out.splitlines()
    assert lines[1].split() == ["mail", "0", "of", "5", "any", "0", "of", "100", "in", "1m", "1", "0", "active"]
    ended = fencepost("queue", "pause", "mail", "--reason", "the relay is down", "--by", "ann", "--db", db)
    said = "paused by ann because the relay is down"
    assert (ended.code, ended.out) == (0, f"pause: queue mail is {said}\n")
    assert fencepost("queue", "pause", "mail", "--reason", "x", "--by", "bob", "--db", db).out == ended.out
    shown = fencepost("show", "r", "--db", db, "--json").json
    assert (shown["run"]["queue"], shown["run"]["queue_key"], shown["run"]["priority"]) == ("mail", "ann", 3)
    assert shown["waits_for"][0] == f"its turn: queue mail is {said}"
    ended = fencepost("queue", "resume", "mail", "--reason", "it is up", "--by", "ann", "--db", db, "--json")
    assert (ended.json["verb"], ended.json["queue"]["paused_at"]) == ("resume", None)
    rows = fencepost("audit", "--run", "queue:mail", "--db", db, "--json").json["rows"]
    assert [(one["verb"], one["actor"]) for one in rows] == [("resume queue", "ann"), ("pause queue", "ann")]


def test_a_queue_that_is_not_there_is_refused_with_those_that_are(fencepost, db, queued, started):
    ended = fencepost("queue", "pause", "post", "--reason", "x", "--db", db)
    assert ended.code == 1
    assert "there are: mail" in ended.err


def test_a_ledger_without_queues_says_so(fencepost, db, started):
    started("greet", "ann")
    assert fencepost("queue", "--db", db).err == "no queues\n"
