"""A worker to be killed, whose run carries a value of every awkward kind from one step to the next.

    python -m tests.scenarios.state_child URL TASKS

It works until standard input closes. What must have happened then is said in `test_c17_state_in_another_process`.
"""

import asyncio
import sys
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum
from typing import Any

from pydantic import BaseModel, ConfigDict

from fencepost.core.contract import Retry
from fencepost.effects.call import Call, SyncCall
from fencepost.effects.declare import compute, effect
from fencepost.effects.outside import Target
from fencepost.effects.promises import KeyHeader
from fencepost.effects.values import same
from fencepost.runtime.app import App
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow

QUICK = Retry(attempts=20, within="1m", first_delay="10ms", longest_delay="50ms")


class Colour(Enum):
    RED = 1
    GREEN = "green"


@dataclass
class Doubled:
    single: int
    double: int = field(init=False)

    def __post_init__(self) -> None:
        self.double = self.single * 2


class Line(BaseModel):
    amount: Decimal
    colours: dict[Colour, list[Colour]]


class State(BaseModel):
    """One of each kind that storage is known to lose."""

    model_config = ConfigDict(ser_json_bytes="base64", val_json_bytes="base64")

    aware: datetime
    offset: datetime
    naive: datetime
    amount: Decimal
    line: Line
    doubled: Doubled
    data: bytes
    tags: set[str]
    by_number: dict[int, str]
    by_date: dict[date, tuple[int, str]]
    text: str
    large: int
    pair: tuple[int, ...]
    nothing: None = None


def made_here() -> State:
    """The value, as a process makes it from nothing."""
    return State(
        aware=datetime(2026, 2, 28, 12, 0, 0, 1, tzinfo=UTC),
        offset=datetime(2026, 7, 1, 12, tzinfo=timezone(timedelta(hours=2))),
        naive=datetime(2026, 10, 25, 2, 30),  # noqa: DTZ001 - naive on purpose
        amount=Decimal("100.00"),
        line=Line(amount=Decimal("-0.0"), colours={Colour.GREEN: [Colour.RED, Colour.GREEN]}),
        doubled=Doubled(4),
        data=bytes(range(256)),
        tags={"b", "a", "é", "c", "d", "e", "f"},
        by_number={10: "a", 9: "b"},
        by_date={date(2026, 1, 2): (1, "a")},
        text="Ünï 注文 \U0001f600 \x00 \u2028 e\u0301",
        large=2**63,
        pair=(1, 2, 3),
    )


def changes(state: State) -> list[str]:
    """Where it differs in value or type from what this process makes itself, field by field."""
    here = made_here()
    found = (same(getattr(state, name), getattr(here, name), where=name) for name in State.model_fields)
    return [path for path in found if path is not None]


@compute()
def collect(call: SyncCall) -> State:
    return made_here()


@effect(target="tasks", send_key=KeyHeader("Idempotency-Key", window="1h"), attempt_timeout="30s", retry=QUICK)
async def enter(call: Call, state: State) -> str:
    """Send which fields of the state differ from what this process would have made."""
    told = {"name": "state", "changed": changes(state)}
    reply = await call.http.post("/tasks", json=told)
    return str(reply.json()["id"])


@workflow()
async def carries(run: Run, given: State) -> State:
    state = await run.do(collect())
    await run.do(enter(given), item="given")
    await run.do(enter(state), item="collected")
    return state


@workflow()
async def carries_anything(run: Run, given: Any) -> None:
    """Takes what cannot be stored, and is never begun with it."""


def app_at(url: str, tasks: str) -> App:
    """The app, with the world as its target."""
    return App(
        url, workflows=[carries, carries_anything], targets={"tasks": Target(tasks)}, lease="1s", margin="100ms"
    )  # fmt: skip


async def work(url: str, tasks: str) -> None:
    async with app_at(url, tasks) as app, app.worker():
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(work(*sys.argv[1:]))
