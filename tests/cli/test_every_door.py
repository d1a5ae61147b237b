"""No command gives anybody a verb whose role they lack: each that takes `--by` is tried by a viewer, or an operator."""

import inspect

import pytest

from fencepost.cli import main
from fencepost.cli.target import app_for
from fencepost.core.permissions import Permissions
from fencepost.runtime import permits
from tests.cli.conftest import SHOP

WHO = Permissions(
    {"ann": "admin", "vic": "viewer", "max": "operator", "app": "approver"},
    two_persons=["terminate"], names_are_given=True,
)  # fmt: skip

ANSWER = '{"approved": true, "digest": "d"}'
WAYS = {
    "signal": ("signal", "run-1", "word", "1"),
    "approve": ("approve", "run-1", "ok", "--digest", "d"),
    "cancel": ("cancel", "run-1"),
    "resume": ("resume", "run-1"),
    "reconcile": ("reconcile", "run-1"),
    "retry": ("retry", "run-1", "book"),
    "settle": ("settle", "run-1", "book", "--happened", "--result", '{"id": "t-1"}', "--reference", "t-1"),
    "compensate": ("compensate", "run-1"),
    "forward": ("forward", "run-1", "book"),
    "terminate": ("terminate", "run-1"),
    "reopen": ("reopen", "run-1"),
    "migrate": ("migrate", "run-1", "--to", "2"),
    "bulk": ("bulk", "resume", "--state", "held"),
    "confirm": ("confirm", "1"),
    "decline": ("decline", "1"),
    "token make": ("token", "make", "vic", "--role", "admin"),
    "token revoke": ("token", "revoke", "1"),
    "account invite": ("account", "invite", "vic", "--role", "admin"),
    "account close": ("account", "close", "ann"),
    "contain": ("contain", "target", "bank"),
    "release": ("release", "target", "bank"),
    "queue pause": ("queue", "pause", "mail"),
    "queue resume": ("queue", "resume", "mail"),
    "schedule pause": ("schedule", "pause", "yearly"),
    "schedule resume": ("schedule", "resume", "yearly"),
    "schedule fire": ("schedule", "fire", "yearly"),
    "schedule remove": ("schedule", "remove", "yearly"),
    "restored": ("restored",),
    "redecide": ("redecide", "run-1"),
    "purge": ("purge", "--older-than", "90d", "--state", "succeeded"),
    "bulks pause": ("bulks", "pause", "1"),
    "bulks resume": ("bulks", "resume", "1"),
}
MORE = {
    ("bulk", *verb): ("bulk", *verb, "--state", "held")
    for verb in (
        ("reconcile",), ("retry", "book"), ("cancel",), ("compensate",), ("compensate", "book"), ("terminate",),
        ("reopen",),
    )
}  # fmt: skip
MORE["compensate", "book"] = ("compensate", "run-1", "book")
BEYOND_AN_OPERATOR = ("approve", "migrate", "restored", "schedule remove", "purge")


def commands():
    """Every command that says who does it, by its name on the command line."""
    found = {one.__name__.replace("_", "-"): one for one in main.COMMANDS}
    for above, below in main.BELOW.items():
        found |= {f"{above.__name__} {one.__name__}": one for one in below}
    return {name for name, one in found.items() if "by" in inspect.signature(one).parameters}


def test_every_command_that_says_who_does_it_is_tried() -> None:
    assert commands() == set(WAYS)


@pytest.fixture
def guarded(started, lived, db):
    """A held run, a proposal to end it, and who may do what."""
    assert lived(started("order_ticket", {"id": "a", "ends": "unknown"})) == "held"
    app = app_for(SHOP, db, None)
    with app.sync:
        permits.declare(app.store, app.namespace, WHO)
    return db


def shown(fencepost, db):
    """Everything of the run but what was tried with it."""
    return {
        name: said for name, said in fencepost("show", "run-1", "--db", db, "--json").json.items() if name != "audit"
    }


def test_whoever_lacks_the_role_changes_nothing_by_any_command(fencepost, guarded):
    assert fencepost("terminate", "run-1", "--reason", "so", "--by", "ann", "--db", guarded).code != 0
    assert [one["proposal"] for one in fencepost("proposals", "--db", guarded, "--json").json["proposals"]] == [1]
    before = shown(fencepost, guarded)
    rows = len(fencepost("audit", "--limit", "500", "--db", guarded, "--json").json["rows"])
    tried = 0
    for way in [*WAYS.values(), *MORE.values(), ("signal", "run-1", "ok", ANSWER)]:
        # An operator has none of an admin's verbs, and answers no approval, neither as such nor as a signal.
        beyond = way[0] in BEYOND_AN_OPERATOR or ANSWER in way
        why = () if way[0] == "approve" else ("--reason", "so")
        done = fencepost(*way, *why, "--by", "max" if beyond else "vic", "--app", SHOP, "--db", guarded)
        assert done.code != 0, (way, done.out)
        assert "lacks the role" in done.out + done.err, (way, done.out, done.err)
        tried += 1
    assert shown(fencepost, guarded) == before
    told = fencepost("audit", "--limit", "500", "--db", guarded, "--json").json["rows"]
    assert len(told) == rows + tried
    assert {row["outcome"] for row in told[:tried]} == {"refused"}
