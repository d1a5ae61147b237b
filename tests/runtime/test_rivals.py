"""Two runs that stand for the same in a queue: what has ended does not go on beside the other, and goes back beside it.

Which verbs could let two go on is read off the table of transitions: one that is not played here fails by that.
"""

import asyncio
from contextlib import suppress
from typing import NamedTuple

import pytest

from fencepost.core.contract import Retry
from fencepost.core.errors import NotSent, VerbRefused
from fencepost.core.queue import Queue
from fencepost.core.states import FINAL_RUN_STATES, RunState
from fencepost.core.transitions import RUN, RunEvent
from fencepost.effects.call import Call
from fencepost.effects.declare import effect
from fencepost.runtime.app import App
from fencepost.runtime.applicable import verbs_for
from fencepost.runtime.bulk import IN_BULK, Selection
from fencepost.runtime.repertoire import ON_RUNS
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from tests.runtime.callers import KINDS, calling, make_table
from tests.runtime.stage import keyed, once, played, reaches, target, undo
from tests.services.fixtures import DIALECTS

SAME = {"queue": "q", "dedup": "the same"}
ONCE = Retry(attempts=1, within="1m")


@effect(on_unknown="hold", retry=ONCE, compensate=undo, forward=keyed)
async def tried(call: Call, name: str) -> str:
    return await target.take(call, name)


@workflow()
async def does(run: Run, name: str) -> str:
    await run.do(keyed(f"{name} first"))
    return await run.do(tried(name))


@workflow()
async def holds(run: Run, name: str) -> str:
    await run.do(keyed(f"{name} first"))
    return await run.do(once(name))


@workflow()
async def waits(run: Run, name: str) -> str:
    return await run.wait("go", str)


CODE = (does, holds, waits)


class End(NamedTuple):
    """How the first run comes to its end: what happens to its second effect, and what a person does then."""

    plan: tuple[object, ...]
    code: object
    verb: str | None = None


ENDS = {
    RunState.SUCCEEDED: End((), does),
    RunState.FAILED: End((NotSent("no"),), does),
    RunState.TERMINATED: End(("lose",), holds, "terminate"),
    RunState.CANCELLED: End(("commit",), waits, "cancel"),
}
BY_EVENT = {"reopen": RunEvent.REOPEN, "resume": RunEvent.RESUME, "forward": RunEvent.RESUME}
"""Each verb that lets a run go on that has ended."""

GO_ON = [
    (verb, state) for verb, event in BY_EVENT.items() for state in ENDS
    if RUN.allows(state, event) and state is not RunState.CANCELLED
]  # fmt: skip
GO_BACK = [state for state in ENDS if RUN.allows(state, RunEvent.COMPENSATE) and state is not RunState.CANCELLED]


def arguments(verb: str) -> dict[str, str]:
    return {"by": "ann", "reason": "again"} | ({"step": "tried"} if verb == "forward" else {})


def app_of(db: str) -> App:
    return App(db, workflows=CODE, queues=[Queue("q")])


async def ended(db: str, state: RunState) -> None:
    """Leave a run "r1" in the ledger that has ended like this, and no worker."""
    end = ENDS[state]
    target.plan("a", *end.plan)
    async with app_of(db) as app, app.worker():
        await app.start(end.code, "a", id="r1", **SAME)
        if end.verb is not None:
            await reaches(app, "r1", RunState.HELD, RunState.WAITING)
            await app._verb(ON_RUNS[end.verb], "r1", by="ann", reason="enough")
        await reaches(app, "r1", state)


def test_every_way_on_from_an_end_is_played_here():
    ways = {row.event for row in RUN.rows() if row.state in FINAL_RUN_STATES and row.to not in FINAL_RUN_STATES}
    assert ways == {*BY_EVENT.values(), RunEvent.COMPENSATE}
    assert {RUN.after(state, RunEvent.COMPENSATE) for state in GO_BACK} == {RunState.COMPENSATING}
    assert len(GO_ON) == 4


