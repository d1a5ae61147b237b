"""Who may do what on the command line: the login counts, a ledger's policy binds it without any code, two are two."""

import pytest

from fencepost.cli.target import app_for
from fencepost.core.permissions import RISKY, Permissions
from fencepost.runtime.permits import declare
from tests.cli.conftest import SHOP

WHY = ("--reason", "the customer called")


@pytest.fixture
def acting(monkeypatch):
    """Be somebody else from now on."""

    def be(name):
        for module in ("options", "target"):
            monkeypatch.setattr(f"fencepost.cli.{module}.login", lambda: name)

    be("ann")
    return be


@pytest.fixture
def held(db, started, lived, acting):
    """A run of which nobody knows whether its ticket was booked, in a ledger that says who may what."""
    run = started("order_ticket", {"id": "8", "ends": "unknown"})
    assert lived(run) == "held"
    with app_for(None, db, None).sync as app:
        people = {"ann": "operator", "bob": "operator", "vic": "viewer"}
        declare(app.store, app.namespace, Permissions(people, two_persons=RISKY))
    return run


def told(fencepost, db):
    return [
        (row["actor"], row["verb"], row["outcome"])
        for row in fencepost("audit", "--db", db, "--json").json["rows"]
        if row["verb"] != "declare permissions"
    ]


def test_one_proposes_another_confirms_and_the_audit_names_both(fencepost, db, held, acting):
    force = ("settle", held, "book", "--did-not-happen", "--override", "--app", SHOP, "--db", db, *WHY)
    kept = fencepost(*force)
    assert kept.code == 4
    assert "kept as proposal 1 [run=run-1, proposal=1] (within 1d somebody else: fencepost confirm 1)" in kept.err
    listed = fencepost("proposals", "--db", db, "--json").json["proposals"]
    assert [(one["proposal"], one["run"], one["verb"], one["proposed_by"]) for one in listed] == [
        (1, held, "settle", "ann")
    ]
    assert listed[0]["arguments"]["override"] is True
    assert "settle" in fencepost("proposals", "--db", db).out

    confirm = ("confirm", "1", "--app", SHOP, "--db", db, "--reason", "not on the statement")
    assert "cannot be the second person" in fencepost(*confirm).err
    assert "speaks for 'ann', not for 'bob'" in fencepost(*confirm, "--by", "bob").err
    acting("bob")
    done = fencepost(*confirm, "--json")
    assert (done.code, done.json["verb"], done.json["run"]) == (0, "settle", held)
    assert fencepost(*confirm).code == 1
    assert told(fencepost, db) == [
        ("bob", "confirm", "refused"), ("bob", "settle", "done"), ("bob", "confirm", "refused"),
        ("ann", "confirm", "refused"), ("ann", "propose", "done"),
    ]  # fmt: skip
    assert fencepost("audit", "verify", "--db", db).code == 0
    assert fencepost("check", "--db", db).code == 0


def test_a_viewer_is_refused_with_the_role_that_is_missing(fencepost, db, held, acting):
    acting("vic")
    for verb in ("cancel", "resume"):
        refused = fencepost(verb, held, "--db", db, *WHY)
        assert (refused.code, f"'vic' lacks the role operator for {verb}" in refused.err) == (1, True)
    many = fencepost("bulk", "cancel", "--state", "held", "--db", db, *WHY)
    assert (many.code, "lacks the role" in many.err) == (1, True)
    assert fencepost("signal", held, "word", "1", "--db", db).code == 1
    assert {row[2] for row in told(fencepost, db)} == {"refused"}
    assert fencepost("runs", "--db", db).code == 0


def test_a_proposal_is_declined(fencepost, db, held, acting):
    assert fencepost("terminate", held, "--db", db, *WHY).code == 4
    acting("bob")
    assert fencepost("decline", "1", "--db", db, *WHY).out == "proposal 1 is declined: nothing was done to run run-1\n"
    assert fencepost("proposals", "--db", db).err == "no proposals\n"
    assert [one["state"] for one in fencepost("proposals", "--all", "--db", db, "--json").json["proposals"]] == [
        "declined"
    ]
    assert fencepost("confirm", "7", "--db", db, *WHY).code == 1


def test_a_verb_on_a_run_that_is_not_there_leaves_a_row(fencepost, db, held):
    assert fencepost("cancel", "nobody", "--db", db, *WHY).code == 1
    assert told(fencepost, db) == [("ann", "cancel", "refused")]
    assert fencepost("check", "--db", db).code == 0


def test_doctor_says_who_may_do_what_and_who_one_is(fencepost, db, held, started, acting):
    def roles():
        found = fencepost("doctor", "--db", db, "--json").json["checks"]
        return next(check["says"] for check in found if check["name"] == "roles")

    two = "override, reopen, terminate an unknown"
    assert roles() == f"declared for 3; two for {two}; you are ann: operator, viewer"
    acting("eve")
    assert roles().endswith("you are eve: no role")


def test_without_a_policy_everybody_may_do_everything_and_doctor_says_so(fencepost, db, started, acting):
    run = started("approve", {"id": "9"})
    found = fencepost("doctor", "--db", db, "--json").json["checks"]
    assert {"none declared: whoever can write to this ledger has every role; you are ann"} == {
        check["says"] for check in found if check["name"] == "roles"
    }
    assert fencepost("cancel", run, "--db", db, *WHY, "--by", "somebody else").code == 0
