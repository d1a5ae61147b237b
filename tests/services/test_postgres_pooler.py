"""Behind a pooler that lends a server connection per transaction, and with a single connection, everything still works.

What NOTIFY does without one in between is in test_postgres_listener.
"""

import asyncio
import json
import subprocess
import sys
from collections import Counter

import pytest

from fencepost.runtime.app import App
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from fencepost.store.api import Answer
from fencepost.store.open import open_store
from tests.services.fixtures import Place
from tests.services.pooler import Pooler
from tests.store import build


@workflow()
async def greeted(run: Run) -> str:
    return f"hello {await run.wait('name', str)}"


PROCESSES, ROUNDS = 4, 20


def complete_runs(url: str) -> Counter[str]:
    """What several processes report that claim and complete runs on one ledger."""
    store = open_store(url)
    for number in range(PROCESSES * ROUNDS):
        store.start_run(build.new_run(f"run-{number}"))
    store.close()
    children = [
        subprocess.Popen(
            [sys.executable, "-m", "tests.store.claimer", url, f"worker-{number}", str(ROUNDS)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )
        for number in range(PROCESSES)
    ]  # fmt: skip
    seen: Counter[str] = Counter()
    for child in children:
        out, err = child.communicate(timeout=120)
        assert err == ""
        seen.update(json.loads(out))
    return seen


def test_processes_behind_a_pooler_complete_every_run_once(pooler: Pooler, postgres: Place) -> None:
    url = pooler.url(postgres.schema, pooler="transaction")

    assert complete_runs(url) == {"completed": PROCESSES * ROUNDS}


def test_a_pooler_that_nobody_has_spoken_of_costs_a_retry_and_nothing_else(pooler: Pooler, postgres: Place) -> None:
    # Prepared statements turn out not to be there, or to be there already.
    assert complete_runs(pooler.url(postgres.schema)) == {"completed": PROCESSES * ROUNDS}


def test_one_connection_is_enough_for_processes(postgres: Place) -> None:
    assert complete_runs(postgres.url(connections=1)) == {"completed": PROCESSES * ROUNDS}


@pytest.mark.parametrize("more", [{"connections": 1}, {"connections": 2}, {}])
def test_a_process_opens_no_more_connections_than_agreed(postgres: Place, more: dict[str, int]) -> None:
    async def story() -> None:
        url = postgres.url(application_name=postgres.schema, **more)
        async with App(url, workflows=[greeted]) as app, app.worker():
            handles = [await app.start(greeted, id=f"run-{number}") for number in range(20)]
            await asyncio.gather(*(app.signal(f"run-{number}", "name", "Ada") for number in range(20)))
            assert {await handle.result(within="20s") for handle in handles} == {"hello Ada"}
            assert 1 <= postgres.server.connections(postgres.schema) <= more.get("connections", 5)

    asyncio.run(story())


def test_a_worker_behind_a_pooler_looks_for_what_it_cannot_hear_of(pooler: Pooler, postgres: Place) -> None:
    url = pooler.url(postgres.schema, pooler="transaction")

    async def story() -> None:
        async with App(url, workflows=[greeted]) as elsewhere, App(url, workflows=[greeted]) as app, app.worker():
            handle = await elsewhere.start(greeted, id="run-1")
            await elsewhere.signal("run-1", "name", "Ada")
            assert await handle.result(within="20s") == "hello Ada"

    asyncio.run(story())


def test_statements_are_planned_anew_in_each_transaction_where_a_pooler_is_named(
    pooler: Pooler, postgres: Place
) -> None:
    store = open_store(pooler.url(postgres.schema, pooler="transaction"), clock=lambda: build.NOW)
    store.take_lease(build.lease())
    run, _ = store.start_run(build.new_run(lease="lease-1"))

    assert store.commit([build.group(run, build.new_operation(run))], patience=1) == [Answer.MOVED]
    store.close()