@pytest.mark.parametrize(("verb", "state"), GO_ON)
@played
async def test_what_has_ended_does_not_go_on_beside_another_that_stands_for_the_same(db, verb, state):
    await ended(db, state)
    async with app_of(db) as app:
        code = ENDS[state].code
        assert (await app.start(code, "b", id="r2", **SAME)).id == "r2"
        before, rows = await app.show("r1"), len(await app.audit())
        assert verb not in verbs_for(before)
        with pytest.raises(VerbRefused, match="run r2, which is ready, stands for the same in queue q") as refused:
            await app._verb(ON_RUNS[verb], "r1", **arguments(verb))
        assert "wait until that one has ended" in refused.value.hint
        if verb in IN_BULK:
            for dry_run in (True, False):
                (one,) = await app.bulk(verb, Selection(state=state.value), dry_run=dry_run, **arguments(verb))
                assert "r2, which is ready" in one.refused
        assert await app.show("r1") == before
        refusals = await app.audit(run="r1", verb=verb, outcome="refused")
        assert [one.actor for one in refused_by(refusals)] == ["ann"] * len(refusals)
        assert len(await app.audit()) == rows + len(refusals)

        await app.terminate("r2", by="ann", reason="r1 it is")
        await app._verb(ON_RUNS[verb], "r1", **arguments(verb))
        assert (await app.start(code, "a", id="r3", **SAME)).id == "r1", "the older one goes on, so it is the one"
        assert [one.id for one in await app.runs()] == ["r2", "r1"]


def refused_by(rows):
    assert rows, "a refusal leaves its row"
    return [row for row in rows if "stands for the same" in row.reason]


@pytest.mark.parametrize("state", GO_BACK)
@played
async def test_what_has_ended_goes_back_beside_another_that_stands_for_the_same(db, state):
    await ended(db, state)
    async with app_of(db) as app:
        await app.start(waits, "b", id="r2", **SAME)
        if state is RunState.TERMINATED:
            await app.settle("r1", "once", happened=True, result='"seen"', by="ann", reason="it is there")
        assert "compensate" in verbs_for(await app.show("r1"))
        await app.compensate("r1", by="ann", reason="not wanted")
        async with app.worker():
            await reaches(app, "r1", RunState.COMPENSATED)
            await reaches(app, "r2", RunState.WAITING)
    assert "undo a first" in target.objects


@played
async def test_what_goes_back_stands_for_nothing_even_while_it_is_held(db):
    target.plan("a", "lose")
    async with app_of(db) as app, app.worker():
        await app.start(holds, "a", id="r1", **SAME)
        await reaches(app, "r1", RunState.HELD)
        assert (await app.start(holds, "a", id="r2", **SAME)).id == "r1", "held, it still stands for it"
        await app.cancel("r1", by="ann", reason="stop")
        second = await app.start(waits, "b", id="r2", **SAME)
        assert second.id == "r2"
        await reaches(app, "r1", RunState.HELD)  # beside the other: nobody knows yet whether it happened
        await app.settle("r1", "once", happened=True, result='"seen"', by="ann", reason="it is there")
        await reaches(app, "r1", RunState.CANCELLED)
        await app.reopen("r1", by="ann", reason="look once more")
        await reaches(app, "r1", RunState.CANCELLED)
        target.plan("undo a", "lose")
        await app.compensate("r1", by="ann", reason="not wanted")
        await reaches(app, "r1", RunState.HELD)
        await app.settle("r1", "compensate once", happened=True, result='"x"', by="ann", reason="seen", override=True)
        await reaches(app, "r1", RunState.COMPENSATED)
        assert await second.state() is RunState.WAITING


@played
async def test_of_two_that_are_reopened_at_once_one_goes_on_and_the_other_is_refused(db):
    async with app_of(db) as app, app_of(db) as other:
        for run in ("r1", "r2"):
            await app.start(waits, run, id=run, **SAME)
            await app.terminate(run, by="ann", reason="enough")
        for _ in range(10):
            answers = await asyncio.gather(
                app.reopen("r1", by="ann", reason="go"), other.reopen("r2", by="bob", reason="go"),
                return_exceptions=True,
            )  # fmt: skip
            assert sorted(type(one).__name__ for one in answers) == ["Run", "VerbRefused"], answers
            for run in ("r1", "r2"):
                with suppress(VerbRefused):
                    await app.terminate(run, by="ann", reason="once more")


@pytest.mark.parametrize(("dialect", "kind"), [(dialect, kind) for dialect in DIALECTS for kind in KINDS[dialect][:1]])
@played
async def test_a_reopen_waits_for_a_start_that_is_not_committed_and_is_refused_if_that_is(db, kind):
    async with app_of(db) as app:
        await app.start(waits, "a", id="r1", **SAME)
        await app.terminate("r1", by="ann", reason="enough")
        make_table(db)
        async with calling(kind, db) as caller:
            await caller.write("what it is about")
            await app.start(waits, "b", id="r2", connection=caller.connection, **SAME)
            reopening = asyncio.create_task(app.reopen("r1", by="ann", reason="go on"))
            await asyncio.wait([reopening], timeout=0.2)
            assert not reopening.done()
            await caller.commit()
            with pytest.raises(VerbRefused, match="run r2, which is ready"):
                await reopening
