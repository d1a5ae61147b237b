"""An app whose effects reach the world's books: three entries, of which the last rests on the second, each reversible.

Where the books are is said by BOOKS_URL when the module is loaded. What is done with it is in
`test_compensating_a_step`.
"""

import os

from pydantic import BaseModel

from fencepost.effects.call import Call
from fencepost.effects.declare import effect
from fencepost.effects.outside import Target
from fencepost.effects.promises import KeyHeader
from fencepost.runtime.app import App
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow

KEY = KeyHeader("Idempotency-Key", window="24h")


class Entry(BaseModel):
    """A remote object's id."""

    id: str


@effect(target="books", send_key=KEY, reference="id")
async def reverse(call: Call, name: str, entry: Entry | None, reference: str | None) -> Entry:
    reply = await call.http.post(f"/entries/{reference}/reverse", json={})
    return Entry(id=reply.json()["id"])


@effect(target="books", send_key=KEY, reference="id", compensate=reverse)
async def enter(call: Call, name: str) -> Entry:
    reply = await call.http.post("/entries", json={"name": name})
    return Entry(id=reply.json()["id"])


@workflow(version=1)
async def month(run: Run) -> str:
    await run.do(enter("rent"), item="rent")
    await run.do(enter("power"), item="power")
    await run.do(enter("tax on power"), item="tax", after=[(enter, "power")])
    return "entered"


app = App(
    "sqlite:///nowhere.db", workflows=[month], targets={"books": Target(os.environ.get("BOOKS_URL", "http://[::1]:1"))}
)
