"""A ledger without a fault has no contradiction, and each that somebody plants in it is found, by its name."""

import pytest

from fencepost.runtime.checking import CHAIN, FOUND_MAX, RULES, SENTENCES, STRAY, check
from tests.store import build
from tests.store.conftest import Ledger
from tests.store.healthy import INPUT, healthy, started
from tests.store.tamper import tampering

ABSENT = "UPDATE operation SET first_outcome = 'not applied', first_evidence = '{}', first_settled_at = 1"
IS_FAILED = ABSENT + ", state = 'failed', error = '{}'"
PLANTS: dict[str, tuple[str, ...]] = {
    # -- runs
    "ended_and_moving": ("UPDATE run SET ended_at = NULL WHERE no = 1",),
    "ended_without_its_answer": ("UPDATE run SET result = NULL WHERE no = 1",),
    "held_without_a_reason": ("UPDATE run SET hold = NULL WHERE no = 2",),
    "held_for_what_is_known": (IS_FAILED + " WHERE run = 2",),
    "input_of_another_print": ("UPDATE run SET input = '{\"n\":2}' WHERE no = 1",),
    "owned_by_nobody": ("UPDATE run SET lease = NULL WHERE no = 6",),
    "owned_by_a_lease_that_never_was": ("UPDATE run SET lease = 'gone' WHERE no = 6",),
    "owned_by_a_lease_that_is_over": ("UPDATE lease SET state = 'ended', closed_at = taken_at - 3000000",),
    "generation_that_is_void": ("INSERT INTO epoch (number, lost_from, began_at) VALUES (1, 0, 0)",),
    "ended_with_an_unknown": ("UPDATE operation SET state = 'unknown' WHERE run = 1",),
    "compensated_in_part": (IS_FAILED + " WHERE step = 'compensate pay'",),
    "compensation_that_did_not_fail": ("UPDATE run SET state = 'compensation failed' WHERE no = 4",),
    "ended_by_hand_without_a_word": ("UPDATE audit SET outcome = 'refused' WHERE verb = 'terminate'",),
    "delivered_unfinished": ("UPDATE operation SET delivered = 3, delivered_at = 1 WHERE step = 'later'",),
    "delivered_out_of_order": ("UPDATE step SET delivered = 3 WHERE run = 1",),
    "step_half_closed": ("UPDATE step SET closed_at = NULL WHERE run = 1",),
    "wait_over_without_its_signal": ("DELETE FROM signal WHERE run = 1",),
    "signal_applied_to_nothing": ("UPDATE signal SET position = 'wait:9' WHERE run = 1",),
    "signal_half_closed": ("UPDATE signal SET state = 'kept', closed_at = NULL WHERE run = 1",),
    "signal_of_another_print": ("UPDATE signal SET payload = '{}' WHERE run = 1",),
    # -- parents, children and turns
    "lacking_its_parent": ("UPDATE run SET parent = 99 WHERE no = 10",),
    "waited_for_at_no_position": ("DELETE FROM step WHERE run = 9",),
    "outliving_its_parent": ("UPDATE run SET state = 'succeeded', result = '1', ended_at = 1 WHERE no = 9",),
    "answered_before_its_end": ("UPDATE step SET state = 'done', result = '1', closed_at = 1 WHERE run = 9",),
    "turn_out_of_its_place": ("UPDATE run SET turn = 0 WHERE no = 12",),
    # -- operations and evidence
    "succeeded_without_proof": ("UPDATE attempt SET outcome = 'unresolved' WHERE run = 1",),
    "failed_without_proof": ("UPDATE operation SET first_outcome = 'unresolved' WHERE run = 3",),
    "not_begun_without_proof": ("UPDATE operation SET state = 'cancelled' WHERE run = 2",),
    "unknown_although_known": (
        "UPDATE operation SET first_outcome = 'applied', first_evidence = '{}', first_settled_at = 1 WHERE run = 2",
    ),
    "in_flight_although_over": (ABSENT + " WHERE run = 6 AND step = 'pay'",),
    "in_flight_without_an_owner": ("UPDATE operation SET state = 'dispatched' WHERE run = 2",),
    "applied_twice_unseen": ("UPDATE operation SET first_outcome = 'applied' WHERE run = 1",),
    "conflict_without_a_hold": ("UPDATE operation SET conflict = 1 WHERE run = 5",),
    "attempts_miscounted": ("DELETE FROM attempt WHERE run = 1",),
    "settled_without_evidence": ("UPDATE operation SET first_evidence = NULL WHERE run = 1",),
    "attempt_out_of_its_time": ("UPDATE attempt SET send_by = dispatched_at - 1",),
    "generation_above_its_run": ("UPDATE operation SET generation = 9 WHERE run = 1",),
    "token_out_of_order": ("UPDATE attempt SET token = 1 WHERE run = 1",),
    "evidence_overruled": ("UPDATE observation SET says = 'found' WHERE run = 3",),
    "stated_without_a_word": ("UPDATE observation SET kind = 'statement' WHERE run = 3",),
    "request_of_another_print": ("UPDATE operation SET request = '{\"amount\":70}' WHERE run = 1",),
    "key_of_another_place": ("UPDATE operation SET item = 'second' WHERE run = 4 AND step = 'pay'",),
    "key_of_two_operations": (
        "UPDATE operation SET key = (SELECT key FROM operation AS other WHERE run = 4 AND step = 'pay') WHERE run = 1",
    ),
    "compensating_nothing": ("UPDATE operation SET compensates = 'ship' WHERE step = 'compensate pay'",),
    "compensated_twice": ("UPDATE operation SET compensates = 'pay' WHERE run = 6",),
    "done_both_ways": ("UPDATE operation SET step = 'instead of pay' WHERE step = 'compensate pay'",),
    # -- the ledger
    "token_that_is_void": ("INSERT INTO epoch (number, lost_from, began_at) VALUES (1, 0, 0)",),
    "lease_half_closed": ("UPDATE lease SET closed_at = 1",),
    "confirmed_without_a_word": (
        """
        INSERT INTO proposal (
            run, verb, arguments, digest, seen, reason, proposed_by, proposed_at, expires_at, state,
            closed_by, closed_at
        ) VALUES (2, 'cancel', '{}', '', 1, 'x', 'ann', 1, 2, 'confirmed', 'bob', 1)
        """,
    ),
    "ticked_off_without_a_word": (
        """
        INSERT INTO bulk (namespace, verb, arguments, digest, actor, reason, started_at)
        VALUES ('default', 'reopen', '{}', '', 'ann', 'x', 1)
        """,
        """
        INSERT INTO bulk_run (bulk, place, run, seen, was, outcome, closed_at)
        VALUES (1, 0, 2, 1, 'ready', 'done', 1)
        """,
    ),
    "audit_of_nothing": ("UPDATE audit SET run_id = 'nobody' WHERE no = 1",),
    CHAIN: ("UPDATE audit SET actor = 'nobody' WHERE no = 1",),
    STRAY: ("UPDATE step SET run = 99 WHERE run = 5",),
}
"""What to do to a healthy ledger so that this is wrong with it; more may be wrong with it then."""


