"""Processes to be killed: one that takes orders, and one that publishes what was enqueued with them.

    python -m tests.runtime.outbox_child take URL TASKS FIRST "before commit"|"after commit"
    python -m tests.runtime.outbox_child publish URL TASKS

The first kills itself with SIGKILL at the last of its orders. What must have happened then is said in
`test_outbox_processes`.
"""

import asyncio
import os
import signal
import sys

from pydantic import BaseModel

from fencepost.core.contract import Retry
from fencepost.effects.call import Call
from fencepost.effects.declare import effect
from fencepost.effects.outside import Target
from fencepost.effects.promises import KeyHeader
from fencepost.runtime.ledger import Ledger
from tests.runtime.callers import MADE, driver

ORDERS = 5


class Order(BaseModel):
    name: str


@effect(
    target="tasks",
    send_key=KeyHeader("Idempotency-Key", window="1h"),
    retry=Retry(attempts=20, within="1m", first_delay="10ms", longest_delay="50ms"),
    attempt_timeout="2s",
)
async def announce(call: Call, order: Order) -> None:
    await call.http.post("/tasks", json=order)


def ledger_at(url: str, tasks: str) -> Ledger:
    """The ledger, with the world as its target."""
    return Ledger(url, effects=[announce], targets={"tasks": Target(tasks)}, lease="1s", margin="100ms")


def take(url: str, tasks: str, first: int, when: str) -> None:
    """Take orders, each in a transaction of its own, and be killed at the last of them."""
    outbox = ledger_at(url, tasks).sync
    with driver(url) as connection:
        for number in range(first, first + ORDERS):
            connection.execute(MADE.format(f"order {number}"))
            outbox.enqueue(
                announce(Order(name=f"order {number}")),
                operation=f"order:{number}",
                resource=f"customer:{number % 2}",
                connection=connection,
            )
            is_last = number == first + ORDERS - 1
            if is_last and when == "before commit":
                os.kill(os.getpid(), signal.SIGKILL)
            connection.commit()
            if is_last:
                os.kill(os.getpid(), signal.SIGKILL)


async def publish(url: str, tasks: str) -> None:
    """Work until standard input closes."""
    async with ledger_at(url, tasks) as ledger:
        await ledger.work()
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    what, url, tasks, *more = sys.argv[1:]
    if what == "take":
        take(url, tasks, int(more[0]), more[1])
    else:
        asyncio.run(publish(url, tasks))
