"""`runs` and `show`: everything that the ledger holds, with stable keys, and harmless on a terminal."""

import json
import shlex
import sqlite3
from pathlib import Path

import pytest

from tests.cli.conftest import SHOP

HOSTILE = "\x1b[2J\u202eevil\nforged [bold]markup[/bold]"


@pytest.fixture
def shop(started, lived):
    """A ledger with a run of each ending."""
    started("order_ticket", {"id": "7"}, run="well")
    started("order_ticket", {"id": "8", "ends": "unknown"}, run="unknown")
    started("approve", {"id": "9"}, run="waiting")
    for run in ("well", "unknown", "waiting"):
        lived(run)


def test_runs_are_listed_newest_first_in_pages(fencepost, db, shop):
    first = fencepost("runs", "--db", db, "--limit", "2", "--json").json
    assert [run["id"] for run in first["runs"]] == ["waiting", "unknown"]
    rest = fencepost("runs", "--db", db, "--limit", "2", "--after", str(first["next"]), "--json").json
    assert [run["id"] for run in rest["runs"]] == ["well"]
    assert rest["next"] is None


def test_runs_can_be_chosen_by_state_workflow_and_prefix(fencepost, db, shop):
    def ids(*options):
        return [run["id"] for run in fencepost("runs", "--db", db, "--json", *options).json["runs"]]

    assert ids("--state", "held") == ["unknown"]
    assert ids("--state", "partly-compensated") == []
    assert ids("--workflow", "approve") == ["waiting"]
    assert ids("--prefix", "w") == ["waiting", "well"]
    wrong = fencepost("runs", "--db", db, "--state", "lost")
    assert wrong.code == 2
    assert "states: ready" in wrong.err


def test_the_table_names_each_run_and_why_it_stands(fencepost, db, shop):
    lines = fencepost("runs", "--db", db).out.splitlines()
    assert len(lines) == 4
    assert "held" in lines[2]
    assert "at book" in lines[2]
    assert "signal 'decision'" in lines[1]


def test_a_page_that_is_full_says_more_only_if_there_is_more(fencepost, db, shop):
    assert fencepost("runs", "--db", db, "--limit", "3").err == ""
    assert fencepost("runs", "--db", db, "--limit", "3", "--json").json["next"] is None
    assert fencepost("runs", "--db", db, "--limit", "2").err.startswith("more: --after ")


def test_show_has_stable_keys(fencepost, db, shop):
    told = fencepost("show", "unknown", "--db", db, "--json").json
    keys = {"run", "waits_for", "verbs", "decisions", "children", "cancellation", "steps", "compensation", "signals"}
    assert set(told) == keys | {"audit"}
    assert told["run"]["state"] == "held"
    assert told["run"]["hold"]["step"] == "book"
    assert told["waits_for"] == ["a person"]
    assert "settle" in told["verbs"]
    (operation,) = told["steps"]
    assert operation["state"] == "unknown"
    assert operation["request"] == {"order": {"id": "8", "ends": "unknown"}}
    assert len(operation["key"]) == 64
    (attempt,) = operation["attempts"]
    assert (attempt["number"], attempt["outcome"], attempt["evidence"]) == (1, "unresolved", None)
    assert attempt["owner"]["generation"] >= 1  # a worker that was just stopping may have had the run before
    assert operation["error"]["message"] == "the line went dead"


def test_the_timeline_shows_intent_evidence_reference_and_verbs(fencepost, db, shop):
    shown = fencepost("show", "well", "--db", db).out
    assert 'intends     book {"order": ' in shown
    assert "reference   ticket-7" in shown
    assert "attempt 1" in shown
    assert 'evidence {"kind": "returned"}' in shown
    held = fencepost("show", "unknown", "--db", db).out
    assert "(at book)" in held
    offered = [line.strip() for line in held.splitlines() if line.startswith("  fencepost")]
    end = f"--reason TEXT --app MODULE:APP --db {shlex.quote(db)}"
    assert offered[:2] == [
        f"fencepost settle unknown book --happened --result JSON {end}",
        f"fencepost settle unknown book --did-not-happen {end}",
    ]
    assert not [line for line in offered if line.startswith("fencepost signal")]
    waiting = fencepost("show", "waiting", "--db", db).out
    assert "signal 'decision'" in waiting
    assert f"fencepost signal waiting decision JSON --db {shlex.quote(db)}" in waiting
    with_app = fencepost("show", "unknown", "--app", SHOP, "--db", db).out
    assert f"--reason TEXT --app {SHOP} --db {shlex.quote(db)}" in with_app


