"""The audit, its anchor and the check on the command line: what they print, and with which code they end."""

import json

import pytest

from fencepost import Anchor, Misuse
from fencepost.cli.target import app_for
from tests.cli.conftest import SHOP
from tests.store.tamper import tampering

WHY = ("--reason", "the customer called", "--by", "ada")


@pytest.fixture
def audited(fencepost, db, started):
    """A ledger with five audit rows, the last of them refused."""
    for number in range(4):
        run = started("greet", "Ada", run=f"run-{number}")
        assert fencepost("terminate", run, "--db", db, *WHY).code == 0
    assert fencepost("cancel", "run-3", "--db", db, "--reason", "too late", "--by", "bob").code == 1
    return db


def test_the_audit_is_listed_newest_first_and_by_pages(fencepost, audited):
    first = fencepost("audit", "--db", audited, "--limit", "3", "--json").json
    assert [row["no"] for row in first["rows"]] == [5, 4, 3]
    assert (first["rows"][0]["run"], first["rows"][0]["outcome"], first["rows"][1]["after"]["run"]) == (
        "run-3",
        "refused",
        "terminated",
    )
    rest = fencepost("audit", "--db", audited, "--limit", "3", "--before", str(first["next"]), "--json").json
    assert ([row["no"] for row in rest["rows"]], rest["next"]) == ([2, 1], None)
    shown = fencepost("audit", "--db", audited)
    assert (shown.code, shown.out.count("\n"), "too late (refused: " in shown.out) == (0, 6, True)


@pytest.mark.parametrize(
    ("by", "rows"),
    [
        (("--run", "run-3"), [5, 4]),
        (("--verb", "cancel"), [5]),
        (("--actor", "ada"), [4, 3, 2, 1]),
        (("--refused",), [5]),
        (("--verb", "cancel", "--actor", "ada"), []),
        (("--namespace", "other"), []),
    ],
    ids=str,
)
def test_the_audit_is_filtered(fencepost, audited, by, rows):
    listed = fencepost("audit", *by, "--db", audited, "--json")
    assert ([row["no"] for row in listed.json["rows"]], listed.code) == (rows, 0)


def test_an_anchor_tells_that_the_end_was_cut_off(fencepost, audited, tmp_path):
    file = tmp_path / "anchor"
    assert fencepost("audit", "verify", "--db", audited).out == "intact but unanchored: 5 rows\n"
    assert fencepost("audit", "anchor", "--file", str(file), "--db", audited).out == "anchored at row 5 of 5\n"
    verify = ("audit", "verify", "--anchor", str(file), "--db", audited)
    assert fencepost(*verify).out == "intact: 5 rows, with the anchored one among them\n"
    with tampering(audited) as inside:
        inside.do("DELETE FROM audit WHERE no = 5")
    assert fencepost("audit", "verify", "--db", audited).code == 0
    cut = fencepost(*verify, "--json")
    assert (cut.code, cut.json["answer"], cut.json["broken"]["at"], cut.json["broken"]["how"]) == (
        3,
        "broken",
        5,
        "cut off",
    )
    kept = file.read_text("utf-8")
    again = fencepost("audit", "anchor", "--file", str(file), "--db", audited)
    assert (again.code, "broken at row 5: cut off" in again.out, file.read_text("utf-8")) == (3, True, kept)


def test_an_anchor_moves_on_with_the_chain(fencepost, audited, tmp_path):
    file = tmp_path / "anchor"
    anchor = ("audit", "anchor", "--file", str(file), "--db", audited)
    assert fencepost(*anchor).code == 0
    fencepost("cancel", "run-2", "--db", audited, *WHY)
    assert fencepost(*anchor, "--json").json["answer"] == "intact"
    assert json.loads(file.read_text("utf-8"))["audit row"] == 6


def test_what_is_no_anchor_is_a_usage_error(fencepost, audited, tmp_path):
    file = tmp_path / "anchor"
    assert fencepost("audit", "verify", "--anchor", str(file), "--db", audited).code == 2
    file.write_text("nonsense", "utf-8")
    for command in (("verify", "--anchor"), ("anchor", "--file")):
        ended = fencepost("audit", *command, str(file), "--db", audited)
        assert (ended.code, "this is no anchor" in ended.err) == (2, True)
    nowhere = fencepost("audit", "anchor", "--file", str(tmp_path / "no" / "folder"), "--db", audited)
    assert (nowhere.code, "cannot be written" in nowhere.err) == (2, True)


def test_a_ledger_without_contradictions_is_said_to_have_none(fencepost, audited):
    ended = fencepost("check", "--db", audited)
    assert (ended.code, ended.out) == (0, "0 contradictions in 4 runs, 0 operations, 5 audit rows\n")
    assert fencepost("check", "--db", audited, "--json").json == {
        "runs": 4,
        "operations": 0,
        "audits": 5,
        "contradictions": 0,
        "found": [],
        "rules": {},
    }


