"""C24: a person ends a run while an effect is in flight, and the body reports success later."""

import pytest

from fencepost.core.errors import RunTerminated, VerbRefused
from fencepost.core.states import RunState
from fencepost.runtime import applicable
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from tests.runtime.stage import Gate, keyed, once, operation, played, reaches, target, until, working


@workflow()
async def two_steps(run: Run) -> str:
    await run.do(keyed("a"))
    return await run.do(once("b"))


@played
async def test_the_run_stays_ended_and_the_late_result_is_evidence_and_can_be_compensated(db):
    gate = Gate()
    target.plan("a", gate)
    async with working(db, two_steps) as app:
        handle = await app.start(two_steps, id="r")
        await gate.reached.wait()
        await app.terminate("r", by="ann", reason="the customer withdrew")
        assert (await app.show("r")).run.state is RunState.TERMINATED
        gate.opened.set()

        async def known():
            return (await operation(app, "r", "keyed")).state == "succeeded"

        await until(known, "the late result to be taken in")
        with pytest.raises(RunTerminated):
            await handle.result(within="20s")
        assert (await app.show("r")).run.state is RunState.TERMINATED
        assert target.requests == ["a"], "nothing new after the decision"
        [row] = app.store.audits("default", "r")
        assert (row.verb, row.actor, row.reason, row.outcome) == ("terminate", "ann", "the customer withdrew", "done")
        assert ("running" in row.before, "terminated" in row.after) == (True, True)

        with pytest.raises(VerbRefused):
            await app.resume("r", by="ann", reason="second thoughts")
        assert (await app.show("r")).run.state is RunState.TERMINATED

        assert "compensate" in applicable.verbs_for(await app.show("r"))
        await app.compensate("r", by="ann", reason="undo what happened")
        await reaches(app, "r", RunState.COMPENSATED)
        assert target.objects == ["a", "undo a"]
