"""The server refuses a transaction, or ends its session, for reasons that pass: it is done again, and nothing twice.

Real locks and real limits where they can be had, and a trigger that raises a code where they cannot, in the middle of a
transaction or at its COMMIT. Servers that are gone altogether are in test_failover and test_postgres_commits.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager

import psycopg
import pytest

from fencepost import App, Retry, Run, SyncCall, effect, workflow
from tests.polling import until as wait_until
from tests.runtime.stage import Gate, asked, keyed, once, played, target, until, working
from tests.services.fixtures import Place

RUNS = 12


@workflow()
async def three(run: Run, name: str) -> str:
    await run.do(keyed(f"{name} keyed"), item="1")
    await run.do(once(f"{name} once"), item="2")
    return await run.do(asked(f"{name} asked"), item="3")


@pytest.fixture(autouse=True)
def outside() -> None:
    target.reset()


async def all_end_once(app: App, *, during: Callable[[], Awaitable[None]] | None = None) -> None:
    """Start runs, let something happen to them, and count what they made."""
    handles = [await app.start(three, f"r{number}", id=f"r{number}") for number in range(RUNS)]
    if during is not None:
        await during()
    ends = [await handle.result(within="30s") for handle in handles]
    assert ends == [f"made r{number} asked" for number in range(RUNS)]
    assert sorted(target.objects) == sorted(f"r{n} {step}" for n in range(RUNS) for step in ("keyed", "once", "asked"))


CODES = {
    "40001": "a serialization failure",
    "40P01": "a deadlock",
    "55P03": "a lock that was not free",
    "57014": "a statement that took too long",
    "53100": "no room on the disk",
    "53200": "no memory",
}

RAISE = """
CREATE SEQUENCE {schema}.raised;
CREATE FUNCTION {schema}.raise_at_times() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF nextval('{schema}.raised') % 3 = 0 THEN
        RAISE EXCEPTION 'as if' USING ERRCODE = '{code}';
    END IF;
    RETURN NULL;
