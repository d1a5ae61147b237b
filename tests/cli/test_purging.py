"""`fencepost purge`, and what the command line shows of an encrypted ledger without its key."""

import asyncio
import json

from fencepost.core.states import RunState
from fencepost.runtime.app import App
from fencepost.store.aes_gcm import AesGcm
from tests.cli import shop
from tests.cli.conftest import SHOP
from tests.runtime.stage import reaches
from tests.store.tamper import tampering

REASON = ("--reason", "the retention of the shop", "--by", "ann")


def test_runs_that_ended_long_ago_are_counted_and_then_purged(fencepost, db, started, lived):
    lived(started("order_ticket", {"id": "7"}))
    purge = ("purge", "--db", db, "--older-than", "90d", "--state", "succeeded", *REASON)
    assert fencepost(*purge, "--json").json == {"runs": {"succeeded": 0}, "kept": 0, "dry_run": False}
    with tampering(db) as inside:
        inside.do("UPDATE run SET ended_at = 1")
    assert fencepost(*purge, "--dry-run").out == "1 succeeded: would be purged\n"


def test_a_state_in_which_runs_are_kept_for_ever_is_a_usage_error(fencepost, db, started):
    started("order_ticket", {"id": "7"})
    refused = fencepost("purge", "--db", db, "--older-than", "90d", "--state", "held", *REASON)
    assert refused.code == 2
    assert "name some of: cancelled" in refused.err


def test_a_purged_run_is_shown_as_one_and_the_audit_says_who_did_it(fencepost, db, started, lived):
    lived(started("order_ticket", {"id": "7"}))
    purged = fencepost("purge", "--db", db, "--older-than", "0s", "--state", "succeeded", *REASON)
    assert purged.out == "1 succeeded: purged\n"
    shown = fencepost("show", "run-1", "--db", db, "--json").json
    assert (shown["run"]["state"], shown["run"]["input"], shown["steps"]) == ("succeeded", "purged", [])
    assert fencepost("check", "--db", db).code == 0
    told = fencepost("audit", "--db", db).out
    assert "purge" in told
    assert "ann" in told


def test_an_encrypted_run_is_shown_by_what_is_in_the_clear(fencepost, db):
    async def live() -> None:
        app = App(db, workflows=[shop.break_down], codec=AesGcm({"k1": b"k" * 32}))
        async with app, app.worker():
            await app.start(shop.break_down, shop.Order(id="7"), id="r")
            await reaches(app, "r", RunState.FAILED)

    asyncio.run(live())
    shown = fencepost("show", "r", "--db", db)
    assert shown.code == 0, shown.err
    assert "encrypted by key k1" in shown.out
    assert "ValueError" in shown.out
    assert "the shelf fell over" not in shown.out
    refused = fencepost("start", SHOP, "greet", "--id", "s", "--input", json.dumps("x"), "--db", db)
    assert refused.code != 0
    assert "encrypted by key 'k1', and the app has no codec" in refused.err
