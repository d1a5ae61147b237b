"""Containing on the command line, without the code of any app: said to whoever looks at a run that waits."""

import asyncio

import pytest

from fencepost.runtime.app import App
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from tests.runtime.stage import keyed, played, target, until


@workflow()
async def pays(run: Run, name: str) -> str:
    return await run.do(keyed(name))


@pytest.fixture(autouse=True)
def forgetful():
    target.reset()


def test_it_is_contained_listed_and_released(fencepost, db, started):
    started("greet", "ann")
    assert fencepost("contained", "--db", db).err == "nothing is contained\n"
    ended = fencepost("contain", "target", "bank", "--reason", "it books twice", "--by", "ann", "--db", db)
    assert (ended.code, ended.out) == (0, "contained: target bank by ann because it books twice\n")
    again = fencepost("contain", "target", "bank", "--reason", "so it does", "--by", "bob", "--db", db)
    assert (again.code, again.out) == (0, ended.out)
    (row,) = fencepost("contained", "--db", db, "--json").json["contained"]
    assert {"kind": "target", "name": "bank", "by": "ann", "probe_at": None}.items() <= row.items()
    listed = fencepost("contained", "--db", db).out.splitlines()[1].split()
    assert (listed[:3], listed[-3:]) == (["target", "bank", "ann"], ["it", "books", "twice"])
    ended = fencepost("release", "target", "bank", "--reason", "mended", "--by", "bob", "--db", db)
    assert (ended.code, ended.out) == (0, "released: target bank by ann because it books twice\n")
    ended = fencepost("release", "target", "bank", "--reason", "mended", "--db", db)
    assert (ended.code, ended.out) == (0, "target bank is not contained\n")
    assert fencepost("release", "target", "bank", "--reason", "x", "--db", db, "--json").json == {"released": None}
    rows = fencepost("audit", "--run", "target:bank", "--db", db, "--json").json["rows"]
    assert [(one["verb"], one["actor"]) for one in rows] == [("release", "bob"), ("contain", "ann")]


def test_what_cannot_be_contained_is_refused_with_what_can(fencepost, db, started):
    started("greet", "ann")
    ended = fencepost("contain", "planet", "mars", "--reason", "x", "--db", db)
    assert ended.code == 1
    assert "target, resource, tenant, workflow, credential" in ended.err


@played
async def test_a_run_that_waits_says_for_what(fencepost, db):
    app = App(db, workflows=[pays])
    async with app, app.worker():
        await app.contain("workflow", "pays", by="ann", reason="it books twice")
        handle = await app.start(pays, "x", id="r")

        async def waits():
            return (await app.show("r")).run.behind

        await until(waits, "the run to wait")
        why = "contained: workflow pays by ann because it books twice"
        shown = await asyncio.to_thread(fencepost, "show", "r", "--db", db, "--json")
        assert shown.json["waits_for"] == [why]
        assert why in (await asyncio.to_thread(fencepost, "show", "r", "--db", db)).out
        assert why in (await asyncio.to_thread(fencepost, "runs", "--db", db)).out
        await asyncio.to_thread(fencepost, "release", "workflow", "pays", "--reason", "y", "--db", db)
        assert await handle.result(within="20s") == "made x"
