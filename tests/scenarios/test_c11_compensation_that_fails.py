"""C11: a compensation fails, or there is nothing to compensate with any more; the run is never called compensated."""

import pytest

from fencepost.core.errors import CompensationIncomplete
from fencepost.core.states import OperationState, RunState
from fencepost.effects.call import Call
from fencepost.effects.declare import Effect, effect
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from tests.runtime.stage import QUICK, operation, played, reaches, target, undo, working


def of_second(compensate: Effect | None):
    """The second of three effects, as a deployment has it: with what compensates it, or without."""

    @effect(on_unknown="hold", retry=QUICK, name="second", compensate=compensate)
    async def second(call: Call, name: str) -> str:
        return await target.take(call, name)

    return second


@effect(on_unknown="hold", retry=QUICK, name="other", compensate=undo)
async def other(call: Call, name: str) -> str:
    return await target.take(call, name)


def three_effects(second: Effect, *, rests: bool):
    @workflow(name="three")
    async def three(run: Run) -> str:
        await run.do(other("1"), item="1")
        await run.do(second("2"), after=[(other, "1")] if rests else [])
        await run.do(other("3"), item="3")
        await run.compensate(reason="the fourth failed")
        return "done"

    return three


def undone() -> list[str]:
    return [name.removeprefix("undo ") for name in target.objects if name.startswith("undo ")]


@pytest.fixture(autouse=True)
def outside():
    target.reset()


@pytest.mark.parametrize(("rests", "others"), [(False, ["3", "1"]), (True, ["3"])])
@played
async def test_what_is_independent_is_undone_and_an_operator_tries_only_the_rest_again(url, rests, others):
    target.plan("undo 2", "refuse")
    three = three_effects(of_second(undo), rests=rests)
    async with working(url, three) as app:
        handle = await app.start(three, id="r")
        with pytest.raises(CompensationIncomplete, match=f"{len(others)} of 3"):
            await handle.result()
        assert await handle.state() is RunState.PARTLY_COMPENSATED
        assert undone() == others
        assert (await operation(app, "r", "compensate second")).state is OperationState.FAILED
        await app.compensate("r", by="ann", reason="the target is mended")
        await reaches(app, "r", RunState.COMPENSATED)
    assert sorted(undone()) == ["1", "2", "3"]


@played
async def test_a_deployment_without_the_compensation_leaves_the_effect_standing_until_one_has_it(url):
    gone, back = of_second(None), of_second(undo)
    async with working(url, three_effects(gone, rests=False)) as app:
        handle = await app.start(next(iter(app.workflows.values())), id="r")
        with pytest.raises(CompensationIncomplete, match="second no compensation"):
            await handle.result()
        assert await handle.state() is RunState.PARTLY_COMPENSATED
    assert undone() == ["3", "1"]
    async with working(url, three_effects(back, rests=False)) as app:
        await app.compensate("r", by="ann", reason="deployed again")
        await reaches(app, "r", RunState.COMPENSATED)
    assert undone() == ["3", "1", "2"]
