"""The app that the tests of the command line work with: one workflow for each way in which a run can go.

Bodies reach nothing outside; what they would meet there is decided by the run's input. Each test names its own ledger.
"""

import asyncio
from collections import Counter
from pathlib import Path

from pydantic import BaseModel

from fencepost.core.approval import Approval
from fencepost.core.contract import Retry
from fencepost.core.errors import NotSent, Unresolved
from fencepost.effects.call import Call
from fencepost.effects.declare import compute, effect
from fencepost.effects.model import model
from fencepost.effects.promises import KeyHeader, Stands
from fencepost.runtime.app import App
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow


class Order(BaseModel):
    """An order: `ends` says what becomes of the request for it."""

    id: str
    ends: str = "well"


class Ticket(BaseModel):
    """What a successful request returns."""

    id: str


@compute(version=1)
async def spell(call: Call, name: str, times: int) -> str:
    return ", ".join([f"hello {name}"] * times)


@effect(on_unknown="hold", attempt_timeout="1s", settle="0s", reference="id")
async def take_back(call: Call, order: Order, ticket: Ticket | None, reference: str | None) -> Ticket:
    if order.ends == "badly twice":
        raise NotSent("the desk is closed")
    return Ticket(id=f"undone {reference}")


@effect(on_unknown="hold", attempt_timeout="1s", settle="0s", reference="id", compensate=take_back)
async def book_by_hand(call: Call, order: Order) -> Ticket:
    return Ticket(id=f"by-hand-{order.id}")


@effect(
    on_unknown="hold",
    attempt_timeout="1s",
    settle="1h",
    reference="id",
    compensate=take_back,
    forward=book_by_hand,
    retry=Retry(attempts=1),
)
async def book(call: Call, order: Order) -> Ticket:
    if order.ends == "unknown":
        raise Unresolved("the line went dead")
    if order.ends == "busy":
        with call.sending():
            raise ConnectionRefusedError("nobody is at the desk")
    if order.ends == "not sent":
        raise NotSent("the desk is closed")
    return Ticket(id=f"ticket-{order.id}")


@effect(
    send_key=KeyHeader("Idempotency-Key", window="24h"), attempt_timeout="30s", compensate=Stands("it is only a bell")
)
async def ring(call: Call, gate: str) -> str:
    """Say that it has begun, and wait for the gate to be opened."""
    Path(gate).with_suffix(".begun").touch()
    while not Path(gate).exists():  # noqa: ASYNC110, ASYNC240 - the test is another process
        await asyncio.sleep(0.01)
    return "rung"


@effect(send_key=KeyHeader("Idempotency-Key", window="24h"), compensate=Stands("it is only a film"))
async def hand_over(call: Call, desk: str) -> None:
    """Hand a job over: leave its token on the desk."""
    Path(desk).write_text(await call.callback("film"))  # noqa: ASYNC240 - a test's desk


@workflow(version=1)
async def render(run: Run, desk: str) -> str:
    await run.do(hand_over(desk))
    return await run.wait("film", str, callback=hand_over, heartbeat="5m", within="1d")


@workflow(version=1)
async def greet(run: Run, name: str, times: int = 1) -> str:
    return await run.do(spell(name, times))


@workflow(version=1)
async def order_ticket(run: Run, order: Order) -> str:
    ticket = await run.do(book(order))
    return ticket.id


@workflow(version=1)
async def approve(run: Run, order: Order) -> str:
    ticket = await run.do(book(order))
    word = await run.wait("decision", str)
    return f"{ticket.id} {word}"


@workflow(version=1)
async def sign(run: Run, order: Order) -> str:
    call = book(order)
    answer = await run.wait("ok", Approval, allows=call, within="1d")
    if not answer.approved:
        return f"{answer.by}: {answer.comment}"
    return f"{(await run.do(call, approval=answer)).id} for {answer.by}"


@workflow(version=1)
async def ring_twice(run: Run, gate: str) -> str:
    await run.do(ring(gate), item="1")
    return await run.do(ring(gate), item="2")


@workflow(version=1)
async def break_down(run: Run, order: Order) -> str:
    await run.do(book(order))
    raise ValueError("the shelf fell over")


class Nobody:
    """A model's place: the one step that asks a model here answers by itself."""

    provenance = "a stand-in for a model"

    def answer(self, question: object) -> str:
        raise NotImplementedError


asked: Counter[str] = Counter()


@model(output=str)
async def weigh(call: Call, order: Order) -> str:
    """Decides to book what cannot be booked, each time but the third."""
    asked[order.id] += 1
    return "book it" if asked[order.id] % 3 else "leave it"


@workflow(version=1)
async def judge(run: Run, order: Order) -> str:
    said = await run.do(weigh(order))
    if said == "book it":
        await run.do(book(order))
    return said


@workflow(version=2, name="greet")
async def greet_again(run: Run, name: str) -> str:
    return await run.do(spell(name, 2))


@workflow(version=1)
async def wave(run: Run, name: str) -> str:
    return await run.do(spell(name, 1))


@workflow(version=2, name="wave")
async def wave_again(run: Run, name: str) -> str:
    return await run.do(spell(name, 1))


app = App(
    "sqlite:///shop.db",
    workflows=[
        greet,
        greet_again,
        order_ticket,
        approve,
        sign,
        ring_twice,
        break_down,
        judge,
        render,
        wave,
        wave_again,
    ],
    model=Nobody(),
    callback_secret="a secret of at least thirty-two bytes, for tests",
    lease="15s",
)
not_an_app = {"app": 1}
