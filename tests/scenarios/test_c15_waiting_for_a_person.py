"""C15: one branch waits for a person; when the run goes on, its finished siblings are not done again."""

import pytest

from fencepost.core.states import RunState
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from tests.runtime.stage import keyed, once, operation, played, reaches, target, until, working

QUESTIONS = 5


@workflow()
async def side_by_side(run: Run, questions: int) -> str:
    async def after_approval() -> str:
        for number in range(questions):
            await run.wait(f"question-{number}", bool)
        return await run.do(keyed("b"))

    await run.gather(run.do(once("a")), after_approval())
    return "both"


@workflow()
async def parent(run: Run, questions: int) -> str:
    return await run.child(side_by_side, questions, id="r")


@pytest.mark.parametrize("questions", [1, QUESTIONS])
@played
async def test_a_finished_sibling_is_not_done_again_after_each_restart(db, questions):
    async with working(db, side_by_side) as app:
        await app.start(side_by_side, questions, id="r")
        await reaches(app, "r", RunState.WAITING)
    for number in range(questions):
        async with working(db, side_by_side) as app:
            await app.signal("r", f"question-{number}", True, id=f"s{number}")
            await reaches(app, "r", RunState.WAITING if number + 1 < questions else RunState.SUCCEEDED)
    async with working(db, side_by_side) as app:
        assert (target.requests.count("a"), target.requests.count("b")) == (1, 1)
        assert (target.objects.count("a"), target.objects.count("b")) == (1, 1)
        assert len((await operation(app, "r", "once")).attempts) == 1


@pytest.mark.parametrize("questions", [1, QUESTIONS])
@played
async def test_nor_when_both_live_in_a_child_run(db, questions):
    async with working(db, parent, side_by_side) as app:
        await app.start(parent, questions, id="parent")
        await until(lambda: app.store.find("default", "r"), "the child to begin")
        await reaches(app, "r", RunState.WAITING)
    for number in range(questions):
        async with working(db, parent, side_by_side) as app:
            await app.signal("r", f"question-{number}", True, id=f"s{number}")
            await reaches(app, "r", RunState.WAITING if number + 1 < questions else RunState.SUCCEEDED)
    async with working(db, parent, side_by_side) as app:
        assert await (await app.handle("parent")).result(within="20s") == "both"
        assert (target.requests.count("a"), target.requests.count("b")) == (1, 1)
        assert (target.objects.count("a"), target.objects.count("b")) == (1, 1)
        assert len((await operation(app, "r", "once")).attempts) == 1
