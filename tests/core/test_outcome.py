"""The fold over attempts: what they prove together, in whatever order and number they come."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.core.outcome import Fold, Verdict, evidence_event, fold, operation_event
from fencepost.core.states import OperationState, Outcome
from fencepost.core.transitions import ATTEMPT, OPERATION, AttemptEvent, OperationEvent

APPLIED, NOT_APPLIED, UNRESOLVED = Outcome.APPLIED, Outcome.NOT_APPLIED, Outcome.UNRESOLVED

outcomes = st.lists(st.sampled_from(Outcome), max_size=8)


@pytest.mark.parametrize(
    ("attempts", "verdict"),
    [
        ([], Verdict.NOTHING_SENT),
        ([UNRESOLVED], Verdict.UNRESOLVED),
        ([APPLIED], Verdict.APPLIED),
        ([NOT_APPLIED], Verdict.NOT_APPLIED),
        ([NOT_APPLIED, NOT_APPLIED], Verdict.NOT_APPLIED),
        ([UNRESOLVED, NOT_APPLIED], Verdict.UNRESOLVED),
        ([UNRESOLVED, APPLIED], Verdict.APPLIED),
        ([NOT_APPLIED, APPLIED], Verdict.APPLIED),
    ],
)
def test_the_attempts_prove(attempts, verdict):
    assert fold(attempts) == Fold(verdict, conflict=False)


def test_a_refusal_of_the_second_attempt_proves_nothing_about_the_first():
    assert fold([UNRESOLVED, NOT_APPLIED]).verdict is Verdict.UNRESOLVED


def test_two_applied_attempts_are_a_conflict_and_still_known_to_have_happened():
    assert fold([APPLIED, UNRESOLVED, APPLIED]) == Fold(Verdict.APPLIED, conflict=True)


@given(outcomes.flatmap(lambda seen: st.tuples(st.just(seen), st.permutations(seen))))
def test_order_makes_no_difference(case):
    seen, shuffled = case
    assert fold(seen) == fold(shuffled)


@given(outcomes)
def test_an_unresolved_attempt_more_never_makes_it_failed(seen):
    assert fold([*seen, UNRESOLVED]).verdict in (Verdict.UNRESOLVED, Verdict.APPLIED)


@given(outcomes, outcomes)
def test_applied_dominates(before, after):
    assert fold([*before, APPLIED, *after]).verdict is Verdict.APPLIED


@given(outcomes)
def test_failed_means_that_every_attempt_is_proved_not_applied(seen):
    assert (fold(seen).verdict is Verdict.NOT_APPLIED) == (set(seen) == {NOT_APPLIED})


@given(outcomes, st.sampled_from([APPLIED, NOT_APPLIED]))
def test_resolving_an_unresolved_attempt_never_takes_back_that_it_happened(seen, now):
    verdict = fold(seen).verdict
    resolved = [now if one is UNRESOLVED else one for one in seen]
    assert verdict is not Verdict.APPLIED or fold(resolved).verdict is Verdict.APPLIED


# -- evidence about one attempt -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("known", "says", "event"),
    [
        (UNRESOLVED, UNRESOLVED, None),
        (UNRESOLVED, APPLIED, AttemptEvent.APPLIED),
        (UNRESOLVED, NOT_APPLIED, AttemptEvent.NOT_APPLIED),
        (APPLIED, UNRESOLVED, None),
        (APPLIED, APPLIED, None),
        (APPLIED, NOT_APPLIED, AttemptEvent.CONTRADICT),
        (NOT_APPLIED, UNRESOLVED, None),
        (NOT_APPLIED, APPLIED, AttemptEvent.CONTRADICT),
        (NOT_APPLIED, NOT_APPLIED, None),
    ],
)
def test_evidence(known, says, event):
    assert evidence_event(known, says) is event


@pytest.mark.parametrize("says", Outcome)
def test_a_third_piece_of_evidence_does_not_outvote_a_contradiction(says):
    assert evidence_event(UNRESOLVED, says, contradicted=True) is None


def _after(evidence):
    known, contradicted = UNRESOLVED, False
    for says in evidence:
        event = evidence_event(known, says, contradicted=contradicted)
        if event is not None:
            known = ATTEMPT.after(known, event)
            contradicted |= event is AttemptEvent.CONTRADICT
    return known, contradicted


@given(outcomes.flatmap(lambda seen: st.tuples(st.just(seen), st.permutations(seen))))
def test_evidence_may_come_in_any_order(case):
    seen, shuffled = case
    assert _after(seen) == _after(shuffled)


@given(outcomes)
def test_contradictory_evidence_is_flagged_and_settles_nothing(seen):
    if {APPLIED, NOT_APPLIED} <= set(seen):
        assert _after(seen) == (UNRESOLVED, True)


# -- what it means for the operation --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("attempts", "may_go_again", "event"),
    [
        ([APPLIED], True, OperationEvent.APPLY),
        ([NOT_APPLIED], True, OperationEvent.RELEASE),
        ([NOT_APPLIED], False, OperationEvent.REFUSE),
        ([UNRESOLVED], True, OperationEvent.LOSE),
        ([UNRESOLVED], False, OperationEvent.LOSE),
        ([UNRESOLVED, NOT_APPLIED], False, OperationEvent.LOSE),
    ],
)
def test_a_fold_moves_the_operation(attempts, may_go_again, event):
    assert operation_event(fold(attempts), may_go_again=may_go_again) is event


@given(outcomes.filter(bool), st.booleans())
def test_a_flight_or_a_doubt_can_end_with_every_fold(seen, may_go_again):
    event = operation_event(fold(seen), may_go_again=may_go_again)
    assert OPERATION.allows(OperationState.DISPATCHED, event)
    assert OPERATION.allows(OperationState.UNKNOWN, event)


def test_nothing_sent_moves_nothing():
    with pytest.raises(AssertionError, match="nothing was sent"):
        operation_event(fold([]), may_go_again=True)
