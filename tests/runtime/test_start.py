"""Starting a run: once for one business event, and never with another input. What the run then does is elsewhere."""

import asyncio

import pytest

from fencepost.core.errors import Misuse, RunInputMismatch, RunNotFound, ValueRefused
from fencepost.core.states import RunState
from fencepost.effects.values import VALUE_MAX
from fencepost.runtime.app import App
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from tests.runtime.stage import once, played, target, working


@workflow()
async def one(run: Run, name: str) -> str:
    return await run.do(once(name))


@workflow()
async def other(run: Run, name: str) -> str:
    return await run.do(once(name))


@played
async def test_a_run_that_is_started_twice_is_one_run(db):
    async with working(db, one) as app:
        first = await app.start(one, "a", id="r")
        second = await app.start(one, "a", id="r")
        assert (await first.result(), await second.result()) == ("made a", "made a")
        assert await (await app.start(one, "a", id="r")).result() == "made a"
    assert target.requests == ["a"]


@played
async def test_a_hundred_starts_of_one_id_in_one_turn_are_one_run(db):
    async with working(db, one) as app:
        handles = await asyncio.gather(*(app.start(one, "a", id="r") for _ in range(100)))
        assert {await handle.result() for handle in handles} == {"made a"}
    assert target.requests == ["a"]


@played
async def test_the_same_id_with_another_input_is_refused_and_changes_nothing(db):
    async with working(db, one) as app:
        handle = await app.start(one, "a", id="r")
        with pytest.raises(RunInputMismatch) as refused:
            await app.start(one, "b", id="r")
        assert refused.value.ids["run"] == "r"
        assert refused.value.hint
        assert await handle.result() == "made a"
    assert target.requests == ["a"]


@played
async def test_the_same_id_with_another_workflow_is_refused(db):
    async with working(db, one, other) as app:
        await (await app.start(one, "a", id="r")).result()
        with pytest.raises(RunInputMismatch, match="workflow"):
            await app.start(other, "a", id="r")
    assert target.requests == ["a"]


@played
@pytest.mark.parametrize(("first", "second"), [("anna", "bert"), ("anna", None), (None, "bert")])
async def test_nobody_is_handed_a_run_that_acts_for_somebody_else(db, first, second):
    async with working(db, one) as app:
        await (await app.start(one, "a", id="r", on_behalf_of=first)).result()
        with pytest.raises(RunInputMismatch, match="principal"):
            await app.start(one, "a", id="r", on_behalf_of=second)
        assert await (await app.start(one, "a", id="r", on_behalf_of=first)).result() == "made a"
    assert target.requests == ["a"]


@played
async def test_two_processes_that_start_one_id_start_one_run(db):
    async with working(db, one) as app, working(db, one) as peer:
        handles = await asyncio.gather(app.start(one, "a", id="r"), peer.start(one, "a", id="r"))
        assert [await handle.result() for handle in handles] == ["made a", "made a"]
    assert target.requests == ["a"]


@played
async def test_a_run_without_a_worker_is_kept_until_one_comes(db):
    async with App(db, workflows=[one]) as app:
        handle = await app.start(one, "a", id="r")
        assert await handle.state() is RunState.READY
    async with working(db, one) as app:
        assert await (await app.handle("r")).result() == "made a"


@played
async def test_a_workflow_that_the_app_does_not_know_is_not_started(db):
    async with App(db, workflows=[one]) as app:
        with pytest.raises(Misuse, match="not one of this app's workflows"):
            await app.start(other, "a", id="r")
        with pytest.raises(RunNotFound):
            await app.handle("r")


@played
async def test_an_input_over_the_limit_is_refused_where_it_is_handed_in(db):
    async with App(db, workflows=[one]) as app:
        with pytest.raises(ValueRefused, match="more than the limit"):
            await app.start(one, "a" * (VALUE_MAX + 1), id="r")
        with pytest.raises(RunNotFound):
            await app.handle("r")


@played
async def test_a_namespace_keeps_the_runs_of_its_neighbours_apart(db):
    async with working(db, one, namespace="left") as left, working(db, one, namespace="right") as right:
        await (await left.start(one, "a", id="r")).result()
        await (await right.start(one, "b", id="r")).result()
        mine, theirs = await left.show("r"), await right.show("r")
        assert mine.operations[0].key != theirs.operations[0].key
    assert sorted(target.requests) == ["a", "b"]
