"""A workflow that a schedule starts every minute, each run with one effect of its own at the world.

What is played with it is in `test_schedules`.
"""

from fencepost.runtime.run import Run
from fencepost.runtime.schedule import Schedule
from fencepost.runtime.workflow import workflow
from tests.processes.stories import alpha, order


@workflow()
async def tick(run: Run, name: str) -> str:
    return (await run.do(alpha(order(run.id, "alpha")))).id


def minutely(name: str) -> Schedule:
    """A schedule that starts every minute, and every minute that nobody was there."""
    return Schedule(name, tick, name, cron="* * * * *", overlap="allow", catch_up="all", catch_up_within="1h")
