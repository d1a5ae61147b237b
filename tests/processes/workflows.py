"""The workflows whose workers are killed: each step of each in three rungs and as an async or a plain body.

A *kit* is one rung with one kind of body. `key` sends to entries, which honour keys; `look-up` to payments, which can
be asked and know no keys; `nothing` to tasks, which here know neither, so that a person settles. Each object carries
the name "<run>/<step>", by which the harness counts. How workers are started and killed is in `harness` and `child`.
"""

from dataclasses import dataclass

from pydantic import BaseModel

from fencepost.core.contract import Retry
from fencepost.core.duration import MINUTE
from fencepost.core.errors import Cancelled, StepFailed
from fencepost.effects.answers import Absent, Conflicting, Found
from fencepost.effects.call import Call, SyncCall
from fencepost.effects.declare import Effect, effect
from fencepost.effects.model import model
from fencepost.effects.policy import Policy
from fencepost.effects.promises import KeyHeader
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import Workflow, workflow

RUNGS = ("key", "look-up", "nothing")
BODIES = ("async", "sync")

TIMEOUT = "2s"
SETTLE = "100ms"
QUICK = Retry(attempts=5, within=5 * MINUTE, first_delay=20_000, longest_delay=200_000)


class Made(BaseModel):
    """A remote object's id."""

    id: str


class Verdict(BaseModel):
    """What the model decides."""

    step: str


class Order(BaseModel):
    """One object to make, by its name."""

    name: str


@dataclass(frozen=True)
class Rung:
    """Where a rung sends, what undoes an object there, and where what undid it is found."""

    target: str
    path: str
    verb: str
    undone: str

    @property
    def collection(self) -> str:
        return self.path.strip("/")


PLACES = {
    "key": Rung("books", "/entries", "reverse", "/reversals"),
    "look-up": Rung("books", "/payments", "refund", "/refunds"),
    "nothing": Rung("tasks", "/tasks", "cancel", "/tasks"),
}


def promises(rung: str, look_up) -> dict:
    """What the contract of an effect on this rung declares."""
    if rung == "key":
        return {"send_key": KeyHeader("Idempotency-Key", window="24h")}
    return {"reconcile": look_up} if rung == "look-up" else {"on_unknown": "hold"}


def request(call: Call | SyncCall, order: Order, rung: str) -> dict[str, str]:
    """The body; only where it can be asked about later does the object carry the key."""
    return {"name": order.name, "external_key": call.key} if rung == "look-up" else {"name": order.name}


def named(order: Order) -> dict[str, str]:
    """Headers by which a fault of the world can strike the look-ups of one order."""
    return {"Idempotency-Key": order.name}


def made(
    rung: str, body: str, name: str, compensate: Effect | None, *, timeout: str = TIMEOUT, retry: Retry = QUICK,
    policy: Policy | None = None,
) -> Effect:  # fmt: skip
    """The effect `name` of a kit."""
    place = PLACES[rung]

    async def find(call: Call, order: Order) -> Found[Made] | Absent | Conflicting:
        found = await call.http.get(place.path, params={"external_key": call.key}, headers=named(order))
        return Found.only(Made(id=one["id"]) for one in found.json())

    declared = effect(
        name=f"{name} {rung} {body}", target=place.target, reference="id", attempt_timeout=timeout, settle=SETTLE,
        retry=retry, compensate=compensate, policy=policy, **promises(rung, find),
    )  # fmt: skip

    async def make(call: Call, order: Order) -> Made:
        reply = await call.http.post(place.path, json=request(call, order, rung))
        return Made(id=reply.json()["id"])

    def make_plainly(call: SyncCall, order: Order) -> Made:
        reply = call.http.post(place.path, json=request(call, order, rung))
        return Made(id=reply.json()["id"])

    return declared(make if body == "async" else make_plainly)


def undoing(rung: str, body: str, name: str) -> Effect:
    """What compensates the effect `name` of a kit."""
    place = PLACES[rung]

    async def find(call: Call, order: Order, made: Made | None, reference: str) -> Found[Made] | Absent | Conflicting:
        found = await call.http.get(place.undone, params={"of": reference}, headers=named(order))
        return Found.only(Made(id=one["id"]) for one in found.json())

    declared = effect(
        name=f"undo {name} {rung} {body}", target=place.target, reference="id", attempt_timeout=TIMEOUT,
        settle=SETTLE, retry=QUICK, **promises(rung, find),
    )  # fmt: skip

    async def undo(call: Call, order: Order, made: Made | None, reference: str) -> Made:
        reply = await call.http.post(f"{place.path}/{reference}/{place.verb}", json=order)
        return Made(id=reply.json()["id"])

    def undo_plainly(call: SyncCall, order: Order, made: Made | None, reference: str) -> Made:
        reply = call.http.post(f"{place.path}/{reference}/{place.verb}", json=order)
        return Made(id=reply.json()["id"])

    return declared(undo if body == "async" else undo_plainly)


@model(output=Verdict, format_attempts=3)
async def choose(call: Call, name: str) -> Verdict:
    """Which step comes next; asked once, however often the worker dies."""
    return await call.model.ask("Which step?", name)


@dataclass(frozen=True)
class Kit:
    """The workflows of one rung and one kind of body, by what they do."""

    one: Workflow
    pair: Workflow
    chosen: Workflow
    approved: Workflow
    undone: Workflow
    cancelled: Workflow


def kit(rung: str, body: str) -> Kit:
    """Every workflow takes its run's id and names its objects after it."""
    first = made(rung, body, "first", undoing(rung, body, "first"))
    second = made(rung, body, "second", undoing(rung, body, "second"))
    third = made(rung, body, "third", undoing(rung, body, "third"))

    def declared(what: str):
        return workflow(version=1, name=f"{what} {rung} {body}")

    @declared("one")
    async def one(run: Run, name: str) -> str:
        return (await run.do(first(Order(name=f"{name}/first")))).id

    @declared("pair")
    async def pair(run: Run, name: str) -> str:
        done = await run.do(first(Order(name=f"{name}/first")))
        await run.do(second(Order(name=f"{name}/second")))
        return done.id

    @declared("chosen")
    async def chosen(run: Run, name: str) -> str:
        verdict = await run.do(choose(name))
        return (await run.do(first(Order(name=f"{name}/{verdict.step}")))).id

    @declared("approved")
    async def approved(run: Run, name: str) -> str:
        await run.do(first(Order(name=f"{name}/first")))
        await run.wait("go", str, within="1h")
        return (await run.do(second(Order(name=f"{name}/second")))).id

    @declared("undone")
    async def undone(run: Run, name: str) -> str:
        await run.do(first(Order(name=f"{name}/first")))
        await run.do(second(Order(name=f"{name}/second")))
        try:
            await run.do(third(Order(name=f"{name}/third")))
        except StepFailed as error:
            await run.compensate(reason=error.record.message)
            return "compensated"
        return "done"

    @declared("cancelled")
    async def cancelled(run: Run, name: str) -> str:
        await run.do(first(Order(name=f"{name}/first")))
        try:
            await run.wait("go", str, within="1h")
        except Cancelled:
            await run.compensate(reason="cancelled")
            raise
        return (await run.do(second(Order(name=f"{name}/second")))).id

    return Kit(one, pair, chosen, approved, undone, cancelled)


KITS = {(rung, body): kit(rung, body) for rung in RUNGS for body in BODIES}
WORKFLOWS = [
    declared
    for made_up in KITS.values()
    for declared in (made_up.one, made_up.pair, made_up.chosen, made_up.approved, made_up.undone, made_up.cancelled)
]
