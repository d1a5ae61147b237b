"""What doctor finds: a healthy ledger, and each thing that is wrong with one."""

import sqlite3
import stat
from pathlib import Path

import pytest

from fencepost.cli import doctor as checks
from fencepost.core.alerts import ALERTS
from tests.cli.conftest import SHOP


@pytest.fixture
def db(tmp_path):
    """A file: what is checked of a server is in tests/services."""
    return f"sqlite:///{tmp_path / 'ledger.db'}"


@pytest.fixture
def findings(fencepost, db):
    """Run doctor; returns its exit code and the checks by name."""

    def run(*arguments):
        ended = fencepost("doctor", *arguments, "--db", db, "--json")
        return ended.code, {check["name"]: check for check in ended.json["checks"]}

    return run


def test_a_healthy_ledger_passes_every_check(findings, started, lived):
    lived(started("greet", "Ada"))
    code, found = findings(SHOP)
    assert code == 0
    assert {check["verdict"] for name, check in found.items() if name not in ("deadline", "space")} == {"ok"}
    assert "synchronous=FULL" in found["durability"]["says"]
    assert found["schema"]["says"].startswith("number 1")


def test_the_text_has_a_line_for_each_check(fencepost, db, started):
    started("greet", "Ada")
    lines = fencepost("doctor", "--db", db).out.splitlines()
    assert any("durability" in line and line.startswith("ok") for line in lines)


def test_a_ledger_that_is_not_there_yet_is_a_warning(findings, tmp_path):
    code, found = findings()
    assert (code, found["ledger"]["verdict"]) == (0, "warning")
    assert list(tmp_path.iterdir()) == []


def test_a_foreign_file_is_a_problem_and_left_alone(findings, db):
    file = Path(db.removeprefix("sqlite:///"))
    with sqlite3.connect(file) as connection:
        connection.execute("CREATE TABLE mine (x)")
    connection.close()
    before = file.read_bytes()
    code, found = findings()
    assert (code, found["ledger"]["verdict"]) == (3, "problem")
    assert "not a Fencepost ledger" in found["ledger"]["says"]
    assert file.read_bytes() == before


def test_a_ledger_of_a_newer_version_is_a_problem(findings, db, started):
    started("greet", "Ada")
    with sqlite3.connect(db.removeprefix("sqlite:///")) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    code, found = findings()
    assert code == 3
    assert "newer Fencepost" in found["ledger"]["says"]


def test_a_ledger_that_everybody_may_change_is_a_warning(findings, db, started):
    started("greet", "Ada")
    file = Path(db.removeprefix("sqlite:///"))
    file.chmod(file.stat().st_mode | stat.S_IWOTH)
    assert findings()[1]["permissions"]["verdict"] == "warning"


def test_little_space_is_a_warning(findings, started, monkeypatch):
    started("greet", "Ada")
    monkeypatch.setattr(checks, "FREE_BYTES_MIN", 2**80)
    assert findings()[1]["space"]["verdict"] == "warning"


def test_a_clock_behind_the_ledger_is_a_problem(findings, db, started):
    run = started("greet", "Ada")
    with sqlite3.connect(db.removeprefix("sqlite:///")) as connection:
        connection.execute("UPDATE run SET changed_at = changed_at + 3600000000 WHERE id = ?", (run,))
    connection.close()
    code, found = findings()
    assert (code, found["clock"]["verdict"]) == (3, "problem")


def test_unknown_effects_and_held_runs_are_counted_with_the_oldest(findings, started, lived, monkeypatch):
    lived(started("order_ticket", {"id": "8", "ends": "unknown"}))
    code, found = findings()
    assert code == 0
    assert found["unknown effects"]["says"].endswith(": run-1 book")
    assert found["held runs"]["verdict"] == "warning"
    assert found["held runs"]["says"].startswith("1: 1 by unknown outcome")
    old = ALERTS | {"unknown effects": ALERTS["unknown effects"]._replace(threshold=-1)}
    monkeypatch.setattr("fencepost.runtime.alerting.ALERTS", old)
    assert findings()[1]["unknown effects"]["verdict"] == "problem"


def test_a_changed_audit_row_is_a_problem(fencepost, findings, db, started):
    run = started("greet", "Ada")
    fencepost("terminate", run, "--db", db, "--reason", "tidy")
    with sqlite3.connect(db.removeprefix("sqlite:///")) as connection:
        connection.execute("DROP TRIGGER audit_is_not_changed")
        connection.execute("UPDATE audit SET reason = 'nothing'")
    connection.close()
    assert findings()[1]["audit"]["verdict"] == "problem"


def test_each_blank_of_the_app_is_a_problem(findings):
    code, found = findings("examples/blank_contract.py:app")
    assert (code, found["contract"]["verdict"]) == (3, "problem")


def test_a_platform_without_enforced_deadline_is_a_warning(findings, monkeypatch):
    monkeypatch.setattr("fencepost.effects.deadline.deadline_assumption", lambda: "assumed: nobody stops a process")
    assert findings()[1]["deadline"]["verdict"] == "warning"


def test_the_model_endpoint_is_named_and_not_asked(findings, monkeypatch):
    monkeypatch.setenv("FENCEPOST_MODEL_URL", "http://127.0.0.1:9/v1")
    monkeypatch.setenv("FENCEPOST_MODEL", "small")
    assert findings(SHOP)[1]["model"]["says"] == "small at http://127.0.0.1:9/v1; not asked now"