def test_a_contradiction_is_named_with_its_rule_and_its_place(fencepost, audited):
    with tampering(audited) as inside:
        inside.do("UPDATE run SET ended_at = NULL WHERE id = 'run-1'")
    ended = fencepost("check", "--db", audited)
    assert (ended.code, ended.out.splitlines()) == (
        3,
        [
            "ended_and_moving: A run has a time of its end if, and only if, its state is final.",
            "  run-1: run: it is terminated, and has no time of its end",
            "1 contradiction in 4 runs, 0 operations, 5 audit rows",
        ],
    )
    found = fencepost("check", "--db", audited, "--json")
    assert (found.code, found.json["contradictions"], list(found.json["rules"])) == (3, 1, ["ended_and_moving"])
    assert found.json["found"][0]["run"] == "run-1"


def test_neither_makes_a_ledger_that_is_not_there(fencepost, db):
    for command in (("audit",), ("audit", "verify"), ("check",)):
        assert fencepost(*command, "--db", db).code == 5
        assert fencepost(*command).code == 2


# -- the verbs whose rows these are -----------------------------------------------------------------------------------


def test_a_run_that_was_ended_is_reopened_once(fencepost, db, started, lived):
    run = started("approve", {"id": "9"})
    assert lived(run) == "waiting"
    assert fencepost("terminate", run, "--db", db, *WHY).code == 0
    assert f"fencepost reopen {run} --reason TEXT" in fencepost("show", run, "--db", db).out
    reopened = fencepost("reopen", run, "--db", db, *WHY, "--json")
    assert (reopened.code, reopened.json["before"], reopened.json["state"]) == (0, "terminated", "ready")
    assert fencepost("reopen", run, "--db", db, *WHY).code == 1
    assert fencepost("signal", run, "decision", '"yes"', "--db", db).code == 0
    assert lived(run) == "succeeded"


def test_an_unknown_effect_is_asked_about_without_its_code(fencepost, db, started, lived):
    run = started("order_ticket", {"id": "8", "ends": "unknown"})
    assert lived(run) == "held"
    assert f"fencepost reconcile {run} --reason TEXT" in fencepost("show", run, "--db", db).out
    assert fencepost("reconcile", run, "brook", "--db", db, *WHY).code == 1
    ended = fencepost("reconcile", run, "book", "--db", db, *WHY, "--json")
    assert (ended.code, ended.json["state"]) == (0, "ready")
    assert fencepost("reconcile", run, "--db", db, *WHY).code == 0
    assert lived(run) == "held"


def test_what_is_in_no_conflict_is_not_settled_as_one(fencepost, db, started, lived):
    run = started("order_ticket", {"id": "8", "ends": "unknown"})
    assert lived(run) == "held"
    settle = ("settle", run, "book", "--conflict", "--app", SHOP, "--db", db, *WHY)
    assert fencepost(*settle).code == 2
    refused = fencepost(*settle, "--happened")
    assert (refused.code, "book is in no conflict" in refused.err) == (1, True)


def test_a_conflict_is_offered_and_settled(fencepost, db, started, lived):
    run = started("order_ticket", {"id": "8", "ends": "unknown"})
    assert lived(run) == "held"
    with tampering(db) as inside:
        inside.do("UPDATE operation SET conflict = 1")
    shown = fencepost("show", run, "--db", db).out
    assert f"fencepost settle {run} book --conflict --happened --reason TEXT" in shown
    assert f"fencepost settle {run} book --conflict --did-not-happen --reason TEXT" in shown
    assert f"fencepost settle {run} book --happened" not in shown
    settle = ("settle", run, "book", "--conflict", "--happened", "--app", SHOP, "--db", db, *WHY)
    ended = fencepost(*settle, "--result", '{"id": "t-1"}', "--json")
    assert (ended.code, ended.json["verb"], ended.json["state"]) == (0, "settle conflict", "ready")
    assert lived(run) == "succeeded"


def test_the_same_from_code(audited):
    with app_for(None, audited, None).sync as app:
        assert [row.no for row in app.audit(verb="terminate", limit=2)] == [4, 3]
        assert [row.no for row in app.audit(run="run-3", outcome="refused")] == [5]
        with pytest.raises(Misuse, match="page of 0"):
            app.audit(limit=0)
        verdict = app.verify_audit()
        assert (verdict.rows, verdict.broken, verdict.anchored) == (5, None, False)
        assert app.verify_audit(Anchor.from_text(verdict.last.as_text())).anchored
        assert app.check().found == []
