"""The app that chaos strikes: runs of three effects, two under a key and one that is looked up, and its workers.

Where the ledger and the world are is told by the environment, so that worker processes find the same.
"""

import os
from collections.abc import Mapping

from pydantic import BaseModel

from fencepost import Absent, App, Call, Conflicting, Found, KeyHeader, Retry, Run, Target, effect, workflow

DB, BOOKS = "CHAOS_DB", "CHAOS_BOOKS"
SOON = Retry(attempts=20, within="15m", first_delay="20ms", longest_delay="500ms")


class Made(BaseModel):
    """A remote object's id."""

    id: str


async def find(call: Call, name: str) -> Found[Made] | Absent | Conflicting:
    found = await call.http.get("/payments", params={"external_key": call.key})
    return Found.only(Made(id=one["id"]) for one in found.json())


@effect(
    send_key=KeyHeader("Idempotency-Key", window="24h"),
    target="books",
    reference="id",
    attempt_timeout="2s",
    retry=SOON,
)
async def enter(call: Call, name: str) -> Made:
    reply = await call.http.post("/entries", json={"name": name})
    return Made(id=reply.json()["id"])


@effect(reconcile=find, settle="100ms", target="books", reference="id", attempt_timeout="2s", retry=SOON)
async def pay(call: Call, name: str) -> Made:
    reply = await call.http.post("/payments", json={"name": name, "external_key": call.key})
    return Made(id=reply.json()["id"])


@workflow(version=1)
async def booked(run: Run, name: str) -> str:
    await run.do(enter(f"{name}/first"), item="first")
    paid = await run.do(pay(f"{name}/paid"))
    await run.do(enter(f"{name}/last"), item="last")
    return paid.id


def made_app(surroundings: Mapping[str, str] = os.environ) -> App:
    """The app of this environment, by default this process's."""
    books = Target(base_url=surroundings.get(BOOKS, "http://127.0.0.1:1"))
    return App(
        surroundings.get(DB, "sqlite:///nowhere.db"),
        workflows=[booked],
        targets={"books": books},
        lease="2s",
        margin="500ms",
    )


app = made_app()
