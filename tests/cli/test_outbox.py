"""What the command line makes of a ledger without an app, and of runs that keep a place in line."""

import asyncio

from fencepost.runtime.ledger import Ledger
from tests.runtime.stage import keyed

SHOP = """
from fencepost import Call, Ledger, effect

@effect(on_unknown="hold")
async def announce(call: Call, name: str) -> None: ...

ledger = Ledger("sqlite:///never-opened.db", effects=[announce])
"""


async def enqueue(db: str) -> None:
    async with Ledger(db) as ledger:
        for name in ("first", "second"):
            await ledger.enqueue(keyed(name), operation=name, resource="account:1")
        await ledger.enqueue(keyed("free"), operation="free")


def test_a_ledger_stands_for_its_app(fencepost, tmp_path):
    file = tmp_path / "mailer.py"
    file.write_text(SHOP, encoding="utf-8")
    ended = fencepost("contract", f"{file}:ledger", "--json")
    assert ended.code == 0, ended.err
    assert "announce" in ended.out


def test_a_run_in_line_says_for_whose_end_it_waits(fencepost, db):
    asyncio.run(enqueue(db))
    told = fencepost("show", "second", "--db", db, "--json").json
    assert told["run"]["resource"] == "account:1"
    assert told["waits_for"] == ["the end of run 'first', which is ready and comes first for 'account:1'"]
    shown = fencepost("show", "second", "--db", db).out
    assert "in line for" in shown
    for name in ("first", "free"):
        (waits_for,) = fencepost("show", name, "--db", db, "--json").json["waits_for"]
        assert waits_for.startswith("a worker, from ")
