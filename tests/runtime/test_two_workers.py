"""Two workers on one file: two hundred runs, nothing twice and nothing lost, also when one keeps losing its lease.

Real processes are killed in tests/processes; here the two live in one, so that a failure can be looked at.
"""

import asyncio

import pytest

from fencepost.core.errors import Misuse
from fencepost.core.states import RunState
from fencepost.runtime.app import App
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from tests.runtime.stage import asked, keyed, lose, played, reaches, target, working


@workflow()
async def order(run: Run, number: int) -> str:
    first = await run.do(keyed(f"k{number}"))
    both = await run.gather(run.do(asked(f"a{number}"), item="1"), run.do(asked(f"b{number}"), item="2"))
    return f"{first} {both[0]}"


@played
async def test_two_hundred_runs_on_two_workers_do_everything_once(db):
    async with App(db, workflows=[order]) as starter:
        handles = [await starter.start(order, number, id=f"r{number}") for number in range(200)]
        async with working(db, order) as one, working(db, order) as two:
            for number, handle in enumerate(handles):
                assert await handle.result(within="60s") == f"made k{number} made a{number}"
            assert one._workers[0].claimed + two._workers[0].claimed == 200
    assert len(target.requests) == len(set(target.requests)) == len(target.objects) == 600


@played
async def test_a_worker_that_keeps_losing_its_lease_does_nothing_twice(db):
    for number in range(0, 50, 5):
        target.plan(f"k{number}", "lose")
        target.plan(f"a{number}", "lose")
        target.plan(f"b{number}", "drop")
    async with App(db, workflows=[order]) as starter:
        handles = [await starter.start(order, number, id=f"r{number}") for number in range(50)]
        async with working(db, order, lease="900ms", margin="100ms") as one, working(db, order) as two:
            for _ in range(5):
                lose(one)
                await asyncio.sleep(0.1)
            for number, handle in enumerate(handles):
                await reaches(two, f"r{number}", RunState.SUCCEEDED)
                assert await handle.result(within="60s") == f"made k{number} made a{number}"
    assert sorted(target.objects) == sorted(f"{kind}{number}" for kind in "kab" for number in range(50))


@played
async def test_an_app_that_works_already_refuses_a_second_worker_and_works_on(db):
    async with working(db, order) as app:
        with pytest.raises(Misuse, match="has a worker already"):
            async with app.worker():
                pass
        assert await (await app.start(order, 1, id="r")).result()
    async with App(db, workflows=[order]) as app:
        for _ in range(2):
            async with app.worker():
                pass
