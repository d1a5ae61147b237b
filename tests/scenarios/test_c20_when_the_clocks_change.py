"""C20: jobs at a local time run once on the day on which the clocks change, an interval keeps real time.

Counted at the world, which has one object for each effect that reached it. Every change of every zone is looked at in
`tests/runtime/test_timetable`.
"""

from collections import Counter
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from itertools import pairwise

import pytest
from pydantic import BaseModel

from fencepost.core.duration import MINUTE
from fencepost.core.states import FINAL_RUN_STATES
from fencepost.effects.call import Call
from fencepost.effects.declare import effect
from fencepost.effects.outside import Target
from fencepost.effects.promises import KeyHeader
from fencepost.runtime.app import App
from fencepost.runtime.run import Run
from fencepost.runtime.schedule import Schedule
from fencepost.runtime.workflow import workflow
from fencepost.store.open import wall_clock
from fencepost.testing.world import World
from tests.runtime.stage import QUICK, Clock, played, until


class Made(BaseModel):
    id: str


@effect(target="tasks", send_key=KeyHeader("Idempotency-Key", window="24h"), retry=QUICK)
async def file_report(call: Call, name: str) -> Made:
    reply = await call.http.post("/tasks", json={"name": name})
    return Made(id=str(reply.json()["id"]))


@workflow()
async def report(run: Run, name: str) -> str:
    at = run.scheduled_for
    assert at is not None
    return (await run.do(file_report(f"{name} {at.isoformat()}"))).id


def schedule(name, cron, **policies):
    return Schedule(name, report, name, cron=cron, zone="Europe/Berlin", **policies)


SCHEDULES = [
    schedule("nightly", "30 2 * * *"),
    schedule("early", "30 1 * * *"),
    schedule("often", "*/15 * * * *", catch_up="all", overlap="allow"),
]


@pytest.fixture
def world(tmp_path):
    with World.start(tmp_path / "world") as world:
        yield world


@asynccontextmanager
async def working(db, world, clock):
    # The clock is set by hours, which must not cost a lease.
    app = App(
        db, workflows=[report], schedules=SCHEDULES, targets={"tasks": Target(world.tasks.url)}, lease="90d"
    )  # fmt: skip
    app.clock = clock
    async with app, app.worker():
        yield app


async def until_all_is_done(app, clock):
    """Every instant up to now is decided, and whatever was started has ended."""

    async def is_done():
        decided = all(plan.next_at > clock() for plan in await app.schedules.list())
        return decided and all(run.state in FINAL_RUN_STATES for run in await app.runs(limit=1_000))

    await until(is_done, "every instant to be decided, and every run to end")


@pytest.mark.parametrize(
    ("day", "shown"),
    [
        ("2026-03-29", ["early 2026-03-29T01:30:00+01:00", "nightly 2026-03-29T03:00:00+02:00"]),
        ("2026-10-25", ["early 2026-10-25T01:30:00+02:00", "nightly 2026-10-25T02:30:00+02:00"]),
    ],
    ids=["spring", "autumn"],
)
@played
async def test_each_daily_job_has_one_effect_on_that_day_though_its_worker_is_restarted_in_the_repeated_hour(
    db, world, day, shown
):
    midnight = datetime.fromisoformat(f"{day}T00:00:00+01:00")
    clock = Clock()
    clock.offset = round((midnight - timedelta(minutes=50)).timestamp() * 1_000_000) - wall_clock()
    for _ in range(24):  # a new worker every quarter of an hour, until well after the change
        async with working(db, world, clock) as app:
            await until_all_is_done(app, clock)
        clock.offset += 15 * MINUTE

    made = Counter(str(one["name"]) for one in world.files.objects("tasks"))
    assert set(made.values()) == {1}
    assert sorted(name for name in made if not name.startswith("often") and day in name) == shown
    often = sorted(datetime.fromisoformat(name.partition(" ")[2]) for name in made if name.startswith("often"))
    assert {later - earlier for earlier, later in pairwise(often)} == {timedelta(minutes=15)}
    assert len(often) >= 22
    assert world.counts()["tasks"].keys == len(made), "each effect under a key of its own"
