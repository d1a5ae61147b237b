"""Held runs of every kind come to their end by the command line alone; each verb leaves one row, and none can be bent.

The demo's own held payments are in `test_held_invoices`. Nothing here touches the database, until one byte of each
audit row is changed at the end.
"""

from typing import NamedTuple

import pytest

from fencepost.runtime.repertoire import ON_RUNS
from tests.cli.conftest import SHOP
from tests.store.tamper import tampering

WHY = ("--reason", "the desk said so", "--by", "ada")
SEEN = ("--result", '{"id": "t-1"}', "--reference", "t-1")
SETTLE = ("settle", "book", "--happened", *SEEN)
UNKNOWN, BUSY, WAITS, BREAKS = (
    ("order_ticket", "unknown"), ("order_ticket", "busy"), ("approve", "well"), ("break_down", "well"),
)  # fmt: skip


class Way(NamedTuple):
    """A run's beginning, and each verb with the state in which the run rests after it."""

    of: tuple[str, str]
    rests: str
    verbs: tuple[tuple[tuple[str, ...], str], ...]


WAYS = {
    "settled": Way(UNKNOWN, "held", ((SETTLE, "succeeded"),)),
    "asked-again": Way(UNKNOWN, "held", ((("reconcile",), "held"), (SETTLE, "succeeded"))),
    "resumed": Way(UNKNOWN, "held", ((("resume",), "held"), (("cancel",), "held"), (SETTLE, "cancelled"))),
    "ended": Way(UNKNOWN, "held", ((("terminate",), "terminated"), (("reopen",), "held"), (SETTLE, "succeeded"))),
    "tried-again": Way(BUSY, "held", ((("retry", "book"), "held"), (("resume",), "failed"))),
    "done-otherwise": Way(BUSY, "held", ((("forward", "book"), "succeeded"),)),
    "decided-anew": Way(("judge", "not sent"), "failed", ((("redecide",), "failed"), (("redecide",), "succeeded"))),
    "migrated": Way(("wave@1", ""), "ready", ((("migrate", "--to", "2"), "succeeded"),)),
    "taken-back": Way(BREAKS, "failed", ((("compensate",), "compensated"),)),
    "taken-back-alone": Way(BREAKS, "failed", ((("compensate", "book"), "compensated"),)),
    "called-off": Way(WAITS, "waiting", ((("cancel",), "cancelled"),)),
    "in-conflict": Way(UNKNOWN, "held", ((("settle", "book", "--conflict", "--happened", *SEEN), "succeeded"),)),
}


def test_the_ways_use_every_verb_on_a_run():
    assert {named(verb) for way in WAYS.values() for verb, _ in way.verbs} == set(ON_RUNS)


def named(words):
    """The verb that a command line is."""
    if "--conflict" in words:
        return "settle conflict"
    return "compensate step" if words[0] == "compensate" and len(words) > 1 else words[0]


@pytest.fixture
def begun(started, lived, db):
    """A run for each way, at rest where a person finds it; one that no worker has seen is started in its turn."""
    for run, way in WAYS.items():
        if way.rests != "ready":
            workflow, ends = way.of
            started(workflow, {"id": run, "ends": ends}, run=run)
            assert lived(run) == way.rests
    return db


def test_runs_come_to_their_end_by_verbs_each_leaves_one_row_and_a_changed_byte_is_named(
    fencepost, begun, started, lived
):
    told = []
    for run, way in WAYS.items():
        if way.rests == "ready":
            started(way.of[0], "Ada", run=run)
        if run == "in-conflict":
            with tampering(begun) as inside:  # what no fault of ours makes; the last, since it loosens the tables
                inside.do("UPDATE operation SET conflict = 1 WHERE run = (SELECT no FROM run WHERE id = ?)", run)
        for (verb, *rest), state in way.verbs:
            done = fencepost(verb, run, *rest, "--app", SHOP, "--db", begun, *WHY)
            assert done.code == 0, (run, verb, done.err)
            assert lived(run) == state, (run, verb)
            told.append((run, named((verb, *rest)), "done", "ada"))
    rows = fencepost("audit", "--limit", "100", "--db", begun, "--json").json["rows"]
    assert [(row["run"], row["verb"], row["outcome"], row["actor"]) for row in reversed(rows)] == told
    assert fencepost("audit", "verify", "--db", begun, "--json").json["answer"] == "unanchored"
    check = fencepost("check", "--db", begun)
    assert check.code == 0, check.out
    for row in rows:
        the_changed_row_is_named(fencepost, begun, row["no"])


def the_changed_row_is_named(fencepost, db, number):
    """Change one byte of a row, and take it back."""
    for was, to in (("desk", "disk"), ("disk", "desk")):
        with tampering(db) as inside:
            change = "UPDATE audit SET reason = replace(reason, ?, ?) WHERE no = ?"
            assert inside.do(change, was, to, number) == 1
        verified = fencepost("audit", "verify", "--db", db, "--json")
        if to == "disk":
            assert (verified.code, verified.json["broken"]["at"]) == (3, number)
        else:
            assert verified.code == 0