def test_what_the_environment_names_is_not_repeated(fencepost, db, shop, monkeypatch):
    monkeypatch.setenv("FENCEPOST_DB", db)
    assert "fencepost signal waiting decision JSON\n" in fencepost("show", "waiting").out


@pytest.mark.parametrize("dialect", ["sqlite"], indirect=True)
def test_a_hold_inside_an_operators_compensation_names_the_operation(fencepost, db, shop):
    with sqlite3.connect(db.removeprefix("sqlite:///")) as connection:
        connection.execute("UPDATE run SET hold = json_set(hold, '$.step', 'operator:1') WHERE id = 'unknown'")
    connection.close()
    assert "at book" in fencepost("runs", "--db", db, "--state", "held").out
    assert "(at book)" in fencepost("show", "unknown", "--db", db).out


def test_payloads_can_be_left_out(fencepost, db, shop):
    text = fencepost("show", "well", "--db", db, "--json", "--redact").out
    assert "ticket" not in json.dumps(json.loads(text)["steps"][0]["result"])
    assert json.loads(text)["steps"][0]["request"].startswith("redacted (")
    assert '"well"' not in json.dumps(json.loads(text)["run"]["input"])


def test_hostile_text_is_shown_escaped(fencepost, db, started, lived):
    started("order_ticket", {"id": HOSTILE})
    lived("run-1")
    fencepost("signal", "run-1", "decision", json.dumps(HOSTILE), "--db", db, "--by", HOSTILE)
    shown = fencepost("show", "run-1", "--db", db).out
    document = fencepost("show", "run-1", "--db", db, "--json").out
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert not [line for line in shown.splitlines() if line.startswith("forged")]
    assert "[bold]markup[/bold]" in shown
    assert document.isascii()
    assert json.loads(document)["run"]["input"]["order"]["id"] == HOSTILE


def test_a_huge_payload_is_cut_on_the_screen_and_whole_in_json(fencepost, db, started):
    started("order_ticket", {"id": "x" * 100_000})
    assert len(fencepost("show", "run-1", "--db", db).out) < 5_000
    whole = fencepost("show", "run-1", "--db", db, "--json").json
    assert len(whole["run"]["input"]["order"]["id"]) == 100_000


def test_a_run_that_is_not_there_is_refused(fencepost, db, started):
    started("greet", "Ada")
    ended = fencepost("show", "run-2", "--db", db)
    assert ended.code == 1
    assert "no run has the id 'run-2'" in ended.err
    assert fencepost("show", "run-1", "--db", db, "--namespace", "elsewhere").code == 1


def test_reading_never_creates_a_ledger(fencepost, db, tmp_path):
    for command in (("runs",), ("show", "x"), ("cancel", "x", "--reason", "y"), ("signal", "x", "y")):
        ended = fencepost(*command, "--db", db)
        assert ended.code == 5
        assert "there is no ledger here" in ended.err
    assert list(tmp_path.iterdir()) == []


def test_reading_makes_no_ledger_of_an_empty_file(fencepost, tmp_path):
    nothing, tableless = tmp_path / "nothing.db", tmp_path / "tableless.db"
    nothing.touch()
    connection = sqlite3.connect(tableless)
    connection.executescript("CREATE TABLE x (y); DROP TABLE x")
    connection.close()
    for file in (nothing, tableless):
        before = file.read_bytes()
        ended = fencepost("runs", "--db", f"sqlite:///{file}")
        assert (ended.code, "this file is empty" in ended.err) == (5, True), ended
        assert fencepost("doctor", "--db", f"sqlite:///{file}").code == 0
        assert file.read_bytes() == before


def test_what_is_no_ledger_is_named_and_left_alone(fencepost, tmp_path):
    foreign, text = tmp_path / "foreign.db", tmp_path / "text.db"
    with sqlite3.connect(foreign) as connection:
        connection.execute("CREATE TABLE mine (x)")
    connection.close()
    text.write_text("not a database at all, " * 100, "utf-8")
    for file, says in ((foreign, "not a Fencepost ledger"), (text, "not an SQLite database")):
        before = Path(file).read_bytes()
        ended = fencepost("runs", "--db", f"sqlite:///{file}")
        assert (ended.code, says in ended.err) == (5, True), ended
        assert Path(file).read_bytes() == before
    assert fencepost("runs", "--db", "mysql://x/y").code == 2


def test_each_state_has_the_label_of_its_own_kind(fencepost, db, shop):
    told = fencepost("show", "well", "--db", db, "--json").json
    assert told["steps"][0]["label"] == "happened once, with evidence"
    assert told["steps"][0]["attempts"][0]["label"] == "this attempt took effect"
