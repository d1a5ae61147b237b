"""What the runs of the matrix do: one effect at the target of their row, and one more on an overwritten record.

The bodies are plain functions, so that each stands in a thread of its own (`parking`) while the process's loop goes
on. A run first reads, which is where it stands before it has asked for permission. What is asked of the targets is
declared as a user would; `told` gives the times.
"""

from typing import Any

from pydantic import BaseModel

from fencepost.core.contract import Retry
from fencepost.core.duration import HOUR
from fencepost.effects.answers import Absent, Conflicting, Found
from fencepost.effects.call import SyncCall
from fencepost.effects.declare import Effect, effect, read
from fencepost.effects.promises import Fenced, KeyHeader
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import Workflow, workflow
from tests.zombies.accounts import Accounts
from tests.zombies.cells import CELLS, Cell, Row
from tests.zombies.parking import Parking

PATHS = {Row.KEY: "/entries", Row.LOOK_UP: "/payments", Row.NOTHING: "/tasks", Row.RECORD: "/records"}
SERVICES = {Row.KEY: "books", Row.LOOK_UP: "books", Row.NOTHING: "tasks", Row.RECORD: "tasks"}

# A clock that jumps an hour ahead spends no budget.
RETRY = Retry(attempts=8, within=6 * HOUR, first_delay=20_000, longest_delay=200_000)
FENCED_SETTLE = "1h"
"""A span so long that a run which waited for it would never end here: the fence alone must do."""


class Made(BaseModel):
    """A remote object's id."""

    id: str


class Order(BaseModel):
    """One object to make; `sequence` tells a newer record from an older one."""

    name: str
    sequence: int = 1


class Bodies:
    """The effects and workflows of one process."""

    def __init__(self, parking: Parking, accounts: Accounts, *, timeout: str, settle: str) -> None:
        self._parking = parking
        self._accounts = accounts
        self._timeout = timeout
        self._settle = settle
        self.effects = {cell: self._effect(cell) for cell in CELLS}
        self.workflows = {cell: self._workflow(cell) for cell in CELLS}

    def _workflow(self, cell: Cell) -> Workflow[Any, Any]:
        made = self.effects[cell]
        later = self._declared(cell, "second", self._put(cell, 0)) if cell.row is Row.RECORD else None

        @read(name="ready", attempt_timeout="5m")
        def ready(call: SyncCall) -> str:
            self._parking.stand(cell.id, 1)
            return "ready"

        @workflow(name=cell.id)
        async def one(run: Run, name: str) -> str:
            await run.do(ready())
            first = await run.do(made(Order(name=cell.first)))
            if later is not None:
                await run.do(later(Order(name=cell.first, sequence=2)))
            return first.id

        return one

    def _effect(self, cell: Cell) -> Effect:
        body = {Row.FENCE: self._book, Row.RECORD: self._put}.get(cell.row, self._post)(cell)
        return self._declared(cell, "first", body)

    def _declared(self, cell: Cell, name: str, body: Any) -> Effect:
        times = {"attempt_timeout": self._timeout, "settle": self._settle, "retry": RETRY}
        if cell.row is Row.FENCE:
            fence = Fenced(self._accounts.fence, resource=cell.id)
            times["settle"] = FENCED_SETTLE
            return effect(name=f"{name} {cell.id}", fence=fence, consistent=True, reconcile=self._found, **times)(body)
        promises: dict[str, Any] = {"on_unknown": "hold"}
        if cell.row is Row.KEY:
            promises = {"send_key": KeyHeader("Idempotency-Key", window="24h")}
        elif cell.row in {Row.LOOK_UP, Row.RECORD}:
            promises = {"reconcile": self._looked_up(cell)}
        return effect(name=f"{name} {cell.id}", target=cell.id, **promises, **times)(body)

    # -- over HTTP ------------------------------------------------------------------------------------------------

    def _post(self, cell: Cell) -> Any:
        path = PATHS[cell.row]

        def post(call: SyncCall, order: Order) -> Made:
            self._parking.stand(cell.id, 2)
            reply = call.http.post(path, json=_body(call, cell, order))  # 3 and 4 are fault points in there
            self._parking.stand(cell.id, 5)
            return Made(id=reply.json()["id"])

        return post

    def _put(self, cell: Cell, stands: int = 1) -> Any:
        def put(call: SyncCall, order: Order) -> Made:
            self._parking.stand(cell.id, 2 * stands)
            reply = call.http.put(f"/records/{cell.id}", json=_body(call, cell, order))
            self._parking.stand(cell.id, 5 * stands)
            return Made(id=reply.json()["id"])

        return put

    def _looked_up(self, cell: Cell) -> Any:
        def find(call: SyncCall, order: Order) -> Found[Made] | Absent | Conflicting:
            found = call.http.get(PATHS[cell.row], params={"external_key": call.key})
            return Found.only(Made(id=one["id"]) for one in found.json())

        return find

    # -- over SQL -------------------------------------------------------------------------------------------------

    def _book(self, cell: Cell) -> Any:
        def book(call: SyncCall, order: Order) -> Made:
            self._parking.stand(cell.id, 2)
            with call.sending(), self._accounts.session() as connection:
                self._parking.stand(cell.id, 3)
                number = self._accounts.book(connection, cell.id, call.token(cell.id), call.key, order.name)
                self._parking.stand(cell.id, 4)
            self._parking.stand(cell.id, 5)
            return Made(id=number)

        return book

    def _found(self, call: SyncCall, order: Order) -> Found[Made] | Absent | Conflicting:
        return Found.only(Made(id=number) for number in self._accounts.find(call.key))


def _body(call: SyncCall, cell: Cell, order: Order) -> dict[str, Any]:
    """Only where it can be asked about later does the object carry the key."""
    body: dict[str, Any] = {"name": order.name}
    if cell.row in {Row.LOOK_UP, Row.RECORD}:
        body["external_key"] = call.key
    return body | ({"sequence": order.sequence} if cell.row is Row.RECORD else {})


__all__ = ["PATHS", "SERVICES", "Bodies", "Made", "Order"]
