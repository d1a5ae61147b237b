"""A ledger restored from a backup has forgotten sends: none of them is made a second time (`protocol` D2)."""

import asyncio
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from itertools import count
from pathlib import Path

import psycopg
import pytest

from fencepost import (
    Absent,
    App,
    Call,
    Fenced,
    FenceRefused,
    Found,
    KeyHeader,
    LedgerWentBack,
    Retry,
    Run,
    RunHeld,
    VerbRefused,
    effect,
    workflow,
)
from fencepost.core.epoch import GENERATIONS_PER_SECOND
from fencepost.core.records import LOST_TIME
from fencepost.runtime.restoring import close_lost_time, restored
from fencepost.runtime.workflow import Workflow
from fencepost.store.open import wall_clock
from tests.services.postgres import Cluster

RUNGS = ("keyed", "looked-up", "fenced", "held")
SOON = Retry(attempts=3, within="15m", first_delay="1ms", longest_delay="2ms")


class World:
    """One target of each rung. It is not restored with the ledger: what happened there has happened."""

    name = "world"
    weakness = None

    def __init__(self) -> None:
        self.objects: Counter[str] = Counter()
        self.keys: set[str] = set()
        self.highest = 0

    def apply(self, rung: str, name: str, *, key: str = "", token: int | None = None) -> str:
        if rung == "keyed":
            if key in self.keys:
                return name
            self.keys.add(key)
        if token is not None:
            self.raise_to("all", token)
        self.objects[f"{rung} {name}"] += 1
        return name

    def raise_to(self, resource: str, token: int) -> None:
        if token < self.highest:
            raise FenceRefused("a higher token is known")
        self.highest = token


def steps(world: World, rung: str) -> Workflow:
    async def find(call: Call, name: str) -> Found[str] | Absent:
        return Found(name) if world.objects[f"{rung} {name}"] else Absent()

    contracts = {
        "keyed": {"send_key": KeyHeader("Idempotency-Key", window="24h")},
        "looked-up": {"reconcile": find, "settle": "1ms", "attempt_timeout": "50ms"},
        "fenced": {"reconcile": find, "settle": "1h", "consistent": True, "fence": Fenced(world, "all")},
        "held": {"on_unknown": "hold"},
    }

    @effect(name=f"apply {rung}", retry=SOON, **contracts[rung])
    async def apply(call: Call, name: str) -> str:
        return world.apply(rung, name, key=call.key, token=call.token("all") if rung == "fenced" else None)

    @workflow(name=rung)
    async def twice(run: Run, name: str) -> str:
        await run.do(apply(f"{name} one"), item="1")
        await run.wait("go on", bool)
        return await run.do(apply(f"{name} two"), item="2")

    return twice


class Ledger:
    """A ledger with its backup, and a clock that can be moved."""

    url: str

    def __init__(self) -> None:
        self.ahead = 0

    def clock(self) -> int:
        return wall_clock() + self.ahead

    def app(self, *workflows: Workflow) -> App:
        app = App(self.url, workflows=list(workflows))
        app.clock = self.clock
        return app

    def back_up(self) -> None:
        raise NotImplementedError

    def restore(self) -> None:
        raise NotImplementedError

    def change(self, statement: str) -> None:
        """Change it behind everybody's back."""
        raise NotImplementedError


class LedgerInFile(Ledger):
    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.path, self.backup = folder / "ledger.db", folder / "backup.db"
        self.url = f"sqlite:///{self.path}"

    def back_up(self) -> None:
        with closing(sqlite3.connect(self.path)) as source, closing(sqlite3.connect(self.backup)) as copy:
            source.backup(copy)

    def restore(self) -> None:
        for end in ("", "-wal", "-shm"):
            with suppress(FileNotFoundError):
                Path(f"{self.path}{end}").unlink()
        shutil.copy(self.backup, self.path)

    def change(self, statement: str) -> None:
        with closing(sqlite3.connect(self.path)) as inside, inside:
            inside.execute(statement)


