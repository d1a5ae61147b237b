"""The example by itself, against the outside world: approved, rejected, and without a blank in its contracts."""

import asyncio
import sys

import pytest

from fencepost.core.guarantee import Rung, guarantee
from fencepost.core.states import RunState
from fencepost.demo import example
from fencepost.demo.sides import Fenced, environment, run_id
from fencepost.testing import World
from tests.runtime.stage import reaches


@pytest.fixture
def invoice(monkeypatch, tmp_path):
    """The example with its settings pointing at a world; the module is loaded afresh, since it reads them once."""
    with World.start(tmp_path / "world") as world:
        for name, value in environment(world, tmp_path).items():
            monkeypatch.setenv(name, value)
        monkeypatch.delitem(sys.modules, "invoice", raising=False)
        module = example.load()
        module.world = world
        yield module
        monkeypatch.delitem(sys.modules, "invoice", raising=False)


def document(invoice, file):
    return invoice.Document(name=file, text=(example.folder() / "invoices" / file).read_text(encoding="utf-8"))


def decided(invoice, **answer):
    return asyncio.run(decide(invoice, answer))


async def decide(invoice, answer):
    async with invoice.app as app, app.worker():
        handle = await app.start(invoice.approve_invoice, document(invoice, "french.txt"), id=run_id("FA-3310"))
        await reaches(app, handle.id, RunState.WAITING)
        await app.approve(handle.id, "decision", by="approver", **answer)
        return await handle.result(within="20s"), await handle.state()


def test_an_approved_invoice_makes_one_of_each(invoice):
    outcome, state = decided(invoice)
    counts = invoice.world.counts()
    assert outcome.approved
    assert state == "succeeded"
    assert {name: counts[name].objects for name in ("tasks", "messages", "payments", "entries")} == {
        "tasks": 1,
        "messages": 1,
        "payments": 1,
        "entries": 1,
    }


def test_a_rejected_invoice_has_its_ticket_cancelled_and_is_not_paid(invoice):
    outcome, state = decided(invoice, approved=False, comment="not ours")
    (ticket,) = invoice.world.files.objects("tasks")
    counts = invoice.world.counts()
    assert not outcome.approved
    assert state == "compensated"
    assert ticket["state"] == "cancelled"
    assert counts["messages"].objects == 1
    assert counts["payments"].objects == counts["entries"].objects == 0


def test_every_rung_of_the_embedded_store_appears_and_no_contract_has_a_blank(tmp_path):
    app = Fenced.app(tmp_path)
    rungs = {guarantee(effect.contract).rung for declared in app.workflows.values() for effect in declared.effects}
    assert app.blanks() == []
    assert rungs == {Rung.KEYED, Rung.LOOKED_UP, Rung.HELD, Rung.REPEATABLE}
