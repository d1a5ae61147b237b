"""Each verb of the command line calls the runtime's function: what it changes, refuses and leaves behind."""

import json

import pytest

from tests.cli.conftest import SHOP

WHY = ("--reason", "the customer called", "--by", "ada")


@pytest.fixture
def unknown(started, lived):
    """A run that is held because nobody knows whether its ticket was booked."""
    run = started("order_ticket", {"id": "8", "ends": "unknown"})
    assert lived(run) == "held"
    return run


def test_a_signal_is_kept_counts_once_and_reaches_its_wait(fencepost, db, started, lived):
    run = started("approve", {"id": "9"})
    send = ("signal", run, "decision", '"yes"', "--db", db, "--id", "event-1", "--json")
    first, again = fencepost(*send), fencepost(*send)
    assert first.json == again.json == {"run": run, "signal": "event-1", "name": "decision", "state": "kept"}
    other = fencepost("signal", run, "decision", '"no"', "--db", db, "--id", "event-1")
    assert other.code == 1
    assert lived(run) == "succeeded"
    assert fencepost("show", run, "--db", db, "--json").json["run"]["result"] == "ticket-9 yes"
    late = fencepost("signal", run, "decision", '"yes"', "--db", db)
    assert late.code == 1
    assert late.err.startswith("fencepost: refused: ")


def test_a_signal_takes_any_json(fencepost, db, started):
    run = started("approve", {"id": "9"})
    for number, value in enumerate((None, 1, 1.5, True, "x", [1, {"a": None}], {"b": [2]})):
        ended = fencepost("signal", run, "other", json.dumps(value), "--db", db, "--id", str(number))
        assert ended.code == 0, ended.err
    values = [one["value"] for one in fencepost("show", run, "--db", db, "--json").json["signals"]]
    assert values == [None, 1, 1.5, True, "x", [1, {"a": None}], {"b": [2]}]
    assert fencepost("signal", run, "other", "yes", "--db", db).code == 2
    assert fencepost("signal", run, "other", '"yes"', "--db", db, "--id", "").code == 2


def test_a_run_is_cancelled_with_who_and_why(fencepost, db, started, lived):
    run = started("approve", {"id": "9"})
    lived(run)
    ended = fencepost("cancel", run, "--db", db, *WHY, "--json")
    assert (ended.code, ended.json["before"], ended.json["verb"]) == (0, "waiting", "cancel")
    assert lived(run) == "cancelled"
    (row,) = fencepost("show", run, "--db", db, "--json").json["audit"]
    assert (row["actor"], row["verb"], row["reason"], row["outcome"]) == ("ada", "cancel", WHY[1], "done")


def test_a_verb_that_does_not_apply_is_refused_and_audited(fencepost, db, started, lived):
    run = started("greet", "Ada")
    lived(run)
    ended = fencepost("cancel", run, "--db", db, *WHY)
    assert ended.code == 1
    assert ended.err == (
        "fencepost: refused: cancel does not apply to a run that is succeeded [run=run-1] "
        "(`fencepost show` lists the verbs)\n"
    )
    assert fencepost("show", run, "--db", db, "--json").json["audit"][0]["outcome"] == "refused"


def test_every_verb_needs_a_reason(fencepost, db, started):
    run = started("greet", "Ada")
    assert fencepost("terminate", run, "--db", db).code == 2
    assert fencepost("terminate", run, "--db", db, "--reason", " ").code == 2
    nobody = fencepost("terminate", run, "--db", db, "--reason", "tidy", "--by", "")
    assert (nobody.code, "--by and --reason" in nobody.err) == (2, True)
    assert fencepost("show", run, "--db", db, "--json").json["audit"] == []
    assert fencepost("terminate", run, "--db", db, "--reason", "tidy").code == 0


def test_a_verb_holds_only_for_the_version_that_the_person_saw(fencepost, db, started):
    run = started("greet", "Ada")
    seen = fencepost("show", run, "--db", db, "--json").json["run"]["version"]
    stale = fencepost("terminate", run, "--db", db, *WHY, "--if-version", str(seen + 1))
    assert stale.code == 1
    assert "has changed since you looked" in stale.err
    assert fencepost("terminate", run, "--db", db, *WHY, "--if-version", str(seen)).code == 0


def test_an_unknown_effect_is_settled_as_happened_and_the_run_goes_on(fencepost, db, unknown, lived):
    ended = fencepost(
        "settle", unknown, "book", "--happened", "--result", '{"id": "t-1"}', "--reference", "t-1",
        "--app", SHOP, "--db", db, *WHY, "--json",
    )  # fmt: skip
    assert (ended.code, ended.json["before"]) == (0, "held")
    assert lived(unknown) == "succeeded"
    told = fencepost("show", unknown, "--db", db, "--json").json
    assert told["run"]["result"] == "t-1"
    assert told["steps"][0]["reference"] == "t-1"


