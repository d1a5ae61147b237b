"""An atomic effect: its rows in the ledger's own database and its result are one commit, or neither is there."""

import asyncio
import sqlite3
from contextlib import closing
from typing import Any

import pytest

from fencepost import Call, DeclarationError, Permanent, Retry, Run, RunFailed, SyncCall, Transient, effect, workflow
from fencepost.core.states import OperationState, Outcome, RunState
from fencepost.runtime.app import App
from fencepost.runtime.contracts import recovery_table
from tests.runtime.stage import expire, operation, played, reaches, working

SOON = Retry(attempts=3, within="15m", first_delay="1ms", longest_delay="2ms")
INSERT = {"sqlite3": "INSERT INTO entry VALUES (?, ?)"}
INSERT["fencepost"] = "INSERT INTO entry VALUES (%s, %s)"  # a psycopg connection that the ledger lends
TABLE = "CREATE TABLE IF NOT EXISTS entry (account TEXT NOT NULL, amount INTEGER NOT NULL)"


class Plan:
    """What the body does beside its entry, attempt by attempt; the rest of them only write."""

    def __init__(self) -> None:
        self.doings: list[str] = []

    def next(self) -> str:
        return self.doings.pop(0) if self.doings else "writes"


plan = Plan()


@effect(atomic=True, retry=SOON, reference="account")
def book(call: SyncCall, account: str, amount: int) -> dict[str, str]:
    doing = plan.next()
    call.transaction.execute(TABLE)
    call.transaction.execute(INSERT[type(call.transaction).__module__.partition(".")[0]], (account, amount))
    match doing:
        case "is busy":
            raise Transient("not now")
        case "refuses":
            raise Permanent("no such account")
        case "commits by itself":
            call.transaction.commit()
        case "writes to the ledger":
            call.transaction.execute("UPDATE run SET generation = 99")
        case "sends":
            with call.sending():
                pass
    return {"account": account}


@workflow()
async def pay(run: Run, account: str) -> str:
    booked = await run.do(book(account, 7), item="first")
    return booked["account"]


@pytest.fixture
def db(url: str) -> str:
    """The URL of a new ledger, beside which nobody has booked yet."""
    plan.doings = []
    with closing(connected(url)) as inside:
        inside.execute("DROP TABLE IF EXISTS entry")
        inside.commit()
    return url


def entries(db: str) -> list[tuple[str, int]]:
    with closing(connected(db)) as inside:
        inside.execute(TABLE)
        return list(inside.execute("SELECT * FROM entry").fetchall())


def connected(db: str) -> Any:
    if db.startswith("sqlite:"):
        return sqlite3.connect(db.removeprefix("sqlite:///"))
    import psycopg

    return psycopg.connect(db.replace("&schema=", "&application_name="))


@played
async def test_the_entry_and_the_result_are_there_together(db):
    async with working(db, pay) as app:
        assert await (await app.start(pay, "a", id="r")).result(within="20s") == "a"
        booked = await operation(app, "r", "book", "first")
    assert entries(db) == [("a", 7)]
    assert (booked.state, booked.reference, booked.delivered) == (OperationState.SUCCEEDED, "a", 1)
    assert [attempt.outcome for attempt in booked.attempts] == [Outcome.APPLIED]


@played
async def test_an_attempt_that_raised_has_written_nothing_and_the_next_one_is_alone(db):
    plan.doings = ["is busy", "is busy"]
    async with working(db, pay) as app:
        await (await app.start(pay, "a", id="r")).result(within="20s")
        booked = await operation(app, "r", "book", "first")
    assert entries(db) == [("a", 7)]
    outcomes = [Outcome.NOT_APPLIED, Outcome.NOT_APPLIED, Outcome.APPLIED]
    assert [attempt.outcome for attempt in booked.attempts] == outcomes


@pytest.mark.parametrize("doing", ["refuses", "commits by itself", "writes to the ledger", "sends"])
def test_what_the_body_must_not_do_takes_its_entry_back_with_it(db, doing):
    if doing == "writes to the ledger" and not db.startswith("sqlite:"):
        doing = "refuses"  # a server's own permissions say who may write to which schema

    async def play():
        plan.doings = [doing]
        async with working(db, pay) as app:
            with pytest.raises(RunFailed):
                await (await app.start(pay, "a", id="r")).result(within="20s")
            assert (await operation(app, "r", "book", "first")).state is OperationState.FAILED

    asyncio.run(play())
    assert entries(db) == []


@played
async def test_an_owner_that_was_taken_over_commits_nothing_and_its_heir_books_once(db, monkeypatch):
    async with working(db, pay) as stale:
        transact = stale.store.transact
        taken_over = asyncio.Event()
        loop = asyncio.get_running_loop()

        def late(run, work, **options):
            # Dispatched, and paused before its transaction begins.
            expire(stale)
            asyncio.run_coroutine_threadsafe(taken_over.wait(), loop).result()
            return transact(run, work, **options)

        monkeypatch.setattr(stale.store, "transact", late)
        await stale.start(pay, "a", id="r")
        async with working(db, pay) as heir:
            await reaches(heir, "r", RunState.SUCCEEDED)
            taken_over.set()
            booked = await operation(heir, "r", "book", "first")
    assert entries(db) == [("a", 7)]
    assert [attempt.outcome for attempt in booked.attempts] == [Outcome.NOT_APPLIED, Outcome.APPLIED]
    assert booked.lookups == 0


@played
async def test_a_run_that_stopped_between_the_commit_and_the_answer_goes_on_with_the_result(db, monkeypatch):
    async with working(db, pay) as first:
        transact = first.store.transact

        def cut_off(run, work, **options):
            committed = transact(run, work, **options)
            expire(first)
            asyncio.run_coroutine_threadsafe(reaches(first, "r", RunState.SUCCEEDED), loop).result()
            return committed

        loop = asyncio.get_running_loop()
        monkeypatch.setattr(first.store, "transact", cut_off)
        handle = await first.start(pay, "a", id="r")
        async with working(db, pay):
            assert await handle.result(within="20s") == "a"
    assert entries(db) == [("a", 7)]


def test_an_async_body_cannot_be_atomic():
    with pytest.raises(DeclarationError, match="plain function"):

        @effect(atomic=True)
        async def wrong(call: Call, account: str) -> str:
            return account


def test_nothing_else_is_declared_beside_it():
    with pytest.raises(DeclarationError, match="is atomic"):

        @effect(atomic=True, on_unknown="hold")
        def wrong(call: SyncCall, account: str) -> str:
            return account


@played
async def test_other_steps_have_no_transaction(db):
    @effect(on_unknown="hold")
    def plain(call: SyncCall, account: str) -> str:
        return str(call.transaction)

    @workflow()
    async def wrong(run: Run, account: str) -> str:
        return await run.do(plain(account))

    async with working(db, wrong) as app:
        await app.start(wrong, "a", id="r")
        await reaches(app, "r", RunState.HELD)


def test_its_contract_says_so():
    (row,) = [row for row in recovery_table(App("sqlite:///x.db", workflows=[pay])) if row.step == "book"]
    assert row.guarantee == "atomic: applied in the same commit as the ledger"
    assert "did not commit" in row.safe_to_run_again