END $$;
CREATE CONSTRAINT TRIGGER raise_at_times AFTER INSERT OR UPDATE ON {schema}.mark {when}
FOR EACH ROW EXECUTE FUNCTION {schema}.raise_at_times();
"""


@pytest.mark.parametrize("when", ["", "DEFERRABLE INITIALLY DEFERRED"], ids=["in the middle", "at COMMIT"])
@pytest.mark.parametrize("code", CODES, ids=CODES.values())
@played
async def test_every_third_transaction_is_refused_and_every_run_ends_once(postgres: Place, code, when) -> None:
    async with working(postgres.url(), three) as app:
        raising = RAISE.format(schema=postgres.schema, code=code, when=when)
        with psycopg.connect(postgres.server.url(), autocommit=True) as connection:
            connection.execute(raising.encode())
        await all_end_once(app)
    assert postgres.server.ask(f"SELECT last_value FROM {postgres.schema}.raised")[0][0] >= 15  # noqa: S608 - our own names


@contextmanager
def shell(place: Place) -> Iterator[psycopg.Connection]:
    """A session of somebody else, in a transaction, which is undone at the end."""
    with closing(psycopg.connect(place.server.url())) as connection:
        connection.execute(f"SET search_path = {place.schema}".encode())
        connection.execute("SET deadlock_timeout = '60s'")  # of two that wait for each other the other one gives way
        yield connection
        connection.rollback()


def deadlocks(place: Place) -> int:
    return int(place.server.ask("SELECT sum(deadlocks) FROM pg_stat_database")[0][0])


@played
async def test_in_a_deadlock_with_another_session_the_batch_gives_way_and_is_written_afterwards(
    postgres: Place,
) -> None:
    gates = [Gate(), Gate()]
    for number, gate in enumerate(gates):
        target.plan(f"r{number} once", gate)
    before = deadlocks(postgres)
    async with working(postgres.url(options="-c%20deadlock_timeout%3D50ms"), three) as app:
        handles = [await app.start(three, f"r{number}", id=f"r{number}") for number in range(2)]
        for gate in gates:
            await gate.reached.wait()
        with shell(postgres) as other:
            other.execute("SELECT FROM run WHERE id = 'r1' FOR UPDATE")
            for gate in gates:  # both replies are in one batch, which locks r0 and waits for r1
                gate.opened.set()
            await until(lambda: postgres.server.ask("SELECT 1 FROM pg_locks WHERE NOT granted"), "the batch to wait")
            await asyncio.to_thread(other.execute, "SELECT FROM run WHERE id = 'r0' FOR UPDATE")
        for number, handle in enumerate(handles):
            assert await handle.result(within="20s") == f"made r{number} asked"
    await until(lambda: deadlocks(postgres) > before, "the server to have counted a deadlock")
    assert sorted(target.objects) == sorted(f"r{n} {step}" for n in range(2) for step in ("keyed", "once", "asked"))


def refused_in_vain(place: Place, seen: set[tuple[object, ...]]) -> bool:
    """Whether three transactions, one after the other, have been seen to wait for a lock."""
    seen |= set(place.server.ask("SELECT pid, xact_start FROM pg_stat_activity WHERE wait_event_type = 'Lock'"))
    return len(seen) >= 3


@pytest.mark.parametrize("limit", ["lock_timeout", "statement_timeout"])
@played
async def test_while_somebody_keeps_the_runs_locked_nothing_is_sent_and_then_every_run_ends_once(
    postgres: Place, limit: str
) -> None:
    gates = {f"r{number} keyed": Gate() for number in range(RUNS)}
    for name, gate in gates.items():
        target.plan(name, gate)

    seen: set[tuple[object, ...]] = set()

    async def keep_them_locked() -> None:
        for gate in gates.values():
            await gate.reached.wait()
        with shell(postgres) as other:
            other.execute("SELECT FROM run FOR UPDATE")
            for gate in gates.values():
                gate.opened.set()
            await until(lambda: refused_in_vain(postgres, seen), "several transactions to have waited")
            assert sorted(target.requests) == sorted(gates)

    async with working(postgres.url(options=f"-c%20{limit}%3D100ms"), three) as app:
        await all_end_once(app, during=keep_them_locked)


@played
async def test_sessions_that_an_administrator_ends_again_and_again_are_made_anew(postgres: Place) -> None:
    async def end_sessions() -> None:
        while len(target.objects) < 3 * RUNS:
            await asyncio.to_thread(postgres.server.kill_connections, "often-ended")
            await asyncio.sleep(0.01)

    async with working(postgres.url(application_name="often-ended"), three, lease="2s", margin="300ms") as app:
        await all_end_once(app, during=end_sessions)


@effect(atomic=True, retry=Retry(attempts=5, within="5m", first_delay="1ms", longest_delay="5ms"))
def book(call: SyncCall, ends: str) -> str:
    """Write a row in the ledger's own database; the first time, idle until the transaction is over."""
    call.transaction.execute("INSERT INTO public.booked VALUES (1)")
    if not target.requests:
        wait_until(lambda: "ended" in target.objects, "the session to be ended")
    target.requests.append(ends)
    return "booked"


@workflow()
async def booking(run: Run, ends: str) -> str:
    return await run.do(book(ends))


@pytest.mark.parametrize("ends", ["by its own limit", "by an administrator"])
@played
async def test_an_idle_transaction_that_is_ended_has_written_nothing_and_is_done_again(postgres: Place, ends) -> None:
    idle = "SELECT pid FROM pg_stat_activity WHERE state = 'idle in transaction' AND application_name = 'idles'"
    server = postgres.server
    server.ask("DROP TABLE IF EXISTS public.booked")
    server.ask("CREATE TABLE public.booked (one int)")
    patience = "300ms" if ends == "by its own limit" else "10s"
    async with working(postgres.url(application_name="idles"), booking, patience=patience) as app:
        handle = await app.start(booking, ends, id="r")
        await until(lambda: server.ask(idle), "the body to idle")
        if ends == "by an administrator":
            server.kill_connections("idles")
        await until(lambda: not server.ask(idle), "its session to be over")
        target.objects.append("ended")
        assert await handle.result(within="20s") == "booked"
    assert server.ask("SELECT count(*) FROM public.booked") == [(1,)]
