"""`fencepost alerts`: a line for each, exit 3 if one fires, thresholds of one's own, and where to read on."""

from fencepost.core.alerts import ALERTS


def test_a_ledger_in_which_all_is_well_exits_with_nothing_to_say(fencepost, db, started, lived):
    lived(started("greet", "Ada"))
    ended = fencepost("alerts", "--db", db, "--json")
    assert (ended.code, ended.json["firing"]) == (0, 0)
    assert [one["name"] for one in ended.json["alerts"]] == list(ALERTS)
    assert fencepost("alerts", "--db", db).code == 0


def test_what_fires_is_named_with_its_page_and_ends_with_findings(fencepost, db, started, lived):
    lived(started("order_ticket", {"id": "8", "ends": "unknown"}))
    ended = fencepost("alerts", "--db", db, "--threshold", "unknown-effects=0s", "--json")
    fired = {one["name"]: one for one in ended.json["alerts"] if one["fires"]}
    assert (ended.code, list(fired), ended.json["firing"]) == (3, ["unknown effects", "held runs"], 2)
    assert fired["unknown effects"]["says"] == "run-1 book"
    assert fired["unknown effects"]["severity"] == "page"
    assert fired["held runs"]["runbook"] == "alert-held-runs.md"
    text = fencepost("alerts", "--db", db)
    assert text.code == 3
    assert "runbook/alert-held-runs.md" in text.out
    assert fencepost("alerts", "--db", db, "--threshold", "held runs=1").code == 0


def test_what_cannot_be_meant_is_a_usage_error(fencepost, db, started):
    started("greet", "Ada")
    for wrong in ("nonsense=1", "held runs=5m", "queue age"):
        assert fencepost("alerts", "--db", db, "--threshold", wrong).code == 2
