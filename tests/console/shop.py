"""The workflows that the console's tests start; what their effects reach is counted in `tests.runtime.stage`."""

from pydantic import BaseModel

from fencepost import Run, workflow
from tests.runtime.stage import once


class Order(BaseModel):
    """What is ordered."""

    id: str
    cents: int = 100


@workflow()
async def order(run: Run, order: Order, note: str = "") -> str:
    return await run.do(once(f"{order.id}{note}"))


@workflow()
async def ask(run: Run, name: str) -> str:
    return await run.wait("word", str) + name


@workflow()
async def give_back(run: Run, name: str) -> None:
    await run.do(once(name))
    await run.compensate(reason="nobody wants it")


WORKFLOWS = [order, ask, give_back]
