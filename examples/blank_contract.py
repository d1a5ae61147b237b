"""An app whose contracts leave something open: one of each kind of blank, for `fencepost contract --check` to name.

Nothing here can be started: an app with a blank is refused before it opens its ledger.

    fencepost contract examples/blank_contract.py:app --check
"""

from pydantic import BaseModel

from fencepost import Absent, App, Call, KeyHeader, Retry, Run, Stands, effect, workflow


class Order(BaseModel):
    """What every effect here is about."""

    id: str
    amount_cents: int


class Receipt(BaseModel):
    """What every effect here returns."""

    id: str


async def find_parcel(call: Call, order: Order) -> Absent:
    """Ask whether the parcel was ordered."""
    await call.http.get("/parcels", params={"order": order.id})
    return Absent()


async def post(call: Call, path: str, order: Order) -> Receipt:
    reply = await call.http.post(path, json=order)
    return Receipt(**reply.json())


@effect(attempt_timeout="20s")
async def notify(call: Call, order: Order) -> Receipt:
    """No rung: it says neither how to ask, nor how a resend is told apart, nor that a person decides."""
    return await post(call, "/messages", order)


@effect(on_unknown="hold", financial=True, reference="id")
async def pay(call: Call, order: Order) -> Receipt:
    """Financial without compensation: nothing says how the money comes back."""
    return await post(call, "/payments", order)


@effect(on_unknown="hold", financial=True, compensate=Stands("refunds are made by hand"))
async def top_up(call: Call, order: Order) -> Receipt:
    """Financial without reference: nobody could find the payment at the bank."""
    return await post(call, "/credits", order)


@effect(send_key=KeyHeader("Idempotency-Key", window="10m"), settle="30s")
async def create_invoice(call: Call, order: Order) -> Receipt:
    """Retry window beyond key window: after ten minutes a retry is a second invoice, and retries go on for fifteen."""
    return await post(call, "/invoices", order)


@effect(on_unknown="hold", attempt_timeout=None)
async def print_label(call: Call, order: Order) -> Receipt:
    """No timeout: an attempt could go on for ever."""
    return await post(call, "/labels", order)


@effect(on_unknown="hold", retry=Retry(attempts=None))
async def book_courier(call: Call, order: Order) -> Receipt:
    """Unbounded retry: nobody would ever hear of the failure."""
    return await post(call, "/pickups", order)


@effect(reconcile=find_parcel)
async def order_parcel(call: Call, order: Order) -> Receipt:
    """Look-up without settle: how long an old request may still land is not said, so absence proves nothing."""
    return await post(call, "/parcels", order)


@workflow(version=1)
async def ship(run: Run, order: Order) -> str:
    """Every effect above, once."""
    await run.do(notify(order))
    await run.do(pay(order))
    await run.do(top_up(order))
    await run.do(create_invoice(order))
    await run.do(print_label(order))
    await run.do(book_courier(order))
    parcel = await run.do(order_parcel(order))
    return parcel.id


app = App("sqlite:///blank_contract.db", workflows=[ship])
