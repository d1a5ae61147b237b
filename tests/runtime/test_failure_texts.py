"""What people read of a failure: one sentence, each name and id once, and the original error by its own name."""

import pytest

from fencepost.core.errors import ErrorRecord, Misuse, RunFailed, StepFailed
from fencepost.runtime.ledger import Ledger
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from tests.runtime.stage import keyed, played, target, working

EFFECTS_STAND = "(its effects stand; resume it after a fix, or compensate it)"


@workflow()
async def failing(run: Run) -> str:
    return await run.do(keyed("a"), item="line-1")


@workflow()
async def expiring(run: Run) -> str:
    return await run.wait("word", str, within="1ms")


@workflow()
async def raising(run: Run) -> str:
    try:
        return await run.do(keyed("a"))
    except StepFailed as error:
        raise LookupError("nothing there") from error


@pytest.mark.parametrize(
    ("flow", "text"),
    [
        (failing, f"NotSent: not this one [run=r, step=keyed[line-1]] {EFFECTS_STAND}"),
        (raising, f"LookupError: nothing there [run=r, step=keyed] {EFFECTS_STAND}"),
        (
            expiring,
            "WaitExpired: nothing came for 'word' in time [run=r, step=/word] (signal it earlier, or wait longer) "
            + EFFECTS_STAND,
        ),
    ],
    ids=["a step's own failure", "raised from it", "a wait"],
)
def test_a_failed_run_is_told_in_one_sentence(db, flow, text):
    @played
    async def play() -> None:
        target.plan("a", "refuse")
        async with working(db, flow) as app:
            with pytest.raises(RunFailed) as failed:
                await (await app.start(flow, id="r")).result()
        assert str(failed.value) == text
        assert failed.value.ids["run"] == "r"

    play()


@played
async def test_what_a_ledger_raises_names_the_original_error(db):
    target.plan("a", "refuse")
    async with Ledger(db) as ledger:
        with pytest.raises(StepFailed) as failed:
            await ledger.perform(keyed("a"), operation="one")
    assert failed.value.record.class_name == "fencepost.core.errors.NotSent"
    assert str(failed.value) == "NotSent: not this one [run=one, step=keyed]"


def test_an_id_that_only_begins_like_one_in_the_text_is_named():
    error = Misuse("wrong [run=r10]", ids={"run": "r1", "step": "x"})
    assert str(error) == "wrong [run=r10] [run=r1, step=x]"
    assert str(StepFailed(ErrorRecord("a.b.Odd", str(error)), ids=error.ids)) == "Odd: wrong [run=r10] [run=r1, step=x]"
