"""Which call an approval allows, which signal is an answer to which wait, and why one is refused when it is used."""

import itertools
import json
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.core.approval import (
    EPOCH,
    Answer,
    Approval,
    Refusal,
    Use,
    answer_in,
    approval_of,
    call_digest,
    digest_waited_for,
    lost,
    misfit,
    persons,
    refusal,
)
from fencepost.core.records import Signal, Step
from fencepost.core.states import SignalState, StepState
from fencepost.core.waits import Expired, Satisfied, due, misfits

CALL, OTHER = call_digest("r", "pay", "1", 1, "f"), call_digest("r", "pay", "2", 1, "f")
MINUTE = 60_000_000


def signal(payload, *, id="s1", sender="ann", name="ok", at=20, state=SignalState.KEPT):
    return Signal(id, name, payload, state, sent_at=at, sender=sender)


def answer(digest=CALL, *, approved=True, comment="", **rest):
    return signal(Answer(approved, digest, comment).as_text(), **rest)


def wait(position="/ok", *, name="ok", until=None, opened=10, state=StepState.OPEN):
    return Step(position, "wait", name, "f", state, opened_at=opened, due_at=until)


# -- the digest -------------------------------------------------------------------------------------------------------


def test_each_part_of_a_call_changes_its_digest():
    plain = ("r", "pay", "1", 1, "f")
    others = [
        ("q", "pay", "1", 1, "f"),
        ("r", "mail", "1", 1, "f"),
        ("r", "pay", None, 1, "f"),
        ("r", "pay", "", 1, "f"),
    ]
    others += [("r", "pay", "1", 2, "f"), ("r", "pay", "1", 1, "g")]
    assert len({call_digest(*parts) for parts in (plain, *others)}) == 1 + len(others)


@given(st.tuples(*[st.text(max_size=3)] * 3), st.tuples(*[st.text(max_size=3)] * 3))
def test_parts_do_not_run_into_each_other(one, two):
    digests = [call_digest(run, step, "i", 1, fingerprint) for run, step, fingerprint in (one, two)]
    assert (digests[0] == digests[1]) == (one == two)


# -- answers ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "payload",
    [
        '"yes"',
        "null",
        "[]",
        "true",
        '{"approved":true}',
        '{"digest":"d"}',
        '{"approved":1,"digest":"d"}',
        '{"approved":true,"digest":7}',
        '{"approved":true,"digest":"d","comment":null}',
        '{"approved":true,"by":"boss","digest":"d"}',
    ],
)
def test_what_is_no_answer_fits_no_wait_for_an_approval(payload):
    assert answer_in(payload) is None
    assert "its value must be" in misfit(CALL, signal(payload))


def test_an_answer_must_name_the_call_and_have_a_sender():
    assert misfit(CALL, answer()) is None
    assert misfit(CALL, answer(OTHER)).startswith("other call")
    assert "nobody is named" in misfit(CALL, answer(sender=" "))


def test_an_approval_says_who_and_when_as_the_ledger_knows_it():
    found = approval_of(answer(approved=False, comment="no", id="s7", sender="bob", at=1_000_001))
    assert found == Approval(False, "bob", EPOCH + timedelta(microseconds=1_000_001), CALL, "no", "s7")


def test_only_the_row_of_a_wait_for_an_approval_has_a_digest():
    row = wait()
    assert digest_waited_for(row) is None
    row.detail = json.dumps({"allows": None, "many": False})
    assert digest_waited_for(row) is None
    row.detail = json.dumps({"allows": CALL})
    assert digest_waited_for(row) == CALL
    row.kind = "read"
    assert digest_waited_for(row) is None


# -- which wait -------------------------------------------------------------------------------------------------------


@given(st.permutations(range(4)))
def test_of_waits_with_one_name_each_gets_the_answer_that_names_its_call(order):
    digests = {f"/{number}": call_digest("r", "pay", str(number), 1, "f") for number in range(4)}
    waits = [wait(position) for position in digests]
    signals = [answer(digests[f"/{number}"], id=f"s{number}", at=place) for place, number in enumerate(order)]
    found = due(waits, signals, now=50, digests=digests)
    assert {one.position: one.signal.id for one in found} == {f"/{number}": f"s{number}" for number in range(4)}
    assert misfits(waits, signals, digests) == []