def test_settling_without_a_result_says_what_may_follow(fencepost, db, unknown):
    settle = ("settle", unknown, "book", "--happened", "--reference", "t-1", "--app", SHOP, "--db", db, *WHY)
    ended = fencepost(*settle)
    assert (ended.code, "held again, result missing" in ended.err) == (0, True)
    assert fencepost(*settle, "--result", '{"id": "t-1"}').err == ""


def test_an_effect_without_any_reference_is_settled_by_a_named_override(fencepost, db, unknown):
    settle = ("settle", unknown, "book", "--happened", "--app", SHOP, "--db", db, *WHY)
    assert fencepost(*settle).code == 1
    ended = fencepost(*settle, "--override")
    assert (ended.code, "guarantee" in ended.err) == (0, False)


def test_a_result_of_another_type_is_refused(fencepost, db, unknown):
    ended = fencepost("settle", unknown, "book", "--happened", "--result", "{}", "--app", SHOP, "--db", db, *WHY)
    assert ended.code == 1
    assert "result.id" in ended.err


def test_not_happened_waits_out_the_span_unless_overridden_by_name(fencepost, db, unknown):
    settle = ("settle", unknown, "book", "--did-not-happen", "--app", SHOP, "--db", db, *WHY)
    refused = fencepost(*settle)
    assert refused.code == 1
    assert "may still land" in refused.err
    overridden = fencepost(*settle, "--override")
    assert overridden.code == 0
    assert "the guarantee of book is lost" in overridden.err


def test_what_cannot_be_meant_is_a_usage_error(fencepost, db, unknown):
    base = ("settle", unknown, "book", "--db", db, *WHY)
    assert "say --happened or --did-not-happen" in fencepost(*base, "--app", SHOP).err
    assert fencepost(*base, "--app", SHOP).code == 2
    assert "needs the code" in fencepost(*base, "--happened").err
    assert fencepost(*base, "--app", SHOP, "--did-not-happen", "--result", "1").code == 2
    assert fencepost("retry", unknown, "book", "--db", db, *WHY).code == 2


def test_a_step_that_is_not_there_is_named_with_those_that_are(fencepost, db, unknown):
    ended = fencepost("settle", unknown, "brook", "--happened", "--app", SHOP, "--db", db, *WHY)
    assert ended.code == 1
    assert "it has: book" in ended.err


def test_a_held_run_resumes_without_code_and_is_held_again(fencepost, db, unknown, lived):
    assert fencepost("resume", unknown, "--db", db, *WHY).code == 0
    assert lived(unknown) == "held"


def test_a_failed_run_resumes_with_its_code(fencepost, db, started, lived):
    run = started("order_ticket", {"id": "1", "ends": "not sent"})
    assert lived(run) == "failed"
    without = fencepost("resume", run, "--db", db, *WHY)
    assert without.code == 1
    assert "module and app" in without.err
    assert fencepost("resume", run, "--app", SHOP, "--db", db, *WHY).code == 0


def test_an_operation_that_is_unknown_is_not_retried(fencepost, db, unknown):
    ended = fencepost("retry", unknown, "book", "--app", SHOP, "--db", db, *WHY)
    assert ended.code == 1
    assert "is unknown, not failed" in ended.err


@pytest.mark.parametrize(("ends", "state"), [("well", "compensated"), ("badly twice", "compensation failed")])
def test_a_failed_run_is_compensated_and_shows_how(fencepost, db, *, started, lived, ends, state):
    run = started("break_down", {"id": "9", "ends": ends})
    assert lived(run) == "failed"
    assert fencepost("compensate", run, "--db", db, *WHY).code == 0
    assert lived(run) == state
    told = fencepost("show", run, "--db", db, "--json").json
    assert [one["effect"] for one in told["compensation"]["effects"]] == ["book"]
    assert f"compensation: {WHY[1]}" in fencepost("show", run, "--db", db).out


def test_a_compensation_that_failed_is_tried_again_without_its_code(fencepost, db, started, lived):
    run = started("break_down", {"id": "9", "ends": "badly twice"})
    lived(run)
    compensate = ("compensate", run, "--db", db, *WHY)
    assert fencepost(*compensate).code == 0
    assert lived(run) == "compensation failed"
    assert f"fencepost compensate {run} --reason TEXT --db" in fencepost("show", run, "--db", db).out
    assert fencepost(*compensate).code == 0


def test_app_and_ledger_may_come_from_the_environment(fencepost, db, unknown, monkeypatch):
    monkeypatch.setenv("FENCEPOST_APP", SHOP)
    monkeypatch.setenv("FENCEPOST_DB", db)
    assert fencepost("runs").code == 0
    assert fencepost("settle", unknown, "book", "--happened", "--reference", "t", *WHY).code == 0
