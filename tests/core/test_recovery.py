"""The recovery decision as a list of readable cases: what is done next about one operation, and why."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.core import recovery
from fencepost.core.contract import Contract, KeyPromise, LookUpPromise, Retry
from fencepost.core.duration import HOUR, MINUTE, SECOND
from fencepost.core.guarantee import Rung
from fencepost.core.records import Attempt, Observation, Operation
from fencepost.core.recovery import (
    LOOKUPS_WITHOUT_ANSWER,
    Dispatch,
    GiveUp,
    Hold,
    HoldReason,
    LookUp,
    Moment,
    Pause,
    Settled,
    absence_is_proof,
    decide,
    in_the_way,
    key_holds,
    may_resend,
    rung_now,
)
from fencepost.core.states import FINAL_OPERATION_STATES, OperationState, Outcome

TIMEOUT, SETTLE = 20 * SECOND, 30 * SECOND
SPAN = TIMEOUT + SETTLE
START = 1_000 * HOUR

MUTE = Contract("pay", attempt_timeout=TIMEOUT, settle=SETTLE, retry=Retry(attempts=5, within=15 * MINUTE))
HOLDS = replace(MUTE, holds_on_unknown=True)
ASKED = replace(MUTE, look_up=LookUpPromise("find"))
FENCED = replace(MUTE, fence="account", look_up=LookUpPromise("find", consistent=True))
KEYED = replace(MUTE, key=KeyPromise(window=24 * HOUR, carried_by="header"))
KEYED_AND_ASKED = replace(KEYED, look_up=LookUpPromise("find"))


def attempt(number=1, at=START, outcome=Outcome.UNRESOLVED, token=None):
    return Attempt(number, at, at + TIMEOUT, at + SPAN, "lease", 1, outcome=outcome, token=token)


def looked(says, at=START, *, times=1):
    return [Observation("look-up", says, "{}", seen_at=at, began_at=at) for _ in range(times)]


def operation(state=OperationState.UNKNOWN, attempts=None, **fields):
    attempts = [attempt()] if attempts is None else attempts
    first = attempts[0].dispatched_at if attempts else None
    return Operation(
        run=1, step="pay", item=None, effect="pay", contract_version=1, key="k", key_scheme=1, request="{}",
        fingerprint="f", state=state, reserved_at=START, budget_from=START, first_dispatched_at=first,
        attempts=attempts, **fields,
    )  # fmt: skip


def after(delay, owned_for=None, **fields):
    return Moment(START + delay, delay if owned_for is None else owned_for, **fields)


# -- before anything was sent, and after a proved failure -----------------------------------------------------------


def test_what_was_never_sent_is_sent_however_late_it_is():
    assert decide(operation(OperationState.RESERVED, []), MUTE, after(24 * HOUR)) == Dispatch(1)


def test_what_is_proved_not_to_have_happened_is_sent_again_when_its_pause_is_over():
    refused = operation(OperationState.RESERVED, [attempt(outcome=Outcome.NOT_APPLIED)], not_before=START + 2 * SECOND)
    assert decide(refused, MUTE, after(SECOND)) == Pause(START + 2 * SECOND, "the pause before the next attempt")
    assert decide(refused, MUTE, after(2 * SECOND)) == Dispatch(2)


@pytest.mark.parametrize("retry", [Retry(attempts=1, within=HOUR), Retry(attempts=9, within=0)])
def test_a_spent_budget_of_proved_failures_gives_up(retry):
    refused = operation(OperationState.RESERVED, [attempt(outcome=Outcome.NOT_APPLIED)])
    assert decide(refused, replace(MUTE, retry=retry), after(SECOND)) == GiveUp()


def test_a_persons_retry_starts_a_new_budget():
    refused = operation(OperationState.RESERVED, [attempt(outcome=Outcome.NOT_APPLIED)])
    refused.budget_from = START + HOUR
    assert decide(refused, replace(MUTE, retry=Retry(attempts=1)), after(HOUR)) == Dispatch(2)


@pytest.mark.parametrize("state", sorted(FINAL_OPERATION_STATES))
def test_what_is_final_stays(state):
    assert decide(operation(state), KEYED_AND_ASKED, after(HOUR)) == Settled()


@pytest.mark.parametrize("state", OperationState)
def test_conflicting_evidence_is_held_in_every_state(state):
    assert decide(operation(state, conflict=True), KEYED_AND_ASKED, after(HOUR)) == Hold(HoldReason.CONFLICT)


# -- C02, C07: nothing to ask, nothing to repeat --------------------------------------------------------------------


@pytest.mark.parametrize("attempts", range(1, 6))
@pytest.mark.parametrize("contract", [MUTE, HOLDS])
def test_where_nothing_can_be_asked_an_unknown_outcome_is_held_whatever_the_budget(contract, attempts):
    generous = replace(contract, retry=Retry(attempts=attempts, within=HOUR))
    assert decide(operation(), generous, after(SECOND)) == Hold(HoldReason.CANNOT_BE_ASKED)
    assert decide(operation(), generous, after(24 * HOUR)) == Hold(HoldReason.CANNOT_BE_ASKED)


def test_a_fence_alone_does_not_tell_what_happened():
    assert decide(operation(), replace(MUTE, fence="account"), after(HOUR)) == Hold(HoldReason.CANNOT_BE_ASKED)


def test_what_is_declared_never_to_be_repeated_is_not_resent_even_under_its_key():
    contract = replace(KEYED, holds_on_unknown=True)
    assert decide(operation(), contract, after(SECOND)) == Hold(HoldReason.DECLARED)
    assert not may_resend(operation(), contract, after(SECOND))


def test_what_is_declared_never_to_be_repeated_may_still_be_asked_about():
    assert decide(operation(), replace(ASKED, holds_on_unknown=True), after(SECOND)) == LookUp()


def test_what_is_declared_repeatable_is_repeated_within_its_budget():
    repeatable = replace(MUTE, repeatable=True)
    assert decide(operation(), repeatable, after(SECOND)) == Dispatch(2)
    assert decide(operation(), repeatable, after(HOUR)) == Hold(HoldReason.BUDGET_SPENT)


# -- a key, C30 -----------------------------------------------------------------------------------------------------


def test_a_key_is_sent_again_inside_its_window():
    assert decide(operation(), KEYED, after(SECOND)) == Dispatch(2)


def test_a_keyed_resend_waits_for_its_pause():
    paused = operation(not_before=START + MINUTE)
    assert decide(paused, KEYED, after(SECOND)) == Pause(START + MINUTE, "the pause before the next attempt")


def test_a_keyed_operation_that_can_be_asked_about_is_asked_about_first():
    assert decide(operation(), KEYED_AND_ASKED, after(SECOND)) == LookUp()


@pytest.mark.parametrize("says", ["absent", "inconclusive"])
def test_once_asked_the_key_is_sent_again_without_waiting_for_the_span(says):
    asked = operation(observations=looked(says))
    assert decide(asked, KEYED_AND_ASKED, after(SECOND)) == Dispatch(2)


def test_a_look_up_from_before_the_last_dispatch_does_not_count():
    twice_sent = operation(attempts=[attempt(), attempt(2, START + MINUTE)], observations=looked("absent"))
    assert decide(twice_sent, KEYED_AND_ASKED, after(2 * MINUTE)) == LookUp()


FORGETFUL = replace(
    KEYED, key=KeyPromise(window=15 * MINUTE, carried_by="header"), retry=Retry(attempts=5, within=HOUR)
)


def test_a_dead_key_is_never_resent_but_held():
    assert decide(operation(), FORGETFUL, after(20 * MINUTE)) == Hold(HoldReason.KEY_OVER)


def test_a_dead_key_is_never_resent_but_looked_up():
    askable = replace(FORGETFUL, look_up=LookUpPromise("find"))
    assert decide(operation(), askable, after(20 * MINUTE)) == LookUp()
    asked = operation(observations=looked("inconclusive", START + 19 * MINUTE))
    assert decide(asked, askable, after(20 * MINUTE)) == LookUp()


def test_the_window_must_hold_until_the_resend_is_dead_and_digested_too():
    last = 15 * MINUTE - SPAN
    assert key_holds(operation(), FORGETFUL, after(last - 1))
    assert not key_holds(operation(), FORGETFUL, after(last))


def test_the_window_counts_from_the_intent_of_the_first_dispatch():
    sent_later = operation(attempts=[attempt(outcome=Outcome.NOT_APPLIED), attempt(2, START + 14 * MINUTE)])
    assert not key_holds(sent_later, FORGETFUL, after(14 * MINUTE + 30 * SECOND))


def test_an_operation_stands_on_the_next_rung_once_its_keys_promise_is_over():
    last = 15 * MINUTE - SPAN
    askable = replace(FORGETFUL, look_up=LookUpPromise("find"))
    assert rung_now(operation(), askable, after(last - 1)) is Rung.KEYED
    assert rung_now(operation(), askable, after(last)) is Rung.LOOKED_UP
    assert rung_now(operation(), FORGETFUL, after(last)) is Rung.HELD
    unsent = replace(operation(), first_dispatched_at=None)
    assert rung_now(unsent, FORGETFUL, after(last)) is Rung.KEYED
    assert rung_now(operation(), Contract("undeclared"), after(0)) is None


def test_a_key_in_another_scope_protects_nothing():
    elsewhere = after(SECOND, scope="account B")
    assert decide(operation(scope="account A"), KEYED, elsewhere) == Hold(HoldReason.SCOPE_CHANGED)
    assert decide(operation(scope="account A"), KEYED, after(SECOND, scope="account A")) == Dispatch(2)


def test_in_another_scope_the_effect_can_be_found_but_not_proved_absent():
    asked = operation(scope="account A", observations=looked("absent"))
    elsewhere = after(HOUR, scope="account B")
    assert decide(operation(scope="account A"), ASKED, elsewhere) == LookUp()
    assert not absence_is_proof(asked, ASKED, elsewhere)
    assert decide(asked, ASKED, elsewhere) == Hold(HoldReason.SCOPE_CHANGED)


def test_nothing_is_sent_for_the_first_time_in_another_scope_than_its_key_was_stored_with():
    reserved = operation(OperationState.RESERVED, [], scope="account A")
    assert decide(reserved, KEYED, after(SECOND, scope="account B")) == Hold(HoldReason.SCOPE_CHANGED)


def test_a_stored_failure_that_the_target_replays_is_not_asked_for_again():
    replaying = replace(KEYED, key=replace(KEYED.key, replays_failures=True))
    replayed = operation(observations=[Observation(recovery.REPLAYED_FAILURE, None, "{}", seen_at=START)])
    assert decide(operation(), replaying, after(SECOND)) == Dispatch(2)
    assert decide(replayed, replaying, after(SECOND)) == Hold(HoldReason.KEY_OVER)
    assert decide(replayed, replace(replaying, look_up=LookUpPromise("find")), after(SECOND)) == LookUp()


def test_a_spent_budget_stops_resending_under_the_key():
    assert decide(operation(), replace(KEYED, retry=Retry(attempts=1)), after(SECOND)) == Hold(HoldReason.BUDGET_SPENT)


def test_the_targets_word_that_it_is_still_at_work_costs_no_attempt():
    twice = replace(KEYED, retry=Retry(attempts=2, within=HOUR))
    sent = [attempt(number, START + number) for number in range(1, 5)]
    told = [Observation(recovery.IN_PROGRESS, None, "{}", seen_at=START, attempt=number) for number in (2, 3, 4)]
    assert decide(operation(attempts=sent), twice, after(SECOND)) == Hold(HoldReason.BUDGET_SPENT)
    assert decide(operation(attempts=sent, observations=told), twice, after(SECOND)) == Dispatch(5)
    assert decide(operation(attempts=sent, observations=told), twice, after(2 * HOUR)) == Hold(HoldReason.BUDGET_SPENT)


# -- a look-up alone ------------------------------------------------------------------------------------------------


def test_what_can_be_asked_about_is_asked_about_at_once():
    assert decide(operation(), ASKED, after(SECOND)) == LookUp()


def test_absent_before_the_span_pauses_until_it_is_over():
    asked = operation(observations=looked("absent"))
    assert not absence_is_proof(asked, ASKED, after(SPAN - 1))
    assert decide(asked, ASKED, after(SECOND)) == Pause(
        START + SPAN, "until every old request must be dead and digested", owning=True
    )


def test_the_span_is_over_when_both_clocks_say_so():
    asked = operation(observations=looked("absent"))
    jumped = after(24 * HOUR, owned_for=SECOND)
    assert not absence_is_proof(asked, ASKED, jumped)
    assert decide(asked, ASKED, jumped) == Pause(
        jumped.now + SPAN - SECOND, "until every old request must be dead and digested", owning=True
    )
    assert absence_is_proof(asked, ASKED, after(SPAN, owned_for=SPAN))
    assert decide(asked, ASKED, after(SPAN, owned_for=SPAN)) == LookUp()


def test_an_absence_is_no_proof_while_somebody_reports_under_the_operations_token():
    """Nothing else than its request can have brought the token there, whatever the look-up and the fence say."""
    heard = [Observation(recovery.REPORTED, None, "{}", seen_at=START + SECOND)]
    late = after(SPAN, owned_for=SPAN)
    assert absence_is_proof(operation(), ASKED, late)
    assert not absence_is_proof(operation(observations=heard), ASKED, late)
    fenced = [attempt(token=1)]
    assert absence_is_proof(operation(attempts=fenced), FENCED, replace(late, token=2))
    assert not absence_is_proof(operation(attempts=fenced, observations=heard), FENCED, replace(late, token=2))
    assert decide(operation(observations=heard), ASKED, late) == LookUp()


def test_the_span_counts_from_the_last_unresolved_attempt():
    sent = [attempt(), attempt(2, START + MINUTE), attempt(3, START + 2 * MINUTE, Outcome.NOT_APPLIED)]
    assert not absence_is_proof(operation(attempts=sent), ASKED, after(MINUTE + SPAN - 1))
    assert absence_is_proof(operation(attempts=sent), ASKED, after(MINUTE + SPAN))


def test_a_deployment_that_shortens_the_span_shortens_nothing_that_is_on_its_way():
    hasty = replace(ASKED, attempt_timeout=SECOND, settle=0)
    assert not absence_is_proof(operation(), hasty, after(SPAN - 1))
    assert not absence_is_proof(operation(), hasty, after(SPAN, owned_for=SECOND))


def test_a_deployment_that_lengthens_settle_is_believed_at_once():
    wary = replace(ASKED, settle=HOUR)
    assert not absence_is_proof(operation(), wary, after(SPAN))
    assert absence_is_proof(operation(), wary, after(TIMEOUT + HOUR))


def test_looking_up_in_vain_pauses_and_asks_again():
    asked = operation(observations=looked("inconclusive"), not_before=START + 3 * SECOND)
    assert decide(asked, ASKED, after(SECOND)) == Pause(START + 3 * SECOND, "the pause between two look-ups")
    assert decide(asked, ASKED, after(3 * SECOND)) == LookUp()


def test_five_look_ups_in_vain_are_held():
    in_vain = looked("inconclusive", times=LOOKUPS_WITHOUT_ANSWER)
    assert LOOKUPS_WITHOUT_ANSWER == 5
    assert decide(operation(observations=in_vain[:4]), ASKED, after(HOUR)) == LookUp()
    assert decide(operation(observations=in_vain), ASKED, after(HOUR)) == Hold(HoldReason.CANNOT_TELL)


def test_only_look_ups_in_a_row_count_as_silence():
    answered = [*looked("inconclusive", times=4), *looked("absent"), *looked("inconclusive", times=4)]
    assert decide(operation(observations=answered), ASKED, after(HOUR)) == LookUp()


@pytest.mark.parametrize("says", ["absent", "inconclusive"])
def test_a_person_who_wants_it_asked_again_is_not_told_what_was_answered_before(says):
    wish = Observation(recovery.ASK_AGAIN, None, "{}", seen_at=START)
    asked = [*looked(says, times=LOOKUPS_WITHOUT_ANSWER), wish]
    assert decide(operation(observations=asked), ASKED, after(SECOND)) == LookUp()
    asked += looked("inconclusive", times=LOOKUPS_WITHOUT_ANSWER)
    assert decide(operation(observations=asked), ASKED, after(SECOND)) == Hold(HoldReason.CANNOT_TELL)


# -- a fence --------------------------------------------------------------------------------------------------------


def test_a_fence_is_raised_before_the_look_up():
    assert decide(operation(), FENCED, after(SECOND)) == LookUp(raise_fence=True)


@pytest.mark.parametrize(
    ("tokens", "raised", "proof"),
    [
        ((1,), 2, True),
        ((1, 2), 3, True),
        ((2,), 2, False),
        ((1, 3), 2, False),
        ((None,), 9, False),
        ((1,), None, False),
    ],
)
def test_a_raised_fence_proves_absence_when_its_token_is_above_that_of_every_unresolved_attempt(tokens, raised, proof):
    sent = [attempt(number, token=token) for number, token in enumerate(tokens, 1)]
    assert absence_is_proof(operation(attempts=sent), FENCED, after(SECOND, token=raised)) is proof


def test_an_attempt_that_is_resolved_need_not_be_fenced_off():
    sent = [attempt(token=1), attempt(2, outcome=Outcome.NOT_APPLIED, token=5)]
    assert absence_is_proof(operation(attempts=sent), FENCED, after(SECOND, token=2))


def test_a_raised_fence_with_a_lagging_look_up_needs_the_span_too():
    lagging = replace(FENCED, look_up=LookUpPromise("find"))
    fenced_off = operation(attempts=[attempt(token=1)])
    assert not absence_is_proof(fenced_off, lagging, after(SECOND, token=2))
    assert absence_is_proof(fenced_off, lagging, after(SPAN, token=2))


def test_a_token_at_a_target_that_compares_none_proves_nothing():
    consistent = replace(FENCED, fence=None)
    assert not absence_is_proof(operation(attempts=[attempt(token=1)]), consistent, after(SECOND, token=2))


# -- law 3 ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", OperationState)
def test_an_unknown_operation_is_in_the_way_of_a_new_effect(state):
    earlier = operation(state)
    assert in_the_way([earlier], MUTE) == ([earlier] if state is OperationState.UNKNOWN else [])


@pytest.mark.parametrize("free", [{"repeatable": True}, {"independent": True}])
def test_nothing_is_in_the_way_of_what_is_repeatable_or_declared_independent(free):
    assert in_the_way([operation()], replace(MUTE, **free)) == []


# -- whatever the record --------------------------------------------------------------------------------------------

contracts = st.sampled_from([MUTE, HOLDS, ASKED, FENCED, KEYED, KEYED_AND_ASKED, FORGETFUL])
delays = st.integers(0, 2 * HOUR)
attempt_lists = st.lists(st.tuples(st.sampled_from(Outcome), delays, st.none() | st.integers(0, 3)), max_size=4).map(
    lambda drawn: [
        attempt(n, START + at, known, token)
        for n, (known, at, token) in enumerate(sorted(drawn, key=lambda one: one[1]), 1)
    ]
)
observations = st.lists(st.sampled_from(["absent", "inconclusive"]), max_size=6).map(
    lambda says: [seen for one in says for seen in looked(one, START + HOUR)]
)
records = st.builds(
    operation, st.sampled_from(OperationState), attempt_lists, conflict=st.booleans(), observations=observations
)
moments = st.builds(after, delays, delays)


@given(records, contracts, moments)
def test_every_record_has_a_next_move(record, contract, moment):
    assert isinstance(decide(record, contract, moment), Dispatch | LookUp | Pause | GiveUp | Hold | Settled)


@given(records, contracts, moments)
def test_an_unknown_operation_is_resent_only_under_a_key_that_holds(record, contract, moment):
    if record.state is OperationState.UNKNOWN and isinstance(decide(record, contract, moment), Dispatch):
        assert key_holds(record, contract, moment)
        assert may_resend(record, contract, moment)


@given(records, contracts, moments)
def test_a_pause_ends_in_the_future_and_numbers_go_on(record, contract, moment):
    match decide(record, contract, moment):
        case Pause(until=until):
            assert until > moment.now
        case Dispatch(number=number):
            assert number == len(record.attempts) + 1


@given(records, contracts, moments, st.integers(0, HOUR))
def test_an_absence_once_believable_stays_so(record, contract, moment, more):
    later = Moment(moment.now + more, moment.owned_for + more)
    assert not absence_is_proof(record, contract, moment) or absence_is_proof(record, contract, later)
