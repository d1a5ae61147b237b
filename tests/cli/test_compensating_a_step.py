"""One effect of a run is compensated from the command line: counted at the world, shown by the run and in the audit."""

import asyncio
import sys
from collections import Counter

import pytest

from fencepost.cli.target import app_for
from fencepost.testing import World
from tests.cli.conftest import FOLDER

BOOKS = f"{FOLDER / 'books.py'}:app"
WHY = ("--reason", "entered for another house", "--by", "ada")


@pytest.fixture
def world(tmp_path, monkeypatch):
    with World.start(tmp_path / "world") as world:
        monkeypatch.setenv("BOOKS_URL", world.books.url)
        monkeypatch.delitem(sys.modules, "books", raising=False)
        yield world
        monkeypatch.delitem(sys.modules, "books", raising=False)


def worked(db):
    """Have a worker do what there is to do; the run's state then."""

    async def work():
        app = app_for(BOOKS, db, None)
        async with app, app.worker(), asyncio.timeout(20):
            while True:
                state = (await app.show("month")).run.state.value
                if state not in ("ready", "running", "compensating"):
                    return state
                await asyncio.sleep(0.01)

    return asyncio.run(work())


def reversed_at(world):
    """How often each entry was reversed at the world."""
    names = {one["id"]: str(one["name"]) for one in world.files.objects("entries")}
    return Counter(names[one["of"]] for one in world.files.objects("reversals"))


def test_one_step_is_undone_at_the_world_what_it_rests_on_waits_and_the_rest_stands(fencepost, world, db):
    assert fencepost("start", BOOKS, "month", "--id", "month", "--db", db).code == 0
    assert worked(db) == "succeeded"
    compensate = ("compensate", "month", "enter", "--db", db, *WHY)
    offered = fencepost("show", "month", "--db", db).out
    assert "fencepost compensate month enter --item rent --reason TEXT" in offered
    assert "fencepost compensate month enter --item tax --reason TEXT" in offered
    assert "--item power" not in offered, "the tax rests on it"

    refused = fencepost(*compensate, "--item", "power")
    assert refused.code == 1
    assert "enter[tax] came after enter[power], rests on it, and stands" in refused.err
    assert fencepost("compensate", "month", "--item", "rent", "--db", db, *WHY).code == 2
    assert worked(db) == "succeeded"
    assert reversed_at(world) == {}

    assert fencepost(*compensate, "--item", "tax").code == 0
    assert worked(db) == "partly compensated"
    assert reversed_at(world) == {"tax on power": 1}
    told = fencepost("show", "month", "--db", db, "--json").json["compensation"]["effects"]
    assert [(one["effect"], one["outcome"]) for one in told] == [
        ("enter[tax]", "compensated"), ("enter[power]", "left standing"), ("enter[rent]", "left standing"),
    ]  # fmt: skip

    assert fencepost(*compensate, "--item", "power").code == 0
    assert worked(db) == "partly compensated"
    assert reversed_at(world) == {"tax on power": 1, "power": 1}
    assert fencepost(*compensate, "--item", "power").code == 1
    assert fencepost("compensate", "month", "--db", db, *WHY).code == 0
    assert worked(db) == "compensated"
    assert reversed_at(world) == {"tax on power": 1, "power": 1, "rent": 1}
    assert world.counts()["reversals"].objects == 3

    rows = fencepost("audit", "--db", db, "--json").json["rows"]
    assert [(row["verb"], row["outcome"], row["item"]) for row in reversed(rows)] == [
        ("compensate step", "refused", "power"), ("compensate step", "done", "tax"),
        ("compensate step", "done", "power"), ("compensate step", "refused", "power"), ("compensate", "done", None),
    ]  # fmt: skip
    assert fencepost("check", "--db", db).code == 0
