"""In which order effects are made acceptable again, what must be known before, and what the end is called."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fencepost.core.compensation import ending, foundations, may_begin_in, may_start, order, to_settle_first
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


def vars_of(one):
    return {name: getattr(one, name) for name in one.__dataclass_fields__}


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


@pytest.mark.parametrize(
    ("succeeded", "event"),
    [
        ([], RunEvent.END_COMPENSATED),
        ([True], RunEvent.END_COMPENSATED),
        ([True, True], RunEvent.END_COMPENSATED),
        ([True, False, True], RunEvent.END_PARTLY_COMPENSATED),
        ([False], RunEvent.END_COMPENSATION_FAILED),
        ([False, False], RunEvent.END_COMPENSATION_FAILED),
    ],
)
def test_ending(succeeded, event):
    assert ending(succeeded) is event


# -- what rests on what ---------------------------------------------------------------------------------------------


def test_what_rests_on_another_effect_comes_before_it_whatever_completed_first():
    done = [
        operation("mail", delivered=1, after=(("reserve", None),)),
        operation("reserve", delivered=2),
        operation("pay", delivered=3),
    ]
    assert steps(order(done)) == ["pay", "mail", "reserve"]


def test_an_effect_named_without_an_item_stands_for_all_that_the_step_did():
    done = [Operation(**vars_of(operation("line", delivered=number)) | {"item": str(number)}) for number in (1, 2)] + [
        operation("ship", delivered=0, after=(("line", None),)),
        operation("one", delivered=0, after=(("line", "2"),)),
    ]
    assert foundations(done) == {"ship": ("line[1]", "line[2]"), "one": ("line[2]",)}


def test_a_circle_is_taken_apart_at_the_last_completed():
    circle = [
        operation("a", delivered=1, after=(("b", None),)),
        operation("b", delivered=2, after=(("a", None),)),
        operation("c", delivered=3, after=(("c", None), ("nowhere", None))),
    ]
    assert steps(order(circle)) == ["c", "b", "a"]


@given(st.permutations(range(6)), st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), max_size=10))
def test_the_order_of_resting_is_kept_whatever_the_order_of_completion(delivered, edges):
    above = {number: {str(low) for high, low in edges if high == number and low < number} for number in range(6)}
    run = [
        operation(str(number), delivered=delivered[number], after=tuple((low, None) for low in sorted(above[number])))
        for number in range(6)
    ]
    found = steps(order(run))
    assert sorted(found) == [str(number) for number in range(6)]
    assert all(found.index(str(high)) < found.index(low) for high in above for low in above[high])


# -- who may start it -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("permitted", "roles", "may"),
    [
        ({"workflow", "operator"}, {"operator"}, True),
        ({"workflow"}, {"operator"}, False),
        ({"finance"}, {"operator", "finance"}, True),
        ({"operator"}, set(), False),
    ],
)
def test_only_whom_the_effect_names_may_start_its_compensation(permitted, roles, may):
    assert may_start(permitted, roles) is may
