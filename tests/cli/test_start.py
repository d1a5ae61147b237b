"""Starting a run: what --input means, what is refused, and what --wait says."""

import io
import json

from tests.cli.conftest import SHOP


def start(fencepost, db, workflow, *rest, run="run-1"):
    return fencepost("start", SHOP, workflow, "--id", run, "--db", db, *rest)


def test_a_run_is_started_once_and_found_again(fencepost, db):
    first = start(fencepost, db, "greet@1", "--input", '{"name": "Ada"}', "--json")
    again = start(fencepost, db, "greet@1", "--input", '{"name": "Ada", "times": 1}', "--json")
    assert first.code == again.code == 0
    assert first.json == {"run": "run-1", "workflow": "greet", "workflow_version": 1, "state": "ready"}
    assert again.json == first.json
    other = start(fencepost, db, "greet@1", "--input", '{"name": "Bob"}')
    assert other.code == 1
    assert "another input" in other.err


def test_the_newest_version_is_meant_unless_one_is_named(fencepost, db):
    assert start(fencepost, db, "greet", "--input", '"Ada"', "--json").json["workflow_version"] == 2


def test_one_parameter_takes_the_value_itself_also_from_a_file_and_from_standard_input(
    fencepost, db, tmp_path, monkeypatch
):
    file = tmp_path / "order.json"
    file.write_text(json.dumps({"id": "7"}), "utf-8")
    assert start(fencepost, db, "order_ticket", "--input", f"@{file}").code == 0
    monkeypatch.setattr("sys.stdin", io.StringIO('{"id": "7"}'))
    assert start(fencepost, db, "order_ticket", "--input", "@-").code == 0


def test_input_that_does_not_fit_is_a_usage_error_and_starts_nothing(fencepost, db, tmp_path):
    for workflow, text, says in (
        ("order_ticket", "{id: 7}", "is no JSON"),
        ("order_ticket", '{"id": NaN}', "is no JSON"),
        ("order_ticket", "[" * 100_000, "is no JSON"),
        ("order_ticket", '{"id": 7}', "order.id"),
        ("order_ticket", "@nowhere.json", "cannot be read"),
        ("greet@1", '{"times": 2}', "needs name"),
        ("greet@1", '{"name": "Ada", "shoe": 1}', "takes no shoe"),
        ("greet@1", '"Ada"', "takes name, times"),
        ("greet@9", '"Ada"', "no workflow 'greet@9'"),
        ("grete", '"Ada"', "no workflow 'grete'"),
    ):
        ended = start(fencepost, db, workflow, "--input", text)
        assert (ended.code, says in ended.err) == (2, True), ended
    assert start(fencepost, db, "greet", "--input", '"Ada"', run="").code == 2
    assert not (tmp_path / "ledger.db").exists() or fencepost("runs", "--db", db, "--json").json["runs"] == []


def test_a_missing_id_is_a_usage_error(fencepost, db):
    ended = fencepost("start", SHOP, "greet", "--db", db)
    assert ended.code == 2
    assert "--id" in ended.err


def test_waiting_ends_with_the_result_or_says_how_the_run_ended(fencepost, db, started, lived):
    started("order_ticket", {"id": "7"}, run="well")
    started("order_ticket", {"id": "8", "ends": "unknown"}, run="unknown")
    started("break_down", {"id": "9"}, run="broken")
    for run in ("well", "unknown", "broken"):
        lived(run)
    well = start(fencepost, db, "order_ticket", "--input", '{"id": "7"}', "--wait", "--json", run="well")
    assert (well.code, well.json["result"]) == (0, "ticket-7")
    held = start(fencepost, db, "order_ticket", "--input", '{"id": "8", "ends": "unknown"}', "--wait", run="unknown")
    assert held.code == 4
    assert held.err.startswith("fencepost: held: ")
    broken = start(fencepost, db, "break_down", "--input", '{"id": "9"}', "--wait", run="broken")
    assert broken.code == 1
    assert "the shelf fell over" in broken.err


def test_waiting_no_longer_than_within(fencepost, db):
    ended = start(fencepost, db, "greet", "--input", '"Ada"', "--wait", "--within", "100ms")
    assert ended.code == 6
    assert "is ready" in ended.err
    without = start(fencepost, db, "greet", "--input", '"Ada"', "--within", "100ms", run="run-2")
    assert (without.code, "add --wait" in without.err) == (2, True)
    bare = start(fencepost, db, "greet", "--input", '"Ada"', "--wait", "--within", "20", run="run-2")
    assert (bare.code, "not a duration" in bare.err) == (2, True)
    assert fencepost("show", "run-2", "--db", db).code == 1


def test_an_app_with_a_blank_starts_nothing(fencepost, db):
    blank = "examples/blank_contract.py:app"
    ended = fencepost("start", blank, "ship", "--id", "x", "--db", db, "--input", '{"id": "1", "amount_cents": 1}')
    assert ended.code == 3
    assert "no rung" in ended.err
