"""A worker to be killed, whose runs hand jobs over to the world and wait for their reports.

    python -m tests.runtime.job_child URL TASKS

It works until standard input closes. What must have happened then is said in `test_job_processes`.
"""

import asyncio
import sys

from pydantic import BaseModel

from fencepost.core.contract import Retry
from fencepost.effects.call import Call
from fencepost.effects.declare import effect
from fencepost.effects.outside import Target
from fencepost.effects.promises import KeyHeader
from fencepost.runtime.app import App
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow

SECRET = "a secret of at least thirty-two bytes, for tests"


class Film(BaseModel):
    name: str


@effect(
    target="tasks",
    send_key=KeyHeader("Idempotency-Key", window="1h"),
    retry=Retry(attempts=20, within="1m", first_delay="10ms", longest_delay="50ms"),
    attempt_timeout="10s",
)
async def hand_over(call: Call, name: str) -> None:
    token = await call.callback("rendered")
    await call.http.post("/tasks", json={"name": name, "token": token})


@effect(target="tasks", send_key=KeyHeader("Idempotency-Key", window="1h"))
async def publish(call: Call, film: Film) -> None:
    await call.http.post("/tasks", json={"name": f"published {film.name}"})


@workflow()
async def filming(run: Run, name: str) -> str:
    await run.do(hand_over(name))
    film = await run.wait("rendered", Film, callback=hand_over, heartbeat="10m", within="2h")
    await run.do(publish(film))
    return film.name


def app_at(url: str, tasks: str) -> App:
    """The app, with the world as its target."""
    return App(
        url, workflows=[filming], targets={"tasks": Target(tasks)}, lease="1s", margin="100ms", callback_secret=SECRET
    )


async def work(url: str, tasks: str) -> None:
    async with app_at(url, tasks) as app, app.worker():
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(work(*sys.argv[1:]))
