"""A task service makes a task and drops its reply. The effect is asked about, not repeated: one task, and its id."""

import asyncio

from fencepost import Absent, App, Call, Conflicting, Found, KeyHeader, Run, Target, effect, workflow
from fencepost.testing import Fault, World


async def find_task(call: Call, title: str) -> Found[str] | Absent | Conflicting:
    found = await call.http.get("/tasks", params={"external_key": call.key, "title": title})
    return Found.only(task["id"] for task in found.json())


@effect(send_key=KeyHeader("Idempotency-Key", window="24h"), reconcile=find_task, settle="5s", target="tasks")
async def create_task(call: Call, title: str) -> str:
    reply = await call.http.post("/tasks", json={"title": title})
    return str(reply.json()["id"])


@workflow(version=1)
async def approve(run: Run, invoice: str) -> str:
    return await run.do(create_task(f"Approve {invoice}"))


async def main() -> None:
    with World.start("world") as world:  # an outside of its own, in a process of its own
        world.configure("tasks", faults=[Fault(do="reset", when="after")])  # it commits, then drops its reply
        app = App("sqlite:///fencepost.db", workflows=[approve], targets={"tasks": Target(world.tasks.url)})
        async with app, app.worker():
            run = await app.start(approve, "INV-1847", id="invoice:INV-1847")
            task = await run.result()
        seen = world.counts()["tasks"]
        print(f"{task}: {seen.requests} request, {seen.lookups} look-up, {seen.objects} task")


if __name__ == "__main__":
    asyncio.run(main())