@pytest.fixture
def whole(ledger: Ledger) -> Ledger:
    healthy(ledger)
    return ledger


def test_a_healthy_ledger_has_no_contradiction_and_is_looked_through_whole(whole: Ledger) -> None:
    checked = check(whole.store)
    assert checked.found == []
    assert (checked.runs, checked.operations, checked.audits, checked.count) == (12, 12, 2, 0)


def test_no_rule_lacks_a_plant_and_each_says_in_a_sentence_what_never_happens() -> None:
    assert set(PLANTS) == set(SENTENCES)
    assert len(RULES) + 2 == len(SENTENCES)
    assert all(sentence.endswith(".") and sentence[0].isupper() for sentence in SENTENCES.values())


@pytest.mark.parametrize("rule", PLANTS)
def test_a_planted_contradiction_is_named(whole: Ledger, url: str, rule: str) -> None:
    with tampering(url) as inside:
        inside.allow_twins()
        for statement in PLANTS[rule]:
            assert inside.do(statement) > 0, statement
    checked = check(whole.store)
    assert rule in {one.rule for one in checked.found}, checked.found
    assert checked.count == len(checked.found) <= 13


def test_a_run_that_cannot_be_read_is_named_and_the_others_are_looked_at(whole: Ledger, url: str) -> None:
    with tampering(url) as inside:
        inside.do("UPDATE run SET state = 'sleeping' WHERE no = 3")
    checked = check(whole.store)
    assert [(one.rule, "'failed'" in one.where) for one in checked.found] == [(STRAY, True)]
    assert checked.runs == 11


def test_more_runs_than_a_page_are_looked_at_one_after_the_other_and_findings_are_bounded(
    ledger: Ledger, url: str
) -> None:
    for number in range(120):
        started(ledger, f"run-{number}")
    assert check(ledger.store).runs == 120
    with tampering(url) as inside:
        inside.do("UPDATE run SET delivered = 0, input = 'x', hold = 'y'")
    checked = check(ledger.store)
    assert (checked.runs, checked.count) == (120, 240)
    assert len(checked.found) <= FOUND_MAX


def test_a_check_sees_one_moment_while_others_write(whole: Ledger) -> None:
    with whole.store.walk() as walk:
        first = next(iter(walk.runs()))
        late = whole.another()
        late.start_run(build.new_run("later"))
        late.audit(build.audit("cancel", run_id="nobody"))
        assert len(list(walk.runs())) == 12
        assert len(list(walk.audits())) == 2
        assert first
    assert check(whole.store).runs == 13


def test_a_lease_that_is_over_is_no_contradiction_before_its_margin(ledger: Ledger) -> None:
    ledger.store.take_lease(build.lease(at=ledger.now, ttl=10 * build.SECOND))
    run = ledger.store.start_run(build.new_run("r", lease="lease-1", fingerprint=INPUT)).run
    ledger.now += 10 * build.SECOND
    assert check(ledger.store).count == 0
    ledger.now += 1
    [found] = check(ledger.store).found
    assert (found.rule, found.run) == ("owned_by_a_lease_that_is_over", run.id)
