"""Workflows that go back by what they have declared: by which way their workers are killed is in tests/compensation.

The effects are built as those of `workflows`, and `child` carries these too.
"""

from fencepost.effects.compensation import Compensation
from fencepost.effects.policy import Allowed, Refused
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import Workflow, workflow
from tests.processes.workflows import RUNGS, Made, Order, made, undoing


def not_third(principal: str | None, order: Order, made: Made | None, reference: str | None) -> Allowed | Refused:
    """The third effect may not be undone."""
    return Refused("it is too late") if order.name.endswith("/third") else Allowed("in time")


def terms(rung: str, name: str) -> Compensation:
    return Compensation(undoing(rung, "async", name), policy=not_third)


def retreat(rung: str) -> tuple[Workflow, Workflow]:
    """A workflow that rests one effect on another, and one that takes a turn for each."""
    first, second, third, fourth = (
        made(rung, "async", f"{name} back", terms(rung, f"{name} back"))
        for name in ("first", "second", "third", "last")
    )

    @workflow(name=f"retreat {rung}", on_failure="compensate")
    async def resting(run: Run, name: str) -> str:
        await run.do(first(Order(name=f"{name}/first")))
        await run.do(second(Order(name=f"{name}/second")), after=[first])
        await run.do(third(Order(name=f"{name}/third")))
        await run.do(fourth(Order(name=f"{name}/fourth")))
        return "done"

    @workflow(name=f"turns {rung}", on_failure="compensate")
    async def turning(run: Run, name: str, turn: int = 0) -> str:
        await run.do(first(Order(name=f"{name}/{('first', 'second')[turn]}")))
        if not turn:
            return run.continue_as(name, 1)
        await run.do(fourth(Order(name=f"{name}/fourth")))
        return "done"

    return resting, turning


RETREATS = {rung: retreat(rung) for rung in RUNGS}
WORKFLOWS = [declared for both in RETREATS.values() for declared in both]
