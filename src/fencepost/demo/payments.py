"""The workflow of the approvals demo: a payment waits for somebody's approval, then for its day, and is sent.

Between the two days pass in life, so both persons' rights are asked for when the day has come. A folder with a file for
each person says who has lost the right; where it is, and where ledger and books are, says the environment. What is done
to its runs is `approval_drive`.
"""

import os
from pathlib import Path

from pydantic import BaseModel

from fencepost.core.approval import Approval, Right
from fencepost.core.contract import Retry
from fencepost.core.duration import MINUTE
from fencepost.effects.call import Call, SyncCall
from fencepost.effects.declare import effect, read
from fencepost.effects.outside import Target
from fencepost.effects.promises import KeyHeader, Stands
from fencepost.runtime.app import App
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow

LEDGER, BOOKS, DIRECTORY = "PAYMENTS_LEDGER", "PAYMENTS_BOOKS", "PAYMENTS_DIRECTORY"

APPROVAL, DUE = "approval", "due"
"""The names of the two waits."""

LEASE = "2s"
MARGIN = "500ms"
MANY = Retry(attempts=20, within=5 * MINUTE, first_delay=50_000, longest_delay=500_000)


class Order(BaseModel):
    """What is to be paid."""

    number: str
    amount: int


class Paid(BaseModel):
    """The id of a payment at the bank."""

    id: str


@effect(
    send_key=KeyHeader("Idempotency-Key", window="24h"),
    target="books",
    reference="id",
    compensate=Stands("a payment that was approved is meant to stand"),
    attempt_timeout="5s",
    settle="1s",
    retry=MANY,
)
async def pay(call: Call, order: Order) -> Paid:
    """Pay once: the bank honours keys."""
    reply = await call.http.post("/payments", json=order)
    return Paid(id=reply.json()["id"])


@read()
def still_allowed(call: SyncCall, right: Right) -> bool:  # noqa: ARG001 - the directory is a folder here
    """Ask the directory whether this person may still have a payment made."""
    return not revoked(Path(os.environ[DIRECTORY]), right.who).exists()


def revoked(directory: Path, who: str) -> Path:
    """The file that says that this person has lost the right."""
    return directory / f"{who}.revoked"


@workflow(version=1)
async def pay_when_approved(run: Run, order: Order) -> str:
    """Ask for approval of this very payment, wait for its day, then pay."""
    payment = pay(order)
    decision = await run.wait(APPROVAL, Approval, allows=payment, within="1h", authorise=still_allowed)
    if not decision.approved:
        return f"denied by {decision.by}"
    await run.wait(DUE, str, within="1h")
    return (await run.do(payment, approval=decision)).id


def app(ledger: str, books: str) -> App:
    """An app on that ledger, whose payments go to these books."""
    return App(
        ledger, workflows=[pay_when_approved], targets={"books": Target(books)}, lease=LEASE, margin=MARGIN
    )  # fmt: skip


def from_environment() -> App:
    """The app of a worker."""
    return app(os.environ[LEDGER], os.environ[BOOKS])