def test_an_answer_to_another_call_does_not_stand_in_the_way_of_the_right_one():
    wrong, right = answer(OTHER, id="wrong", at=1), answer(id="right", at=2)
    assert due([wait()], [wrong, right], now=5, digests={"/ok": CALL}) == [Satisfied("/ok", right)]
    assert [(one.id, why[:10]) for one, why in misfits([wait()], [wrong, right], {"/ok": CALL})] == [
        ("wrong", "other call")
    ]


def test_an_answer_that_fits_does_not_come_too_late_because_another_came_in_time():
    late = answer(at=40)
    assert due([wait(until=30)], [answer(OTHER, id="s0", at=1), late], now=50, digests={"/ok": CALL}) == [
        Expired("/ok")
    ]


def test_what_nothing_is_open_for_yet_is_judged_later():
    early = answer(OTHER)
    assert misfits([], [early], {}) == []
    assert misfits([wait(state=StepState.DONE)], [early], {"/ok": CALL}) == []
    assert misfits([wait(), wait("/plain")], [early], {"/ok": CALL}) == []
    assert misfits([wait(), wait("/ok#2")], [early], {"/ok": CALL, "/ok#2": OTHER}) == []


# -- use --------------------------------------------------------------------------------------------------------------

GIVEN = Approval(True, "ann", EPOCH + timedelta(minutes=1), CALL, "", "s1")


def use(**changes):
    given_ = changes.pop("approval", GIVEN)
    facts = {"wait": "/ok", "used_by": None, "begun_with": None, "digest": CALL, "valid_for": MINUTE} | changes
    return Use(given_, **facts)


def test_an_approval_allows_its_call_until_its_time_is_over():
    assert refusal(use(), MINUTE) is None
    assert refusal(use(), 2 * MINUTE) is None
    assert refusal(use(), 2 * MINUTE + 1) == (Refusal.EXPIRED, "it was given 1m ago, and holds for 1m")
    assert refusal(use(valid_for=None), 10**18) is None


def test_what_an_earlier_attempt_of_the_same_operation_has_used_is_not_used_up():
    assert refusal(use(begun_with="/ok"), MINUTE) is None


DENIED = Approval(False, "ann", GIVEN.at, CALL, "too dear", "s1")
WRONG = {
    Refusal.NOT_OF_THIS_RUN: {"wait": None},
    Refusal.DENIED: {"approval": DENIED},
    Refusal.USED: {"used_by": "effect:other"},
    Refusal.OTHER_CALL: {"digest": OTHER},
    Refusal.EXPIRED: {"valid_for": 0},
}


@pytest.mark.parametrize("why", WRONG)
def test_each_thing_that_is_wrong_has_its_own_name(why):
    assert refusal(use(**WRONG[why]), 2 * MINUTE)[0] is why


@pytest.mark.parametrize("pair", [*itertools.combinations(WRONG, 2)], ids=str)
def test_of_two_things_that_are_wrong_the_first_is_named(pair):
    assert refusal(use(**WRONG[pair[1]], **WRONG[pair[0]]), 2 * MINUTE)[0] is pair[0]


def test_an_operation_that_was_begun_with_another_approval_does_not_change_it():
    assert refusal(use(begun_with="/other"), MINUTE)[0] is Refusal.OTHER_CALL


def test_the_rights_of_the_approver_and_of_whoever_the_run_acts_for_are_asked():
    assert persons(GIVEN, "bob") == [("approver", "ann"), ("principal", "bob")]
    assert persons(GIVEN, "ann") == [("approver", "ann"), ("principal", "ann")]
    assert persons(GIVEN, None) == [("approver", "ann")]
    assert [lost(role, who)[0] for role, who in persons(GIVEN, "bob")] == [Refusal.APPROVER, Refusal.PRINCIPAL]
    assert {*WRONG, Refusal.APPROVER, Refusal.PRINCIPAL} == set(Refusal)
