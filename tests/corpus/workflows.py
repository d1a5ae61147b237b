"""The workflows whose histories are stored: each kind of step, and each way in which histories branch.

They are frozen: a stored history is replayed against this code by every later version. What has to be shown anew gets a
workflow of its own; nothing here is changed.
"""

import itertools
from datetime import datetime
from decimal import Decimal

from pydantic import BaseModel

from fencepost import (
    Absent,
    Call,
    ChildFailed,
    Found,
    KeyHeader,
    Refused,
    Retry,
    Run,
    Stands,
    StepFailed,
    compute,
    effect,
    model,
    read,
    workflow,
)
from fencepost.core.errors import Cancelled, NotSent, WaitExpired
from fencepost.runtime.workflow import Workflow

QUICK = Retry(attempts=2, within="1m", first_delay="2ms")
KEY = KeyHeader("Idempotency-Key", window="24h")


class Line(BaseModel):
    """A value with types of its own."""

    id: str
    amount: Decimal
    due: datetime


@effect(on_unknown="hold", retry=QUICK)
async def take_back(call: Call, name: str, result: str | None, reference: str | None) -> str:
    return f"took {name} back"


@effect(send_key=KEY, retry=QUICK, compensate=take_back)
async def make(call: Call, name: str) -> str:
    return f"made {name}"


@effect(version=3, send_key=KEY, retry=QUICK, compensate=Stands("it is only a line"))
async def post(call: Call, line: Line) -> Line:
    return line


@effect(send_key=KEY, retry=QUICK, compensate=take_back)
async def refused(call: Call, name: str) -> str:
    raise NotSent("not today")


@effect(send_key=KEY, retry=QUICK, compensate=take_back, policy=lambda principal, name: Refused("not for you"))
async def forbidden(call: Call, name: str) -> str:
    return name


async def find(call: Call, name: str) -> Found[str] | Absent:
    return Found(f"found {name}")


@effect(reconcile=find, attempt_timeout="1s", settle="0s", retry=QUICK, compensate=take_back)
async def looked_up(call: Call, name: str) -> str:
    raise OSError("the reply is lost")


@read()
async def price(call: Call, name: str) -> Decimal:
    return Decimal("12.30")


@compute()
async def double(call: Call, number: int) -> int:
    return number * 2


@workflow()
async def steps(run: Run, line: Line) -> str:
    """Each kind of step, one after the other, with items, time, ids and chance."""
    await run.do(make("first"), item="1")
    await run.do(make("second"), item="2")
    await run.do(post(line))
    await run.do(looked_up("lost"))
    cost, two = await run.gather(run.do(price("lamp")), run.do(double(1)))
    await run.sleep("1ms")
    await run.do(make(f"{run.uuid()} {run.random().randint(1, 6)} {run.now().year > 0}"), item=str(cost * two))
    again = await run.do(make("first"), item="1")
    return f"{again} for {cost}"


@workflow()
async def refusals(run: Run) -> list[str]:
    """What the workflow catches."""
    seen = []
    try:
        await run.do(refused("it"))
    except StepFailed as error:
        seen.append(error.record.class_name)
    try:
        await run.do(forbidden("it"))
    except StepFailed as error:
        seen.append(error.record.message)
    try:
        await run.wait("never", str, within="1ms")
    except WaitExpired as error:
        seen.append(error.ids["step"])
    return seen


@workflow()
async def races(run: Run) -> str:
    """A race that a sleep wins, one that a signal wins, and a gather inside of one."""

    async def both() -> str:
        one, two = await run.gather(run.do(double(2)), run.wait("early", str))
        return f"{one} {two}"

    first, _ = await run.race(run.wait("never", str), run.sleep("1ms"))
    second, said = await run.race(run.sleep("1h"), both())
    return f"{first} {second} {said}"


@workflow()
async def failing(run: Run) -> None:
    await run.do(make("before"))
    raise ValueError("the code is wrong")


@workflow()
async def undoing(run: Run) -> str:
    await run.do(make("one"), item="1")
    await run.do(make("two"), item="2")
    report = await run.compensate(reason="as planned")
    return report.summary()


@workflow()
async def cancelled(run: Run) -> None:
    await run.do(make("one"))
    try:
        await run.wait("never", str)
    except Cancelled:
        await run.compensate(reason="cancelled")
        raise


@workflow()
async def waiting(run: Run) -> str:
    """Is still waiting when it is stored."""
    run.progress({"done": 1})
    await run.do(make("one"))
    return await run.wait("answer", str, within="30d")


@workflow()
async def child(run: Run, name: str) -> str:
    return await run.do(make(name))


@workflow()
async def parent(run: Run) -> str:
    one = await run.child(child, "one", id="corpus child")
    aside = await run.child(child, "two", id="corpus aside", detached=True)
    try:
        await run.child(failing, id="corpus failing")
    except ChildFailed as error:
        return f"{one}, {aside}, {error.child}"
    return "unreachable"


@workflow()
async def turning(run: Run, number: int) -> int:
    await run.do(make("turn"))
    return run.continue_as(number + 1) if number < 2 else number


@workflow()
async def patched(run: Run) -> str:
    if run.patched("with a price"):
        return str(await run.do(price("lamp")))
    return "before"


SAYS = itertools.cycle(["left", "right"])


@model(output=str)
async def judge(call: Call, about: str) -> str:
    return next(SAYS)


@workflow()
async def judging(run: Run) -> str:
    """Is decided anew: an effect of the first decision stands beside that of the second."""
    before = await run.do(double(1))
    way = await run.do(judge("which way"))
    await run.do(make(way), item=way)
    return f"{before} {way} {await run.do(double(2))}"


WORKFLOWS: dict[str, Workflow[..., object]] = {
    one.name: one
    for one in (
        steps, refusals, races, failing, undoing, cancelled, waiting, child, parent, turning, patched, judging,
    )
}  # fmt: skip
