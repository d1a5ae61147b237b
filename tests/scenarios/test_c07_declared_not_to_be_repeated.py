"""C07: an effect declared not to be repeated happens, raises something of its own, and no budget sends it again."""

import pytest

from fencepost.core.contract import Retry
from fencepost.core.duration import MILLISECOND, MINUTE
from fencepost.core.errors import StepFailed
from fencepost.core.recovery import HoldReason
from fencepost.core.states import OperationState, Outcome, RunState
from fencepost.effects.call import Call, SyncCall
from fencepost.effects.declare import effect
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from tests.runtime.stage import hold, operation, played, reaches, target, working


def of_attempts(attempts: int):
    """The same effect with another budget, whose body breaks after the target has done it."""
    budget = Retry(attempts=attempts, within=MINUTE, first_delay=MILLISECOND, longest_delay=5 * MILLISECOND)

    @effect(on_unknown="hold", retry=budget, name=f"pay {attempts}")
    async def pay(call: Call, name: str) -> str:
        await target.take(call, name)
        raise RuntimeError("a framework's own error")

    @effect(on_unknown="hold", retry=budget, name=f"pay {attempts} on a thread")
    def pay_on_a_thread(call: SyncCall, name: str) -> str:
        target.requests.append(name)
        raise RuntimeError("a framework's own error")

    return pay, pay_on_a_thread


EFFECTS = {number: of_attempts(number) for number in range(1, 6)}
ONE, TWO, THREE, FOUR, FIVE = EFFECTS.values()


@workflow()
async def paying(run: Run, attempts: int, kind: int) -> str:
    effects = {1: ONE, 2: TWO, 3: THREE, 4: FOUR, 5: FIVE}[attempts]
    try:
        return await run.do(effects[kind]("once"))
    except StepFailed:  # the loop that everybody writes
        return await run.do(effects[kind]("once"), item="again")


@pytest.mark.parametrize("kind", [0, 1], ids=["async", "thread"])
@pytest.mark.parametrize("attempts", EFFECTS)
@played
async def test_it_is_sent_once_whatever_the_budget_and_the_run_waits_for_a_person(db, attempts, kind):
    step = EFFECTS[attempts][kind].name
    async with working(db, paying) as app:
        await app.start(paying, attempts, kind, id="r")
        await reaches(app, "r", RunState.HELD)
        left = await operation(app, "r", step)
        assert left.state is OperationState.UNKNOWN
        assert [one.outcome for one in left.attempts] == [Outcome.UNRESOLVED]
        assert (await hold(app, "r"))["reason"] == HoldReason.CANNOT_BE_ASKED
    async with working(db, paying) as app:  # a restart changes nothing
        await reaches(app, "r", RunState.HELD)
    assert target.requests == ["once"]
