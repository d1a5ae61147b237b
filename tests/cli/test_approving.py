"""Whoever approves on the command line sees the exact call, and approves that one or nothing."""

import json

import pytest

from tests.cli.shop import Order, book

ORDER = {"id": "9", "ends": "well"}
DIGEST = book(Order(**ORDER)).digest("run-1")


@pytest.fixture
def waiting(started, lived):
    """A run that waits for an approval."""
    run = started("sign", ORDER)
    assert lived(run) == "waiting"
    return run


def audits(fencepost, db, run):
    rows = fencepost("show", run, "--db", db, "--json").json["audit"]
    return [(row["verb"], row["actor"], row["outcome"], row["reason"]) for row in rows]


def test_what_is_approved_is_shown_with_its_digest_and_then_done(fencepost, db, waiting, lived):
    ended = fencepost("approve", waiting, "ok", "--by", "ada", "--comment", "cheap", "--db", db)
    assert ended.code == 0
    assert ended.out.splitlines()[:3] == [
        "waits to be allowed: book, contract version 1",
        f"  with      {json.dumps({'order': {'ends': 'well', 'id': '9'}})}",
        f"  digest    {DIGEST}",
    ]
    assert ended.out.splitlines()[3].startswith("approved by ada; the answer (")
    assert lived(waiting, until=("succeeded", "held", "failed")) == "succeeded"
    told = fencepost("show", waiting, "--db", db, "--json").json
    assert told["run"]["result"] == "ticket-9 for ada"
    assert [step["approval"] for step in told["steps"] if step["kind"] == "effect"] == ["/ok"]
    assert audits(fencepost, db, waiting) == [("approve", "ada", "done", "cheap")]
    assert "approval    /ok" in fencepost("show", waiting, "--db", db).out


def test_what_is_denied_is_not_done(fencepost, db, waiting, lived):
    ended = fencepost("approve", waiting, "ok", "--deny", "--by", "ada", "--comment", "too dear", "--db", db, "--json")
    assert (ended.code, ended.json["approved"], ended.json["digest"]) == (0, False, DIGEST)
    assert ended.json["call"] == {"step": "book", "item": None, "version": 1, "request": {"order": ORDER}}
    assert lived(waiting, until=("succeeded", "held", "failed")) == "succeeded"
    told = fencepost("show", waiting, "--db", db, "--json").json
    assert told["run"]["result"] == "ada: too dear"
    assert audits(fencepost, db, waiting) == [("deny", "ada", "done", "too dear")]


def test_another_call_than_the_one_that_was_shown_is_refused(fencepost, db, waiting):
    other = book(Order(id="10")).digest("run-1")
    ended = fencepost("approve", waiting, "ok", "--digest", other, "--by", "ada", "--db", db)
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith("fencepost: refused: what waits is not what was shown")
    [(verb, actor, outcome, _)] = audits(fencepost, db, waiting)
    assert (verb, actor, outcome) == ("approve", "ada", "refused")
    assert fencepost("approve", waiting, "ok", "--digest", DIGEST, "--by", "ada", "--db", db).code == 0


def test_a_wait_is_offered_as_it_can_be_answered(fencepost, db, waiting):
    shown = fencepost("show", waiting, "--db", db).out
    assert "approval 'ok' of book, until " in shown
    assert f"fencepost approve {waiting} ok --digest {DIGEST}" in shown
    assert f"fencepost signal {waiting}" not in shown
    assert DIGEST in fencepost("show", waiting, "--db", db, "--redact").out
    assert "approval 'ok' of book" in fencepost("runs", "--db", db).out


def test_the_same_answer_twice_counts_once_and_a_late_one_is_refused(fencepost, db, waiting, lived):
    approve = ("approve", waiting, "ok", "--digest", DIGEST, "--by", "ada", "--db", db, "--json")
    assert fencepost(*approve).json["signal"] == fencepost(*approve).json["signal"]
    assert lived(waiting, until=("succeeded", "held", "failed")) == "succeeded"
    late = fencepost("approve", waiting, "ok", "--digest", DIGEST, "--by", "bob", "--db", db)
    assert late.code == 1
    assert [row[:3] for row in audits(fencepost, db, waiting)] == [
        ("approve", "ada", "done"),
        ("approve", "bob", "refused"),
    ]


def test_a_plain_signal_does_not_approve_without_the_digest(fencepost, db, waiting, lived):
    signal = ("signal", waiting, "ok", "--by", "ada", "--db", db)
    assert fencepost(*signal[:3], '{"approved": true}', *signal[3:]).code == 1
    assert fencepost(*signal[:3], json.dumps({"approved": True, "digest": DIGEST}), *signal[3:]).code == 0
    assert lived(waiting, until=("succeeded", "held", "failed")) == "succeeded"