class LedgerOnServer(Ledger):
    """In a database of its own, dumped and restored by PostgreSQL's own programs."""

    def __init__(self, server: Cluster) -> None:
        super().__init__()
        self.server, self.database = server, f"restored_{next(_databases)}"
        self.url = server.url(self.database)
        self.backup = server.folder / f"{self.database}.dump"
        server.ask(f"CREATE DATABASE {self.database}")

    def back_up(self) -> None:
        self.server.run("pg_dump", *self._connecting(self.database), "--format=custom", f"--file={self.backup}")

    def restore(self) -> None:
        self.server.ask(f"DROP DATABASE {self.database} WITH (FORCE)")
        self.server.run("pg_restore", *self._connecting("postgres"), "--create", str(self.backup))

    def change(self, statement: str) -> None:
        with closing(psycopg.connect(self.url)) as inside, inside:
            inside.execute("SET search_path = fencepost")
            inside.execute(statement.encode())

    def _connecting(self, database: str) -> list[str]:
        return [f"--host={self.server.folder}", "--username=fencepost", f"--dbname={database}"]


_databases = count(1)


@pytest.fixture
def ledger(dialect: str, tmp_path: Path, request: pytest.FixtureRequest) -> Ledger:
    if dialect == "sqlite":
        return LedgerInFile(tmp_path)
    return LedgerOnServer(request.getfixturevalue("postgres_server"))


async def deliver(app: App, flow: Workflow, *names: str) -> list[str]:
    """Deliver the events once more: what each run returned, or that it is held."""
    ends = []
    for name in names:
        handle = await app.start(flow, name, id=name)
        await app.signal(name, "go on", True, id="s-1", sender="anna")
        try:
            ends.append(await handle.result(within="20s"))
        except RunHeld as held:
            ends.append(f"held: {held}")
    return ends


def state_of(app: App, name: str) -> str:
    run = app.store.find("default", name)
    assert run is not None
    return run.state.value


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110 - what is waited for is in the ledger, or on a thread
            await asyncio.sleep(0.001)


async def first_life(ledger: Ledger, flow: Workflow) -> None:
    """One run stands at its wait when the backup is made; then it ends, and a second run is wholly in the lost time."""
    async with ledger.app(flow) as app, app.worker():
        await app.start(flow, "known", id="known")
        await until(lambda: state_of(app, "known") == "waiting")
        ledger.back_up()
        assert await deliver(app, flow, "known", "forgotten") == ["known two", "forgotten two"]


@pytest.mark.parametrize("rung", RUNGS)
def test_restored_twice_from_one_backup_every_object_is_there_once(ledger: Ledger, rung: str) -> None:
    world = World()
    flow = steps(world, rung)
    asyncio.run(first_life(ledger, flow))
    once = {f"{rung} {name}": 1 for name in ("known one", "known two", "forgotten one", "forgotten two")}
    assert world.objects == once

    for _ in range(2):
        ledger.restore()
        ledger.ahead += 10_000_000

        async def again() -> list[str]:
            async with ledger.app(flow) as app:
                restored(app, by="anna", reason="the disk died")
                async with app.worker():
                    return await deliver(app, flow, "known", "forgotten")

        ends = asyncio.run(again())
        assert world.objects == once
        if rung == "held":
            assert all(end.startswith("held: ") for end in ends)
        else:
            assert ends == ["known two", "forgotten two"]


@pytest.mark.parametrize("rung", ["keyed", "looked-up", "fenced"])
def test_what_was_not_sent_in_the_lost_time_is_sent_after_it_was_asked_about(ledger: Ledger, rung: str) -> None:
    world = World()
    flow = steps(world, rung)

    async def story() -> None:
        async with ledger.app(flow) as app:
            await app.start(flow, "remembered", id="remembered")
            restored(app, by="anna", reason="the disk died")
            async with app.worker():
                assert await deliver(app, flow, "new") == ["new two"]
                found = app.store.find("default", "new")
                assert found is not None
                for operation in app.store.load(found.no).operations:
                    assert operation.observations[0].kind == LOST_TIME

    asyncio.run(story())
    assert {name: count for name, count in world.objects.items() if " new " in name} == {
        f"{rung} new one": 1,
        f"{rung} new two": 1,
    }


