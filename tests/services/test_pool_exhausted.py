"""One or two connections for fifty runs whose steps all fail at once: none is stuck, every budget counts right.

Whoever waits for a run does so for as long as they said, however long all connections are in use.
"""

import asyncio
from contextlib import suppress

import pytest

from fencepost import App, Handle, Retry, Run, RunHeld, SyncCall, Transient, effect, workflow
from fencepost.core.errors import StoreBusy
from fencepost.core.states import OperationState
from tests.runtime.stage import asked, keyed, operation, played, target, working
from tests.services.fixtures import Place

RUNS = 50


@workflow()
async def two(run: Run, name: str) -> str:
    await run.do(keyed(f"{name} keyed"))
    return await run.do(asked(f"{name} asked"))


@pytest.fixture(autouse=True)
def outside() -> None:
    target.reset()


@pytest.mark.parametrize("connections", [1, 2])
@played
async def test_every_step_fails_at_once_and_is_retried_within_its_budget(postgres: Place, connections: int) -> None:
    names = [f"r{number}" for number in range(RUNS)]
    spent = names[0]
    for name in names:
        target.plan(f"{name} keyed", "busy", "busy", "busy" if name == spent else "commit")
        target.plan(f"{name} asked", "busy", "lose")

    async with working(postgres.url(connections=connections, application_name="few"), two) as app:
        handles = await asyncio.gather(*(app.start(two, name, id=name) for name in names))
        used = postgres.server.connections("few")
        ends = await asyncio.gather(*(handle.result(within="60s") for handle in handles), return_exceptions=True)
        assert isinstance(ends[0], RunHeld)
        assert ends[1:] == [f"made {name} asked" for name in names[1:]]
        assert used <= connections
        for name in names:
            made = await operation(app, name, "keyed")
            assert len(made.attempts) == 3
            assert made.state is (OperationState.FAILED if name == spent else OperationState.SUCCEEDED)
        for name in names[1:]:
            assert len((await operation(app, name, "asked")).attempts) == 2
    sent = sorted(f"{name} {step}" for name in names[1:] for step in ("keyed", "asked"))
    assert sorted(target.requests) == sent
    assert sorted(target.objects) == sent


@effect(atomic=True, retry=Retry(attempts=3, within="5m", first_delay="1ms", longest_delay="5ms"))
def book(call: SyncCall, name: str) -> str:
    """Keep the transaction, and with it the connection, for a while; the first time for nothing."""
    call.transaction.execute("INSERT INTO public.booked_once VALUES (%s)", (name,))
    call.transaction.execute("SELECT pg_sleep(0.02)")
    if call.attempt == 1:
        raise Transient("not now")
    return f"booked {name}"


@workflow()
async def booking(run: Run, name: str) -> str:
    return await run.do(book(name))


async def started(app: App, name: str) -> Handle[str]:
    """Start a run as a caller does whom the bodies keep waiting: again, with the same id."""
    while True:
        with suppress(StoreBusy):
            return await app.start(booking, name, id=name)


@pytest.mark.parametrize("connections", [1, 2])
@played
async def test_bodies_that_wait_longer_for_the_connection_than_there_is_patience_are_not_charged_for_it(
    postgres: Place, connections: int
) -> None:
    postgres.server.ask("DROP TABLE IF EXISTS public.booked_once")
    postgres.server.ask("CREATE TABLE public.booked_once (name text)")
    names = [f"r{number}" for number in range(RUNS)]
    async with working(postgres.url(connections=connections), booking, patience="300ms") as app:
        handles = [await started(app, name) for name in names]
        ends = await asyncio.gather(*(handle.result(within="60s") for handle in handles), return_exceptions=True)
        assert ends == [f"booked {name}" for name in names]
        assert {len((await operation(app, name, "book")).attempts) for name in names} == {2}
    assert postgres.server.ask("SELECT count(*), count(DISTINCT name) FROM public.booked_once") == [(RUNS, RUNS)]


@played
async def test_whoever_waits_for_a_run_waits_on_while_every_connection_is_in_use(postgres: Place) -> None:
    async with App(postgres.url(connections=1), workflows=[two], patience="50ms") as app:
        handle = await app.start(two, "r", id="r")
        with app.store.walk():  # this process's only connection
            with pytest.raises(TimeoutError, match=r"after 200ms: all 1 connections"):
                await handle.result(within="200ms")
            waiting = asyncio.create_task(handle.result(within="20s"))
            async with working(postgres.url(), two) as elsewhere:
                assert await (await elsewhere.handle("r")).result(within="20s") == "made r asked"
            with pytest.raises(StoreBusy):
                await handle.state()
            assert not waiting.done()
        assert await waiting == "made r asked"
    assert target.requests == ["r keyed", "r asked"]
