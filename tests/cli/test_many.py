"""One verb on many runs: a bound, a rehearsal that changes nothing, one audit row for each run, and a second click."""

import asyncio
import signal
import subprocess

import pytest

from fencepost.cli.target import app_for
from fencepost.core.errors import Misuse
from fencepost.runtime.bulk import Selection
from tests.cli.conftest import SHOP
from tests.cli.test_processes import FENCEPOST
from tests.polling import until

WHY = ("--reason", "the desk is open again", "--by", "ada")


@pytest.fixture
def many(db, started, lived):
    """Five runs of which nobody knows whether a ticket was booked, and one that waits."""
    for number in range(5):
        run = started("order_ticket", {"id": str(number), "ends": "unknown"}, run=f"unknown-{number}")
        assert lived(run) == "held"
    assert lived(started("approve", {"id": "9"}, run="waits")) == "waiting"
    return db


def rows(fencepost, db):
    return [(row["run"], row["verb"], row["outcome"]) for row in fencepost("audit", "--db", db, "--json").json["rows"]]


def reason_of(fencepost, db):
    [reason] = {
        run["hold"]["reason"] for run in fencepost("runs", "--state", "held", "--db", db, "--json").json["runs"]
    }
    return reason


def test_a_rehearsal_says_what_would_be_done_and_changes_nothing(fencepost, many):
    before = fencepost("runs", "--db", many, "--json").json
    versions = {run["id"]: run["version"] for run in before["runs"]}
    reason = reason_of(fencepost, many)
    resume = ("bulk", "resume", "--held-by", reason, "--limit", "3", "--db", many, *WHY)
    would = fencepost(*resume, "--dry-run", "--json")
    assert would.code == 0
    assert would.json["runs"] == [
        {
            "run": f"unknown-{n}",
            "before": "held",
            "after": "ready",
            "moves": ["book: asked about again"],
            "refused": None,
            "version": versions[f"unknown-{n}"],
        }
        for n in (4, 3, 2)
    ]
    assert "3 of 3 would be done, nothing changed" in fencepost(*resume, "--dry-run").err
    assert fencepost("runs", "--db", many, "--json").json == before
    assert rows(fencepost, many) == []


def test_each_run_has_a_row_of_its_own_and_a_second_click_takes_those_that_are_left(fencepost, many):
    terminate = ("bulk", "terminate", "--state", "held", "--limit", "3", "--db", many, *WHY)
    assert fencepost(*terminate).code == 0
    assert rows(fencepost, many) == [(f"unknown-{n}", "terminate", "done") for n in (2, 3, 4)]
    assert [one["run"] for one in fencepost(*terminate, "--json").json["runs"]] == ["unknown-1", "unknown-0"]
    nothing = fencepost(*terminate)
    assert (nothing.code, nothing.err) == (0, "no such runs\n")
    assert len(rows(fencepost, many)) == 5
    assert fencepost("check", "--db", many).code == 0


def test_a_refusal_is_told_and_audited_and_does_not_stop_the_others(fencepost, many):
    ended = fencepost(
        "bulk", "compensate", "--prefix", "unknown-", "--state", "held", "--limit", "2", "--db", many, *WHY
    )
    assert ended.code == 0
    refused = fencepost("bulk", "retry", "book", "--state", "held", "--db", many, "--app", SHOP, *WHY, "--json")
    assert refused.code == 1
    assert [("is unknown, not failed" in one["refused"], one["after"]) for one in refused.json["runs"]] == [
        (True, "held")
    ] * 3
    assert [row[1:] for row in rows(fencepost, many)] == [("retry", "refused")] * 3 + [("compensate", "done")] * 2


def test_one_step_of_each_is_meant_where_one_is_named(fencepost, many):
    asked = ("bulk", "compensate", "book", "--state", "held", "--db", many, *WHY, "--json")
    told = fencepost(*asked, "--dry-run")
    assert told.code == 1
    assert {one["refused"] for one in told.json["runs"]} == {
        "book is unknown, and only what is known to have happened is compensated"
    }
    assert fencepost(*asked).code == 1
    assert {row[1:] for row in rows(fencepost, many)} == {("compensate step", "refused")}


