"""A worker to be killed while a run of its is cancelled; what must be known then is said in `test_cancel_processes`.

    python -m tests.runtime.cancel_child URL TASKS [POINT]

It works until standard input closes, and kills itself with SIGKILL at the point: "before the hook", when the intent to
ask the target is durable; "in the hook", when the target has answered and nobody has written it down.
"""

import asyncio
import os
import signal
import sys

from pydantic import BaseModel

from fencepost.core.contract import Retry
from fencepost.effects.answers import Absent, Conflicting, Found
from fencepost.effects.call import Call
from fencepost.effects.declare import effect
from fencepost.effects.outside import Target
from fencepost.effects.promises import Stands
from fencepost.runtime.app import App
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow

QUICK = Retry(attempts=20, within="1m", first_delay="10ms", longest_delay="50ms")
POINT = sys.argv[3] if len(sys.argv) > 3 else ""


class Task(BaseModel):
    id: str
    external_key: str


def at(point: str) -> None:
    """Be killed here, if this is the point."""
    if point == POINT:
        os.kill(os.getpid(), signal.SIGKILL)


async def find(call: Call, name: str) -> Found[Task] | Absent | Conflicting:
    found = await call.http.get("/tasks", params={"external_key": call.key})
    return Found.only(Task.model_validate(one) for one in found.json())


async def cancel_task(call: Call, name: str, reference: str | None) -> object:
    """Ask by the reference where it is known, else by the key."""
    at("before the hook")
    found = reference or (await find(call, name)).result.id
    answer = await call.http.post(f"/tasks/{found}/cancel", json={})
    at("in the hook")
    return answer.json()


@effect(
    target="tasks", reconcile=find, settle="10ms", attempt_timeout="2s", retry=QUICK, reference="id",
    cancel=cancel_task, compensate=Stands("the task itself is cancelled"),
)  # fmt: skip
async def create(call: Call, name: str) -> Task:
    reply = await call.http.post("/tasks", json={"external_key": call.key, "name": name})
    return Task.model_validate(reply.json())


@effect(target="tasks", on_unknown="hold", retry=QUICK, compensate=Stands("it is never sent"))
async def follow(call: Call, name: str) -> None:
    await call.http.post("/tasks", json={"external_key": call.key, "name": name})


@workflow()
async def order(run: Run, name: str) -> str:
    made = await run.do(create(name))
    await run.do(follow(f"{name} follows"))
    return made.id


def app_at(url: str, tasks: str) -> App:
    """The app, with the world as its target and a short lease."""
    return App(url, workflows=[order], targets={"tasks": Target(tasks)}, lease="1s", margin="100ms")


async def live(url: str, tasks: str) -> None:
    async with app_at(url, tasks) as app, app.worker():
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(live(*sys.argv[1:3]))
