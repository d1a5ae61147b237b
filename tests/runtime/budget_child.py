"""A worker to be killed, in a time of its own, whose runs keep trying what does not come through.

    python -m tests.runtime.budget_child URL TASKS MINUTES

Its store's clock is so many minutes ahead. What must have happened then is said in `test_budget_processes`.
"""

import asyncio
import sys

from fencepost.core.contract import Retry
from fencepost.core.duration import MINUTE
from fencepost.effects.call import Call
from fencepost.effects.declare import effect, read
from fencepost.effects.outside import Target
from fencepost.effects.promises import KeyHeader
from fencepost.runtime.app import App
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from fencepost.store.open import wall_clock

TEN_MINUTES = Retry(attempts=50, within="10m", first_delay="10ms", longest_delay="20ms")


@effect(
    target="tasks", send_key=KeyHeader("Idempotency-Key", window="1h"), retry=TEN_MINUTES, attempt_timeout="30s",
    settle="0s",
)  # fmt: skip
async def order(call: Call, name: str) -> str:
    return str((await call.http.post("/tasks", json={"name": name})).json()["id"])


@read(retry=TEN_MINUTES, attempt_timeout="30s")
async def stock(call: Call, url: str) -> int:
    return len((await call.http.get(f"{url}/tasks")).json())


@workflow()
async def ordering(run: Run, url: str) -> str:
    return await run.do(order("a film"))


@workflow()
async def counting(run: Run, url: str) -> str:
    return str(await run.do(stock(url)))


def app_at(url: str, tasks: str, minutes: float) -> App:
    """The app, with the world as its target, so many minutes later."""
    app = App(url, workflows=[ordering, counting], targets={"tasks": Target(tasks)}, lease="1s", margin="100ms")
    app.clock = lambda: wall_clock() + round(minutes * MINUTE)
    return app


async def work(url: str, tasks: str, minutes: str) -> None:
    async with app_at(url, tasks, float(minutes)) as app, app.worker():
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(work(*sys.argv[1:]))
