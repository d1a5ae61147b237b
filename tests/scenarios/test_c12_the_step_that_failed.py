"""C12: the step that failed may have happened; it is asked about before anything is undone, and undone if it did."""

import pytest

from fencepost.core.contract import Retry
from fencepost.core.states import RunState
from fencepost.effects.answers import Inconclusive
from fencepost.effects.call import Call
from fencepost.effects.declare import effect
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from tests.runtime.stage import find, keyed, operation, played, reaches, target, undo, until, working

ONCE = Retry(attempts=1, within="1m", first_delay="2ms", longest_delay="10ms")


@effect(reconcile=find, attempt_timeout="100ms", settle="10ms", retry=ONCE, compensate=undo)
async def second(call: Call, name: str) -> str:
    return await target.take(call, name)


@workflow(on_failure="compensate")
async def two(run: Run) -> None:
    await run.do(keyed("1"))
    await run.do(second("2"))
    raise ValueError("the third is refused")


@pytest.fixture(autouse=True)
def outside():
    target.reset()


def undone() -> list[str]:
    return [name for name in target.requests if name.startswith("undo ")]


@played
async def test_what_happened_without_a_reply_is_found_and_undone_first(url):
    target.plan("2", "lose")
    async with working(url, two) as app:
        await app.start(two, id="r")
        await reaches(app, "r", RunState.COMPENSATED)
    assert target.looked >= 1
    assert undone() == ["undo 2", "undo 1"]


@played
async def test_what_did_not_happen_is_not_undone(url):
    target.plan("2", "drop")
    async with working(url, two) as app:
        await app.start(two, id="r")
        await reaches(app, "r", RunState.HELD)
        await app.compensate("r", by="ann", reason="the budget is spent")
        await reaches(app, "r", RunState.COMPENSATED)
    assert undone() == ["undo 1"]


@played
async def test_while_it_cannot_be_told_nothing_is_undone(url):
    target.plan("2", "lose")
    target.answers.extend([Inconclusive("down")] * 100)
    async with working(url, two) as app:
        await app.start(two, id="r")
        await reaches(app, "r", RunState.HELD)
        before = (await app.show("r")).run.version
        await app.compensate("r", by="ann", reason="wrong")

        async def again() -> bool:
            run = (await app.show("r")).run
            return run.state is RunState.HELD and run.version > before + 1

        await until(again, "it to be held again")
        assert undone() == []
        target.answers.clear()
        await app.reconcile("r", by="ann", reason="it is up again")
        await reaches(app, "r", RunState.COMPENSATED)
        assert (await operation(app, "r", "second")).state == "succeeded"
    assert undone() == ["undo 2", "undo 1"]
