"""In which order effects are made acceptable again, what must be known before, and what the end is called."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.core.compensation import Compensation, ending, may_begin_in, order, to_settle_first
from fencepost.core.contract import Contract
from fencepost.core.duration import SECOND
from fencepost.core.records import Attempt, Operation
from fencepost.core.recovery import Moment, in_the_way
from fencepost.core.states import OperationState, Outcome
from fencepost.core.transitions import RunEvent

REFUND = Contract("pay", attempt_timeout=20 * SECOND, settle=30 * SECOND)
SPAN = REFUND.span


def operation(step, state=OperationState.SUCCEEDED, **fields):
    return Operation(
        run=1, step=step, item=None, effect=step, contract_version=1, key=step, key_scheme=1, request="{}",
        fingerprint="f", state=state, reserved_at=0, **fields,
    )  # fmt: skip


def steps(operations):
    return [one.step for one in operations]


# -- order ----------------------------------------------------------------------------------------------------------


def test_the_last_completed_comes_first():
    done = [operation("ticket", delivered=1), operation("pay", delivered=3), operation("mail", delivered=2)]
    assert steps(order(done)) == ["pay", "mail", "ticket"]


def test_only_effects_that_stand_are_compensated():
    run = [operation(state.value, state, delivered=number) for number, state in enumerate(OperationState)]
    assert steps(order(run)) == ["succeeded"]


def test_a_compensation_is_not_compensated():
    assert steps(order([operation("pay", delivered=1), operation("refund", delivered=2, compensates="pay")])) == ["pay"]


def test_what_was_never_delivered_completed_when_it_last_changed_and_goes_first():
    run = [operation("ticket", delivered=7), operation("loser", changed_at=50), operation("later loser", changed_at=60)]
    assert steps(order(run)) == ["later loser", "loser", "ticket"]


@given(st.permutations(range(6)))
def test_the_order_does_not_depend_on_how_rows_are_loaded(numbers):
    run = [operation(str(number), delivered=number) for number in numbers]
    assert steps(order(run)) == ["5", "4", "3", "2", "1", "0"]


# -- what must be known before (C12) --------------------------------------------------------------------------------


@pytest.mark.parametrize("state", OperationState)
def test_what_is_in_flight_or_unknown_is_settled_first(state):
    run = [operation("pay", state)]
    unsettled = state in (OperationState.DISPATCHED, OperationState.UNKNOWN)
    assert steps(to_settle_first(run)) == (["pay"] if unsettled else [])


def test_while_a_compensation_is_unknown_no_other_begins():
    run = [operation("pay"), operation("refund", OperationState.UNKNOWN, compensates="pay"), operation("ticket")]
    assert to_settle_first(run) == []
    assert steps(in_the_way(run, REFUND)) == ["refund"]


def test_an_effect_that_contradicts_itself_is_looked_at_before_it_is_compensated():
    assert steps(to_settle_first([operation("pay", conflict=True)])) == ["pay"]


def sent(number, outcome, at=0):
    return Attempt(number, at, at + 20 * SECOND, at + SPAN, "lease", 1, outcome=outcome)


def test_a_success_on_the_second_attempt_waits_until_the_first_cannot_land_any_more():
    paid = operation("pay", attempts=[sent(1, Outcome.UNRESOLVED), sent(2, Outcome.APPLIED, at=SECOND)])
    assert may_begin_in(paid, REFUND, Moment(10 * SECOND, owned_for=10 * SECOND)) == 40 * SECOND
    assert may_begin_in(paid, REFUND, Moment(SPAN, owned_for=SPAN)) == 0
    assert may_begin_in(paid, REFUND, Moment(SPAN, owned_for=SECOND)) == SPAN - SECOND


def test_a_success_without_an_open_attempt_may_be_compensated_at_once():
    paid = operation("pay", attempts=[sent(1, Outcome.NOT_APPLIED), sent(2, Outcome.APPLIED)])
    assert may_begin_in(paid, REFUND, Moment(0)) <= 0


# -- endings (C11) --------------------------------------------------------------------------------------------------


def compensations(*endings):
    return [Compensation(str(number), state) for number, state in enumerate(endings)]


DONE, FAILED, UNTRIED = OperationState.SUCCEEDED, OperationState.FAILED, None


@pytest.mark.parametrize(
    ("states", "event"),
    [
        ([], RunEvent.END_COMPENSATED),
        ([DONE], RunEvent.END_COMPENSATED),
        ([DONE, DONE], RunEvent.END_COMPENSATED),
        ([DONE, FAILED, DONE], RunEvent.END_PARTLY_COMPENSATED),
        ([DONE, UNTRIED], RunEvent.END_PARTLY_COMPENSATED),
        ([FAILED], RunEvent.END_COMPENSATION_FAILED),
        ([UNTRIED, FAILED], RunEvent.END_COMPENSATION_FAILED),
    ],
)
def test_ending(states, event):
    assert ending(compensations(*states)) is event


@given(st.lists(st.sampled_from([None, *OperationState]), min_size=1))
def test_a_run_is_compensated_only_if_every_compensation_succeeded(states):
    compensated = ending(compensations(*states)) is RunEvent.END_COMPENSATED
    assert compensated is all(state is OperationState.SUCCEEDED for state in states)
