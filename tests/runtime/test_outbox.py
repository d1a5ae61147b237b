"""A start or an effect inside the caller's own transaction: it happens if that commits, and never otherwise.

What happened is counted at the target. Processes that are killed in between are in tests/processes.
"""

import sqlite3
import threading

import pytest

from fencepost.core.errors import KeyUnavailable, Misuse, RunHeld, RunInputMismatch, RunNotFound, StoreBusy
from fencepost.core.states import RunState
from fencepost.runtime import verbs
from fencepost.runtime.app import App
from fencepost.runtime.checking import check
from fencepost.runtime.ledger import Ledger
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from fencepost.store.aes_gcm import AesGcm
from fencepost.store.open import path_of
from fencepost.store.postgres_url import is_postgres
from tests.runtime.callers import KINDS, calling, driver, make_table, names
from tests.runtime.stage import Gate, keyed, once, played, reaches, target, until, working
from tests.services.fixtures import DIALECTS
from tests.store.inside import rows_of


@workflow()
async def one(run: Run, name: str) -> str:
    return await run.do(keyed(name))


@pytest.fixture
def place(db):
    """A ledger beside a table of the caller's."""
    with App(db, workflows=[]).sync as app:
        assert app.store
    make_table(db)
    return db


each_kind = pytest.mark.parametrize(
    ("dialect", "kind"), [(dialect, kind) for dialect in DIALECTS for kind in KINDS[dialect]]
)


# -- commit or nothing ------------------------------------------------------------------------------------------------


@each_kind
@played
async def test_what_is_started_or_enqueued_happens_if_the_caller_commits_and_never_otherwise(place, kind):
    async with working(place, one) as app, Ledger(place) as ledger:
        async with calling(kind, place) as caller:
            for name in ("kept", "taken back"):
                await caller.write(name)
                started = await app.start(one, f"started, {name}", id=f"run, {name}", connection=caller.connection)
                enqueued = await ledger.enqueue(
                    keyed(f"enqueued, {name}"), operation=f"effect, {name}", connection=caller.connection
                )
                with pytest.raises(RunNotFound):
                    await started.state()
                if name == "kept":
                    await caller.commit()
                    await ledger.work()
                    assert await started.result(within="20s") == f"made started, {name}"
                    assert await enqueued.result(within="20s") == f"made enqueued, {name}"
                else:
                    await caller.rollback()
        for handle in (started, enqueued):
            with pytest.raises(RunNotFound):
                await handle.state()
        assert names(place) == ["kept"]
        assert len(await app.runs()) == 2
    assert sorted(target.requests) == ["enqueued, kept", "started, kept"]


@each_kind
@played
async def test_one_id_is_one_run_however_often_it_is_started_and_in_which_transactions(place, kind):
    async with working(place, one) as app:
        for _ in range(2):
            async with calling(kind, place) as caller:
                await caller.write("what the run is about")
                for _ in range(2):
                    handle = await app.start(one, "a", id="r", connection=caller.connection)
                with pytest.raises(RunInputMismatch):
                    await app.start(one, "b", id="r", connection=caller.connection)
                await caller.commit()
            assert await handle.result(within="20s") == "made a"
        assert len(names(place)) == 2
    assert target.requests == ["a"]


@played
async def test_the_handle_of_a_start_that_was_taken_back_never_shows_another_run(place):
    async with working(place, one) as app:
        with driver(place) as connection:
            lost = await app.start(one, "lost", id="lost", connection=connection)
            connection.rollback()
        # On a file the next run gets the number that was free again.
        assert await (await app.start(one, "other", id="other")).result() == "made other"
        with pytest.raises(RunNotFound):
            await lost.result(within="1s")


def test_a_blocking_start_uses_the_callers_connection_on_the_callers_own_thread(place):
    """A connection of sqlite3 refuses every other thread."""
    app, ledger = App(place, workflows=[one]), Ledger(place)
    with app.sync as blocking, ledger.sync as outbox, driver(place) as connection, blocking.worker():
        outbox.work()
        started = blocking.start(one, "a", id="r", connection=connection)
        enqueued = outbox.enqueue(keyed("b"), operation="e", connection=connection)
        assert target.requests == []
        connection.commit()
        assert started.result(within="20s") == "made a"
        assert enqueued.result(within="20s") == "made b"