def test_a_key_that_may_have_been_used_before_its_window_is_not_trusted(ledger: Ledger) -> None:
    """The window counts from the beginning of the lost time: the first use of the key may be as old."""
    world = World()
    flow = steps(world, "keyed")

    async def story() -> None:
        async with ledger.app(flow) as app:
            await app.start(flow, "remembered", id="remembered")
            ledger.ahead += 25 * 3600 * 1_000_000  # the backup is a day old, the window a day long
            restored(app, by="anna", reason="the disk died")
            async with app.worker():
                (end,) = await deliver(app, flow, "new")
                assert "promise has run out" in end

    asyncio.run(story())
    assert not any(" new " in name for name in world.objects)


def test_once_the_lost_time_is_closed_first_sends_go_at_once(ledger: Ledger) -> None:
    world = World()
    flow = steps(world, "held")

    async def story() -> None:
        async with ledger.app(flow) as app:
            restored(app, by="anna", reason="the disk died")
            async with app.worker():
                assert (await deliver(app, flow, "before"))[0].startswith("held: ")
                close_lost_time(app, by="anna", reason="the provider's list was compared")
                assert await deliver(app, flow, "after") == ["after two"]
            with pytest.raises(VerbRefused, match="no lost time"):
                close_lost_time(app, by="anna", reason="again")
            told = [(row.verb, row.outcome) for row in app.store.audits("default", "")]
            done = [("restored", "done"), ("close lost time", "done")]
            assert told == [*done, ("close lost time", "refused")]

    asyncio.run(story())
    assert world.objects == {"held after one": 1, "held after two": 1}


def test_generations_and_tokens_of_before_are_below_the_epochs(ledger: Ledger) -> None:
    flow = steps(World(), "keyed")

    async def story() -> None:
        async with ledger.app(flow) as app:
            before = await app.start(flow, "before", id="before")
            old = app.store.find("default", "before")
            assert old is not None
            token = app.store.issue_token(old.no, old.generation, "all")
            epoch = restored(app, by="anna", reason="the disk died")
            now = app.store.find("default", "before")
            await app.start(flow, "after", id="after")
            new = app.store.find("default", "after")
            assert now is not None
            assert new is not None
            assert epoch.base == epoch.number * GENERATIONS_PER_SECOND
            assert now.generation >= epoch.base > old.generation
            assert new.generation >= epoch.base
            assert app.store.issue_token(old.no, old.generation, "all") is None
            assert (app.store.issue_token(now.no, now.generation, "all") or 0) > epoch.base > (token or 0)
            assert (app.store.issue_token(now.no, now.generation, "new") or 0) > epoch.base
            del before

    asyncio.run(story())


def test_a_worker_that_has_seen_more_than_the_ledger_knows_stops(ledger: Ledger) -> None:
    flow = steps(World(), "keyed")

    async def story() -> None:
        async with ledger.app(flow) as app:
            worker, lease = app.worker(), app.host.lease
            await worker.__aenter__()
            # As a restore under a running worker leaves it: its lease as it was some time ago.
            ledger.change("UPDATE lease SET renewed_at = renewed_at - 1")
            assert not lease._renew()
            await until(lambda: lease.is_over and lease._stopping.is_set())
            with pytest.raises(LedgerWentBack, match="older than what this worker has seen"):
                await worker.__aexit__(None, None, None)

    asyncio.run(story())


def test_a_worker_goes_on_once_somebody_has_said_that_the_ledger_was_restored(ledger: Ledger) -> None:
    flow = steps(World(), "keyed")

    async def story() -> None:
        async with ledger.app(flow) as app, app.worker():
            first = app.host.lease
            ledger.change("UPDATE lease SET renewed_at = renewed_at - 1")
            restored(app, by="anna", reason="the disk died")
            assert not first._renew()
            await until(lambda: app.host.lease is not first)
            assert app.host.lost_time is not None
            assert await deliver(app, flow, "new") == ["new two"]

    asyncio.run(story())
