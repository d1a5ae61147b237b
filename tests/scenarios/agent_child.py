"""A worker to be killed, whose runs are an agent: a model that asks for refunds until it has nothing more to ask for.

    python -m tests.scenarios.agent_child URL TASKS MODEL

It works until standard input closes. What must have happened then is said in `test_c06_tools_of_an_agent`.
"""

import asyncio
import sys
from decimal import Decimal
from typing import Annotated

from pydantic import AfterValidator, BaseModel

from fencepost.core.contract import Retry
from fencepost.effects.call import Call
from fencepost.effects.declare import effect
from fencepost.effects.model import Endpoint, model
from fencepost.effects.outside import Target
from fencepost.effects.promises import KeyHeader
from fencepost.runtime.app import App
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow

QUICK = Retry(attempts=20, within="1m", first_delay="10ms", longest_delay="50ms")
Cents = Annotated[Decimal, AfterValidator(lambda amount: amount.quantize(Decimal("0.01")))]
"""However a model spells an amount, it is one amount."""


class Refund(BaseModel):
    order: int
    amount: Cents
    why: str = ""


class AsSpelled(BaseModel):
    order: int
    amount: Decimal


class ToolCall(BaseModel):
    """What a model asks for; the id is the model's own, and another one each time."""

    id: str
    arguments: Refund


class Turn(BaseModel):
    calls: list[ToolCall] = []
    says: str = ""


@model(output=Turn, retry=QUICK)
async def plan(call: Call, done: list[str]) -> Turn:
    return await call.model.ask("Which refunds are left?", ", ".join(done))


@effect(target="tasks", send_key=KeyHeader("Idempotency-Key", window="1h"), retry=QUICK)
async def refund(call: Call, wanted: Refund) -> str:
    reply = await call.http.post("/tasks", json={"name": f"order {wanted.order}", "amount": str(wanted.amount)})
    return str(reply.json()["id"])


@effect(target="tasks", send_key=KeyHeader("Idempotency-Key", window="1h"), retry=QUICK)
async def refund_as_spelled(call: Call, wanted: AsSpelled) -> str:
    reply = await call.http.post("/tasks", json={"name": f"order {wanted.order}", "amount": str(wanted.amount)})
    return str(reply.json()["id"])


@workflow()
async def agent(run: Run) -> str:
    done: list[str] = []
    while True:
        turn = await run.do(plan(done))
        if not turn.calls:
            return f"{turn.says}: {', '.join(done)}"
        asked = (one.arguments for one in turn.calls)
        done += await run.gather(*(run.do(refund(one), item=f"order {one.order}") for one in asked))


@workflow()
async def spelling(run: Run) -> str:
    for spelled in ("100", "100.00"):
        made = await run.do(refund_as_spelled(AsSpelled(order=7, amount=Decimal(spelled))), item="order 7")
    return made


def app_at(url: str, tasks: str, endpoint: str) -> App:
    """The app, with the world as its target and the test's own model."""
    return App(
        url, workflows=[agent, spelling], targets={"tasks": Target(tasks)}, model=Endpoint(endpoint, "small-1"),
        lease="1s", margin="100ms",
    )  # fmt: skip


async def work(url: str, tasks: str, endpoint: str) -> None:
    async with app_at(url, tasks, endpoint) as app, app.worker():
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(work(*sys.argv[1:]))
