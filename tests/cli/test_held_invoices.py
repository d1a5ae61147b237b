"""The demo's held runs are driven to their end by the command line alone, and the audit tells each of it, once.

Of three payments nobody heard what became of them: two were made, one never arrived. A person looks at the bank's
statement and says so. Nothing here touches the database, until a byte of it is changed at the end.
"""

import asyncio
import json
import sys
import time

import pytest

from fencepost.cli.target import app_for
from fencepost.core.recovery import BY_ONE_CLOCK
from fencepost.core.states import RunState
from fencepost.demo import example
from fencepost.demo.sides import environment, run_id
from fencepost.demo.tally import payment_of
from fencepost.testing import Configure, Fault, Keys, LookUp, World
from tests.polling import until
from tests.store.tamper import tampering

APP = f"{example.folder() / 'invoice.py'}:app"
LOST = {"INV-0001": "after", "INV-0002": "before", "INV-0003": "after", "INV-0004": None}
"""Invoices, and of which payment the connection is reset: before or after the bank made it."""

STRUCK = tuple(
    Fault(do="reset", when=when, collection="payments", body=number, name=f"{number} {when}")
    for number, when in LOST.items()
    if when is not None
)
SETTINGS = (
    Configure(service="books", collection="payments", keys=Keys(honoured=False), look_up=LookUp(offered=False)),
    Configure(service="books", collection="entries", keys=Keys(honoured=False)),
    Configure(service="books", faults=STRUCK),
)


@pytest.fixture
def world(tmp_path, monkeypatch, db):
    """A world with the demo's bank; the example's settings point at it, and at the ledger."""
    with World.start(tmp_path / "world", settings=SETTINGS) as there:
        for name, value in environment(there, tmp_path).items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("INVOICE_LEDGER", db)
        monkeypatch.delitem(sys.modules, "invoice", raising=False)
        yield there
        monkeypatch.delitem(sys.modules, "invoice", raising=False)


def worked(states):
    """Have a worker live the runs until each is in one of these states."""

    async def work():
        app = app_for(APP, None, None)
        async with app, app.worker():
            async with asyncio.timeout(30):
                while True:
                    if {run.state for run in await app.runs()} <= states:
                        return
                    await asyncio.sleep(0.02)

    asyncio.run(work())


def test_held_payments_come_to_their_end_by_verbs_and_each_leaves_one_row(fencepost, db, world):
    paper = (example.folder() / "invoices" / "french.txt").read_text("utf-8")
    for number in LOST:
        document = {"name": "french.txt", "text": paper.replace("FA-3310", number)}
        started = fencepost("start", APP, "approve_invoice", "--id", run_id(number), "--input", json.dumps(document))
        assert started.code == 0, started.err
    worked({RunState.WAITING})
    for number in LOST:
        approval = fencepost("approve", run_id(number), "decision", "--by", "cleo", "--app", APP)
        assert approval.code == 0, approval.err
    worked({RunState.HELD, RunState.SUCCEEDED})

    held = fencepost("runs", "--state", "held", "--app", APP, "--json").json["runs"]
    assert {run["id"] for run in held} == {run_id(number) for number, lost in LOST.items() if lost}
    for run in held:
        settled_by_the_statement(fencepost, world, run["id"])
    worked({RunState.SUCCEEDED})

    counts = world.counts()
    assert {name: counts[name].objects for name in ("payments", "entries")} == {"payments": 4, "entries": 4}
    assert {paid(world, number) for number in LOST} == {1}
    rows = [row for row in fencepost("audit", "--app", APP, "--json").json["rows"] if row["verb"] != "approve"]
    told = sorted((row["run"], row["verb"], row["outcome"], row["actor"], row["after"]["operation"]) for row in rows)
    state = {"after": "succeeded", "before": "reserved"}
    assert told == [(run_id(one), "settle", "done", "ada", state[lost]) for one, lost in LOST.items() if lost]
    assert fencepost("check", "--app", APP).code == 0
    the_chain_is_told_from_one_that_was_changed(fencepost, db)


def settled_by_the_statement(fencepost, world, run):
    """Say what the bank's statement shows, once it can tell: no request may be on its way any more."""
    pay = next(step for step in fencepost("show", run, "--app", APP, "--json").json["steps"] if step["name"] == "pay")
    over = max(attempt["span_ends_at"] for attempt in pay["attempts"])
    until(lambda: instant_now() > over, "the statement to be complete", seconds_max=15)
    payment = payment_of(world.files, run.rpartition(":")[2])
    says = ["--did-not-happen"]
    if payment is not None:
        says = ["--happened", "--result", json.dumps({"id": payment})]
    ended = fencepost("settle", run, "pay", *says, "--reason", "the bank's statement", "--by", "ada", "--app", APP)
    assert ended.code == 0, ended.err
    assert (BY_ONE_CLOCK in ended.err) == (payment is None)


def instant_now():
    from fencepost.console.printable import instant

    return instant(time.time_ns() // 1_000)


def paid(world, number):
    return sum(one["invoice"] == number for one in world.files.objects("payments"))


def the_chain_is_told_from_one_that_was_changed(fencepost, db):
    verified = fencepost("audit", "verify", "--app", APP)
    assert (verified.code, verified.out) == (0, "intact but unanchored: 7 rows\n")
    with tampering(db) as inside:
        assert inside.do("UPDATE audit SET reason = replace(reason, 'bank', 'bonk') WHERE no = 6") == 1
    broken = fencepost("audit", "verify", "--app", APP)
    assert broken.code == 3
    assert broken.out.startswith("broken at row 6: changed: ")
    assert fencepost("check", "--app", APP).code == 3