def test_many_threads_open_one_ledger_for_their_starts(place):
    app = App(place, workflows=[one])
    hosts = set()

    def start(number: int) -> None:
        with driver(place) as connection:
            app.sync.start(one, "a", id=f"r{number}", connection=connection)
            hosts.add(id(app.host))
            connection.commit()

    threads = [threading.Thread(target=start, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    with app.sync as blocking:
        assert len(blocking.runs()) == 8
    assert len(hosts) == 1


# -- what is written in it --------------------------------------------------------------------------------------------


@workflow()
async def refused(run: Run, name: str) -> str:
    raise ValueError(f"{name} is refused")


SEALED = {"codec": AesGcm({"k": b"k" * 32}), "inline_bytes": 10, "redact": lambda text: text.replace("canary", "*")}


@played
async def test_what_the_callers_transaction_carries_is_sealed_and_kept_apart_like_any_other_start(place):
    """The passage of a start in a connection is a way of its own, which no other start takes."""
    async with App(place, workflows=[one, refused], **SEALED) as app, Ledger(place, **SEALED) as ledger:
        async with calling("psycopg" if is_postgres(place) else "sqlite3", place) as caller:
            for _ in range(2):
                handle = await app.start(
                    one, "canary-started", id="r", on_behalf_of="canary-user", connection=caller.connection
                )
                enqueued = await ledger.enqueue(
                    keyed("canary-enqueued"), operation="e", on_behalf_of="canary-user", connection=caller.connection
                )
            failing = await app.start(refused, "canary-failing", id="f", connection=caller.connection)
            with pytest.raises(RunInputMismatch):
                await app.start(one, "canary-other", id="r", connection=caller.connection)
            await caller.commit()
        rows = rows_of(place)
        assert {piece[1] for piece in rows["piece"]} == {"r", "e", "f"}
        assert "canary" not in str(rows)
        async with app.worker():
            await ledger.work()
            assert await handle.result(within="20s") == "made canary-started"
            assert await enqueued.result(within="20s") == "made canary-enqueued"
            await reaches(app, failing.id, RunState.FAILED)
        history = await app.show("r")
        assert (history.run.input, history.run.principal) == ('{"name":"canary-started"}', "canary-user")
        assert "*-failing is refused" in ((await app.show("f")).run.error or "")
        assert check(app.store).found == []
    assert "canary" not in str(rows_of(place))


@played
async def test_an_app_without_the_codec_leaves_nothing_in_the_callers_transaction(place):
    async with App(place, workflows=[one], **SEALED) as sealed:
        assert sealed.store
    async with (
        App(place, workflows=[one]) as app,
        calling("psycopg" if is_postgres(place) else "sqlite3", place) as caller,
    ):
        await caller.write("kept")
        with pytest.raises(KeyUnavailable):
            await app.start(one, "a", id="r", connection=caller.connection)
        await caller.commit()
        assert await app.runs() == []
    assert names(place) == ["kept"]


# -- what is refused --------------------------------------------------------------------------------------------------


@played
async def test_a_connection_that_commits_by_itself_is_refused(place):
    async with App(place, workflows=[one]) as app:
        with driver(place) as connection:
            if isinstance(connection, sqlite3.Connection):
                connection.isolation_level = None
            else:
                connection.autocommit = True
            with pytest.raises(Misuse, match="autocommit"):
                await app.start(one, "a", id="r", connection=connection)
            connection.execute("BEGIN")
            await app.start(one, "a", id="r", connection=connection)
            connection.execute("ROLLBACK")
        assert await app.runs() == []


@played
async def test_a_connection_to_something_else_is_refused(place, tmp_path):
    async with App(place, workflows=[one]) as app:
        for connection in (
            sqlite3.connect(tmp_path / "other.db"),
            sqlite3.connect(":memory:"),
            object(),
        ):
            with pytest.raises(Misuse):
                await app.start(one, "a", id="r", connection=connection)
            if isinstance(connection, sqlite3.Connection):
                connection.close()
        assert await app.runs() == []


@pytest.mark.parametrize("dialect", ["sqlite"])
@played
async def test_an_attached_ledger_is_refused_since_files_commit_one_by_one(place, tmp_path):
    async with App(place, workflows=[one]) as app:
        connection = sqlite3.connect(tmp_path / "business.db")
        connection.execute("ATTACH ? AS ledger", (path_of(place),))
        with pytest.raises(Misuse, match="ATTACH"):
            await app.start(one, "a", id="r", connection=connection)
        connection.close()


@pytest.mark.parametrize("dialect", ["sqlite"])
@played
async def test_a_transaction_that_has_read_too_early_hears_what_to_do(place):
    async with App(place, workflows=[one]) as app:
        with driver(place) as connection:
            connection.execute("BEGIN")
            connection.execute("SELECT * FROM business").fetchall()
            await app.start(one, "other", id="other")
            with pytest.raises(StoreBusy, match="BEGIN IMMEDIATE"):
                await app.start(one, "a", id="r", connection=connection)


# -- order ------------------------------------------------------------------------------------------------------------


@played
async def test_one_whose_outcome_is_unknown_keeps_back_the_later_ones_of_its_resource_alone(place):
    target.plan("first", "lose")
    async with Ledger(place) as ledger:
        handles = [
            await ledger.enqueue(effect(name), operation=name, resource=resource)
            for effect, name, resource in (
                (once, "first", "account:1"),
                (keyed, "second", "account:1"),
                (keyed, "third", "account:1"),
                (keyed, "other", "account:2"),
                (keyed, "free", None),
            )
        ]
        await ledger.work()
        with pytest.raises(RunHeld):
            await handles[0].result(within="20s")
        for handle in handles[3:]:
            await handle.result(within="20s")
        assert [await handle.state() for handle in handles[1:3]] == [RunState.READY, RunState.READY]
        assert sorted(target.requests) == ["first", "free", "other"]
        ahead = [ledger.app.store.ahead_of((await ledger.app.show(name)).run) for name in ("first", "third", "free")]
        assert ahead == [None, ("first", "held"), None]
        await ledger.app._verb(
            verbs.settle, "first", step="once", happened=True, result='"seen"', by="ann", reason="she looked"
        )
        assert await handles[2].result(within="20s") == "made third"
    assert target.requests[3:] == ["second", "third"]


@played
async def test_one_that_failed_for_good_makes_way(place):
    target.plan("first", "refuse")
    async with Ledger(place) as ledger:
        await ledger.enqueue(keyed("first"), operation="first", resource="account")
        second = await ledger.enqueue(keyed("second"), operation="second", resource="account")
        await ledger.work()
        assert await second.result(within="20s") == "made second"
        await reaches(ledger.app, "first", RunState.FAILED)


@pytest.mark.parametrize("verb", ["resume", "reopen", "compensate"])
@played
async def test_an_earlier_one_that_is_let_go_on_sends_nothing_while_a_later_one_is_unknown(place, verb):
    target.plan("first", *(["refuse"] if verb == "resume" else []))
    target.plan("second", "lose")
    async with Ledger(place, effects=[once]) as ledger:
        app = ledger.app
        for name in ("first", "second", "third"):
            await ledger.enqueue(once(name), operation=name, resource="account")
        if verb == "reopen":
            await app.terminate("first", by="ann", reason="not now")
        await ledger.work()
        await reaches(app, "second", RunState.HELD)
        before = list(target.requests)
        await getattr(app, verb)("first", by="ann", reason="now")
        free = await ledger.enqueue(once("other"), operation="other", resource="another")
        assert await free.result(within="20s") == "made other"
        assert target.requests == [*before, "other"]
        assert app.store.ahead_of((await app.show("first")).run) == ("second", "held")
        await app.settle("second", "once", happened=True, result='"seen"', by="ann", reason="she looked")
        await reaches(app, "third", RunState.SUCCEEDED)
        undone = {"resume": "first", "reopen": "first", "compensate": "undo first"}[verb]
        await until(lambda: undone in target.requests[len(before) :], "the first one to go on")
        assert sorted(target.requests[len(before) + 1 :]) == sorted([undone, "third"])


@played
async def test_one_that_waits_in_line_can_be_cancelled_there(place):
    gate = Gate()
    target.plan("first", gate)
    async with Ledger(place) as ledger:
        await ledger.enqueue(keyed("first"), operation="first", resource="account")
        await ledger.enqueue(keyed("second"), operation="second", resource="account")
        third = await ledger.enqueue(keyed("third"), operation="third", resource="account")
        await ledger.work()
        await gate.reached.wait()
        await ledger.app.cancel("second", by="ann", reason="not wanted")
        await reaches(ledger.app, "second", RunState.CANCELLED)
        gate.opened.set()
        assert await third.result(within="20s") == "made third"
    assert target.requests == ["first", "third"]


@played
async def test_two_workers_keep_the_order_of_each_resource_and_do_everything_once(place):
    async with Ledger(place, effects=[keyed]) as one, Ledger(place, effects=[keyed]) as other:
        await one.work()
        await other.work()
        handles = []
        for number in range(24):
            with driver(place) as connection:
                resource = f"account:{number % 3}"
                handles.append(
                    await one.enqueue(
                        keyed(f"{number:02}"), operation=f"o{number}", resource=resource, connection=connection
                    )
                )
                connection.commit()
        for handle in handles:
            await handle.result(within="30s")
    assert sorted(target.requests) == [f"{number:02}" for number in range(24)]
    for account in range(3):
        mine = [request for request in target.requests if int(request) % 3 == account]
        assert mine == sorted(mine)


@played
async def test_the_same_operation_for_another_resource_is_refused(place):
    async with Ledger(place) as ledger:
        await ledger.enqueue(keyed("a"), operation="o", resource="account:1")
        with pytest.raises(RunInputMismatch, match="resource"):
            await ledger.enqueue(keyed("a"), operation="o", resource="account:2")
        assert await ledger.perform(keyed("a"), operation="o") == "made a"


@played
async def test_a_worker_elsewhere_hears_of_the_commit_soon(place):
    async with Ledger(place, effects=[keyed]) as worker, Ledger(place) as ledger:
        await worker.work()
        await until(lambda: worker.app._workers, "it to work")
        with driver(place) as connection:
            handle = await ledger.enqueue(keyed("a"), operation="a", connection=connection)
            connection.commit()
        assert await handle.result(within="5s") == "made a"
