"""`fencepost copy`: what was in the file is on the server in its order, and its runs go on there and nowhere else."""

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from fencepost import AesGcm, App, ForeignDatabase, KeyUnavailable, Run, Schedule, workflow
from fencepost.core.states import RunState
from fencepost.runtime.verbs import resume
from fencepost.store.api import RunFilter, Store
from fencepost.store.chain import broken_at
from fencepost.store.copy import TABLES
from fencepost.store.open import open_store
from tests.runtime.stage import keyed, once, reaches, target, verb, working
from tests.services.fixtures import Place
from tests.store import build

ALL = RunFilter("default", limit=1_000)


@workflow()
async def story(run: Run, name: str) -> str:
    await run.do(keyed(f"{name} first"), item="1")
    await run.wait("go on", bool)
    return await run.do(once(f"{name} last"), item="2")


@pytest.fixture
def file(tmp_path: Path) -> str:
    """A ledger with a run that has ended, one that waits, one that is held, and what a person did."""
    target.reset()
    url = f"sqlite:///{tmp_path / 'ledger.db'}"

    async def fill() -> None:
        async with working(url, story, schedules=[Schedule("yearly", story, "fired", cron="0 3 1 1 *")]) as app:
            for name in ("ended", "held", "waits"):
                await app.start(story, name, id=name)
                await reaches(app, name, RunState.WAITING)
            target.plan("held last", "lose")
            await app.schedules.fire("yearly", by="ann", reason="to see")
            for name in ("ended", "held"):
                await app.signal(name, "go on", True, id="s", sender="ann")
            await reaches(app, "ended", RunState.SUCCEEDED)
            await reaches(app, "held", RunState.HELD)
            await verb(app, resume, "held")
            await reaches(app, "held", RunState.HELD)

    asyncio.run(fill())
    return url


def everything(store: Store) -> dict[str, object]:
    """All that can be read of a ledger."""
    runs = store.runs(ALL)
    return {
        "histories": [store.load(run.no) for run in runs],
        "audits": store.audits(None, None),
        "schedules": store.schedules("default"),
        "epoch": store.epoch(),
        "leases": {lease.id for lease in store.leases()},
    }


def test_everything_is_there_and_goes_on(file: str, postgres: Place, fencepost) -> None:
    with closing(open_store(file)) as store:
        before = everything(store)

    ended = fencepost("copy", file, "--to", postgres.url(), "--json")

    assert ended.code == 0, ended.err
    counts = json.loads(ended.out)["tables"]
    assert [count["table"] for count in counts] == list(TABLES)
    assert all(count["here"] == count["there"] for count in counts)
    assert {count["table"] for count in counts if count["here"]} >= {"run", "step", "operation", "signal", "audit"}
    with closing(open_store(postgres.url())) as store:
        assert everything(store) == before
        assert broken_at(store.audits(None, None)) is None

    async def go_on() -> None:
        async with working(postgres.url(), story) as app:
            await app.signal("waits", "go on", True, id="s", sender="ann")
            await reaches(app, "waits", RunState.SUCCEEDED)
            await app.start(story, "new", id="new")
            await reaches(app, "new", RunState.WAITING)

    asyncio.run(go_on())
    assert target.objects.count("waits first") == 1
    assert target.objects.count("waits last") == 1


def test_a_sealed_ledger_stays_sealed_and_knows_a_wrong_key(tmp_path: Path, postgres: Place, fencepost) -> None:
    target.reset()
    url, right = f"sqlite:///{tmp_path / 'ledger.db'}", AesGcm({"k1": b"1" * 32})

    async def fill() -> None:
        async with working(url, story, codec=right, inline_bytes=10) as app:
            await app.start(story, "one", id="r")
            await reaches(app, "r", RunState.WAITING)

    asyncio.run(fill())
    assert fencepost("copy", url, "--to", postgres.url()).code == 0

    async def go_on() -> None:
        with pytest.raises(KeyUnavailable):
            await App(postgres.url(), workflows=[story], codec=AesGcm({"k1": b"x" * 32})).start(story, "two", id="s")
        async with working(postgres.url(), story, codec=right) as app:
            await app.signal("r", "go on", True)
            await reaches(app, "r", RunState.SUCCEEDED)

    asyncio.run(go_on())
    assert target.objects == ["one first", "one last"]


def test_the_file_says_where_its_ledger_has_gone(file: str, postgres: Place, fencepost) -> None:
    assert fencepost("copy", file, "--to", postgres.url()).code == 0
    with pytest.raises(ForeignDatabase, match="goes on there"):
        open_store(file)


def test_a_dry_run_changes_nothing(file: str, postgres: Place, fencepost) -> None:
    ended = fencepost("copy", file, "--to", postgres.url(), "--dry-run")
    assert (ended.code, "nothing was changed" in ended.out) == (0, True)
    with closing(open_store(postgres.url())) as store:
        assert store.runs(ALL) == []
    with closing(open_store(file)) as store:
        assert len(store.runs(ALL)) == 4


def test_a_worker_that_holds_a_lease_is_a_reason_to_refuse(file: str, postgres: Place, fencepost) -> None:
    async def while_working() -> None:
        async with working(file, story):
            ended = await asyncio.to_thread(fencepost, "copy", file, "--to", postgres.url())
            assert (ended.code, "workers hold leases" in ended.err) == (1, True)

    asyncio.run(while_working())


def test_a_ledger_that_holds_something_is_not_written_over(file: str, postgres: Place, fencepost) -> None:
    with closing(open_store(postgres.url())) as store:
        store.audit(build.audit())
    ended = fencepost("copy", file, "--to", postgres.url())
    assert (ended.code, "holds a ledger already" in ended.err) == (1, True)


def test_a_value_that_the_server_cannot_hold_is_named_and_nothing_is_copied(file: str, postgres: Place, fencepost):
    with closing(sqlite3.connect(file.removeprefix("sqlite:///"))) as inside, inside:
        inside.execute("UPDATE run SET input = ? WHERE id = 'waits'", ('["a\\u0000b\0"]',))
    ended = fencepost("copy", file, "--to", postgres.url())
    assert ended.code != 0
    with closing(open_store(postgres.url())) as store:
        assert store.runs(ALL) == []
    open_store(file).close()