def test_runs_are_selected_by_workflow_and_by_the_beginning_of_their_ids(fencepost, many):
    cancel = ("bulk", "cancel", "--state", "waiting", "--dry-run", "--db", many, *WHY, "--json")
    assert [one["run"] for one in fencepost(*cancel, "--workflow", "approve").json["runs"]] == ["waits"]
    assert fencepost(*cancel, "--workflow", "order_ticket").json["runs"] == []
    assert fencepost(*cancel, "--prefix", "unknown").json["runs"] == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("resume",), ("resume", "--state", "held", "--held-by", "x"), ("resume", "--state", "asleep"),
        ("settle", "--state", "held"), ("retry", "--state", "held"), ("cancel", "step", "--state", "held"),
    ],
    ids=str,
)  # fmt: skip
def test_what_cannot_be_meant_is_a_usage_error(fencepost, many, arguments):
    assert fencepost("bulk", *arguments, "--db", many, *WHY).code == 2
    assert rows(fencepost, many) == []


def test_the_same_from_code(many):
    async def both():
        async with app_for(None, many, None) as app:
            with pytest.raises(Misuse, match="not done to many"):
                await app.bulk("settle", Selection(state="held"), by="ada", reason="all of them")
            would = await app.bulk("cancel", Selection(state="waiting"), dry_run=True, by="ada", reason="tidy")
            done = await app.bulk("cancel", Selection(state="waiting"), by="ada", reason="tidy")
            return would, done

    would, done = asyncio.run(both())
    assert would == done
    assert [(one.run, one.before, one.after) for one in done] == [("waits", "waiting", "cancelling")]


def test_what_a_person_was_shown_is_done_to_those_runs_alone_and_only_if_they_are_as_they_were(
    fencepost, many, tmp_path
):
    terminate = ("bulk", "terminate", "--db", many, *WHY)
    seen = fencepost(*terminate, "--state", "held", "--limit", "3", "--dry-run", "--json")
    shown = tmp_path / "seen.json"
    shown.write_text(seen.out, "utf-8")
    assert fencepost("resume", "unknown-3", "--db", many, *WHY).code == 0
    done = fencepost(*terminate, "--shown", str(shown), "--json")
    assert [(one["run"], one["refused"] is None) for one in done.json["runs"]] == [
        ("unknown-4", True), ("unknown-3", False), ("unknown-2", True),
    ]  # fmt: skip
    assert "has changed since you looked" in done.json["runs"][1]["refused"]
    again = fencepost(*terminate, "--shown", str(shown), "--json")
    assert {one["refused"] is None for one in again.json["runs"]} == {False}
    assert fencepost(*terminate, "--shown", str(shown), "--state", "held").code == 2
    shown.write_text('{"runs": []}', "utf-8")
    assert fencepost(*terminate, "--shown", str(shown)).code == 0
    for none in ("{}", "[]", '{"runs": [{"run": 1}]}'):
        shown.write_text(none, "utf-8")
        assert fencepost(*terminate, "--shown", str(shown)).code == 2


def test_ctrl_c_stops_between_two_runs_and_what_is_left_is_done_by_a_resume(fencepost, many):
    terminate = ("bulk", "terminate", "--state", "held", "--db", many, *WHY)
    process = subprocess.Popen([*FENCEPOST, *terminate, "--pace", "60s"], stderr=subprocess.PIPE, text=True)
    until(lambda: rows(fencepost, many), "the first run to be done")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert (process.returncode, "4 of 5 runs are left as they were" in err) == (130, True)
    assert rows(fencepost, many) == [("unknown-4", "terminate", "done")]
    assert "fencepost bulks resume 1" in err
    assert fencepost("bulks", "resume", "1", "--db", many, *WHY).code == 0
    assert len(rows(fencepost, many)) == 5
    assert rows(fencepost, many)[0] == ("unknown-0", "terminate", "done")


def test_a_bulk_from_code_stops_between_two_runs_when_it_is_cancelled(many):
    async def cancelled():
        async with app_for(None, many, None) as app:
            doing = asyncio.ensure_future(app.bulk("terminate", Selection(state="held"), by="ada", reason="tidy"))
            app._wake = doing.cancel  # as somebody who has seen the first one
            with pytest.raises(asyncio.CancelledError):
                await doing
            del app._wake
            before = len(app.store.audits("default", None))
            rest = await app.bulk("terminate", Selection(state="held"), by="ada", reason="tidy")
            return before, len(rest), app.store.audits("default", None)

    before, rest, told = asyncio.run(cancelled())
    assert 1 <= before < 5
    assert before + rest == 5
    assert [row.outcome for row in told] == ["done"] * 5


def test_a_version_belongs_to_migrate_and_to_no_other_verb(fencepost, db):
    for words in (("migrate",), ("resume", "--to", "2")):
        ended = fencepost("bulk", *words, "--state", "held", "--db", db, "--reason", "new code")
        assert (ended.code, "version" in ended.err) == (2, True)
