"""What Fencepost is given to do in the benchmark: an effect with a trivial body, a run of n of them, a run that waits.

The effect is declared as one would be in earnest: a key in a header, a timeout, a settle time, a reference, and
Pydantic for what goes in and comes out. The body sends nothing, so that the figures show what the engine costs and
not a target. How runs are loaded and measured is `subject`.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count

from pydantic import BaseModel

from bench.aftercommit import Tell, listen
from bench.modes import BODY_SECONDS, STEPS
from bench.place import Place
from bench.witness import WITNESS
from fencepost.effects.call import Call
from fencepost.effects.declare import effect
from fencepost.effects.promises import KeyHeader
from fencepost.runtime.app import App
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow


class Order(BaseModel):
    """What the effect takes."""

    customer: str
    amount: int


class Ticket(BaseModel):
    """What the effect returns."""

    id: str
    ok: bool


@effect(send_key=KeyHeader("Idempotency-Key", window="24h"), attempt_timeout="20s", settle="5s", reference="id")
async def create_ticket(call: Call, order: Order) -> Ticket:
    """The trivial step: a small value in, a small value out."""
    WITNESS.body_begins(call.key)
    return Ticket(id=f"ticket-{order.amount}", ok=True)


@workflow(version=1)
async def tickets(run: Run, steps: int) -> int:
    """As many steps, one after the other."""
    done = 0
    for amount in range(steps):
        ticket = await run.do(create_ticket(Order(customer="anna", amount=amount)), item=str(amount))
        done += ticket.ok
    return done


@workflow(version=1)
async def approval(run: Run, number: int) -> int:
    """Waits for a signal that nobody sends."""
    return number if await run.wait("approved", bool) else 0


@effect(send_key=KeyHeader("Idempotency-Key", window="24h"), attempt_timeout="20s", settle="5s", reference="id")
async def create_slowly(call: Call, order: Order) -> Ticket:  # noqa: ARG001 - nothing is sent
    """A body that waits as if a near target answered."""
    await asyncio.sleep(BODY_SECONDS)
    return Ticket(id=f"ticket-{order.amount}", ok=True)


@workflow(version=1)
async def waiting_bodies(run: Run, steps: int) -> int:
    """As many steps whose bodies wait."""
    for amount in range(steps):
        await run.do(create_slowly(Order(customer="anna", amount=amount)), item=str(amount))
    return steps


@workflow(version=1)
async def woken(run: Run) -> int:
    """Waits for a signal, and returns when it came, in nanoseconds."""
    await run.wait("approved", bool)
    return time.time_ns()


_numbers = count()


def new_id() -> str:
    """An id that no other run has, of whichever process."""
    return f"run-{os.getpid()}-{next(_numbers)}"


def app_on(where: Place) -> App:
    """An app on the ledger, with every workflow of the benchmark."""
    return App(where.url, workflows=[tickets, approval, waiting_bodies, woken])


@asynccontextmanager
async def working(where: Place, tell: Tell | None = None) -> AsyncIterator[App]:
    """An app on the ledger with a worker beside it, in this event loop; `tell` hears of each commit."""
    async with app_on(where) as app:
        if tell is not None:
            listen(app, tell)
        async with app.worker():
            yield app


async def one_run(app: App, steps: int = STEPS) -> None:
    """Makes one run, from its start to its result, and checks that each of its steps took part."""
    run = await app.start(tickets, steps, id=new_id())
    assert await run.result() == steps
