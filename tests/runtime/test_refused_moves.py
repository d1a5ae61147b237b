"""Moves of a run's own owner that the ledger refuses: it is loaded again, and not for ever.

The rows are changed behind the worker's back, as by a hand on the file; a stale owner's moves are `test_stale_owner`.
"""

import sqlite3
from contextlib import closing

import pytest

from fencepost.core.errors import RunHeld
from fencepost.core.identity import operation_key
from fencepost.core.states import OperationState
from fencepost.runtime import verbs
from fencepost.runtime.run import Run
from fencepost.runtime.worker import RELOADS_MAX
from fencepost.runtime.workflow import workflow
from tests.runtime.stage import Gate, hold, keyed, once, operation, played, target, verb, working


@pytest.fixture
def db(tmp_path):
    """A file, which can be changed by hand."""
    return f"sqlite:///{tmp_path / 'ledger.db'}"


@workflow()
async def two(run: Run) -> str:
    await run.do(keyed("a"))
    return await run.do(once("b"))


@workflow()
async def other(run: Run) -> str:
    return await run.do(once("c"))


KEY_OF_ONCE = operation_key("default", "r", "once", None, 1)


def by_hand(db: str, statement: str, *values: str) -> None:
    """Change the file as no process of ours would."""
    with closing(sqlite3.connect(db.removeprefix("sqlite:///"), timeout=10)) as connection, connection:
        connection.execute(statement, values)


@played
async def test_a_key_that_another_run_has_already_holds_the_run_and_sends_nothing(db):
    """`duplicate`, and so it stays however often the run is loaded."""
    async with working(db, two, other) as app:
        await (await app.start(other, id="o")).result()
        by_hand(db, "UPDATE operation SET key = ?", KEY_OF_ONCE)
        handle = await app.start(two, id="r")
        with pytest.raises(RunHeld, match="MovesRefused"):
            await handle.result()
        told = await hold(app, "r")
        assert "duplicate" in told["detail"]
        assert "'once'" in told["detail"]
        assert (await operation(app, "r", "keyed")).state is OperationState.SUCCEEDED
        assert target.requests == ["c", "a"]
        by_hand(db, "UPDATE operation SET key = 'gone' WHERE run = 1")
        await verb(app, verbs.resume, "r")
        assert await handle.result() == "made b"


@played
async def test_a_write_that_never_fits_holds_the_run_after_a_few_loads(db, monkeypatch):
    """`illegal`, and so it stays however often the run is loaded."""
    gate = Gate()
    target.plan("a", gate)
    async with working(db, two) as app:
        handle = await app.start(two, id="r")
        await gate.reached.wait()
        by_hand(db, "CREATE TRIGGER never BEFORE INSERT ON operation BEGIN SELECT RAISE(IGNORE); END")
        loads = []
        load = app.store.load
        monkeypatch.setattr(app.store, "load", lambda no: loads.append(no) or load(no))
        gate.opened.set()
        with pytest.raises(RunHeld, match="MovesRefused: the ledger refused it as illegal"):
            await handle.result()
        assert len(loads) <= RELOADS_MAX + 2
        by_hand(db, "DROP TRIGGER never")
        await verb(app, verbs.resume, "r")
        assert await handle.result() == "made b"
    assert target.requests == ["a", "b"]


@played
async def test_an_operation_that_is_there_already_is_read_and_the_run_goes_on(db):
    """`duplicate` once: loaded again, the worker knows what it did not know, and nothing that it saw is lost."""
    gate, bound = Gate(), once("b")
    bound.performed = True
    target.plan("a", gate)
    async with working(db, two) as app:
        handle = await app.start(two, id="r")
        await gate.reached.wait()
        by_hand(
            db,
            "INSERT INTO operation (run, step, item, effect, contract_version, key, key_scheme, scope, request,"
            " fingerprint, state, attempts, generation, budget_from, reserved_at, changed_at)"
            " SELECT run, 'once', '', 'once', contract_version, ?, key_scheme, scope, ?,"
            " ?, 'reserved', 0, generation, budget_from, reserved_at, changed_at FROM operation",
            KEY_OF_ONCE,
            bound.request,
            bound.fingerprint,
        )
        gate.opened.set()
        assert await handle.result() == "made b"
    assert target.requests == ["a", "b"]
