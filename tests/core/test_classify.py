"""What replies and errors prove (protocol A6): only a definite refusal, or that no byte left, is proof of absence."""

from dataclasses import replace
from datetime import timedelta

import pytest

from fencepost.core.classify import Reading, read_error, read_status
from fencepost.core.contract import DEFINITE_STATUSES, Contract
from fencepost.core.duration import SECOND
from fencepost.core.errors import (
    DeadlinePassed,
    LeaseLost,
    Malformed,
    Permanent,
    RateLimited,
    StoreUnavailable,
    Transient,
    Unresolved,
)
from fencepost.core.states import Outcome

APPLIED, NOT_APPLIED, UNRESOLVED = Outcome.APPLIED, Outcome.NOT_APPLIED, Outcome.UNRESOLVED
PLAIN = Contract("pay")

DEFINITE = [400, 401, 403, 404, 405, 413, 415, 422, 429]
NO_PROOF = [100, 301, 302, 304, 307, 402, 406, 408, 409, 410, 412, 418, 425, 451, 500, 502, 503, 504, 599]


@pytest.mark.parametrize("status", [200, 201, 204, 206, 299])
def test_success_is_applied(status):
    assert read_status(PLAIN, status) == Reading(APPLIED, retryable=False)


@pytest.mark.parametrize("status", DEFINITE)
def test_a_definite_refusal_is_proof(status):
    assert read_status(PLAIN, status) == Reading(NOT_APPLIED, retryable=status == 429)


@pytest.mark.parametrize("status", NO_PROOF)
def test_everything_else_proves_nothing(status):
    assert read_status(PLAIN, status) == Reading(UNRESOLVED, retryable=True)


def test_the_definite_statuses_are_those_of_the_protocol():
    assert sorted(DEFINITE_STATUSES) == DEFINITE
    assert not DEFINITE_STATUSES & set(NO_PROOF)


def test_accepted_is_applied_only_if_the_contract_says_so():
    assert read_status(PLAIN, 202).outcome is UNRESOLVED
    assert read_status(replace(PLAIN, accepted_is_applied=True), 202).outcome is APPLIED


def test_a_contract_may_add_a_definite_refusal_and_take_one_away():
    assert read_status(replace(PLAIN, definite=DEFINITE_STATUSES | {410}), 410).outcome is NOT_APPLIED
    assert read_status(replace(PLAIN, definite=DEFINITE_STATUSES - {404}), 404).outcome is UNRESOLVED


def test_unavailable_with_a_told_time_waits_like_a_rate_limit_where_it_is_definite_and_is_unresolved_where_not():
    definite = replace(PLAIN, definite=DEFINITE_STATUSES | {503})
    assert read_status(definite, 503, retry_after=SECOND) == Reading(NOT_APPLIED, retryable=True, retry_after=SECOND)
    assert read_status(PLAIN, 503, retry_after=SECOND) == Reading(UNRESOLVED, retryable=True, retry_after=SECOND)


def test_permission_refused_is_not_worth_another_attempt():
    assert not read_status(PLAIN, 403).retryable


@pytest.mark.parametrize("contract", [PLAIN, replace(PLAIN, definite=DEFINITE_STATUSES | {409})])
def test_a_key_in_progress_is_waited_for_and_proves_nothing(contract):
    reading = read_status(contract, 409, retry_after=SECOND, in_progress=True)
    assert reading == Reading(UNRESOLVED, retryable=True, retry_after=SECOND, in_progress=True)


def test_another_conflict_is_no_progress():
    assert read_status(PLAIN, 409) == Reading(UNRESOLVED, retryable=True)
    assert not read_status(PLAIN, 500, in_progress=True).in_progress


# -- errors ---------------------------------------------------------------------------------------------------------

LABELLED = [
    Transient("t"), RateLimited("r", retry_after=timedelta(seconds=1)), Permanent("p"), Malformed("m"),
    ConnectionError(), TimeoutError(), ValueError(), KeyboardInterrupt(), GeneratorExit(),
]  # fmt: skip


@pytest.mark.parametrize("error", LABELLED, ids=lambda error: type(error).__name__)
def test_whatever_is_raised_after_a_byte_left_is_unresolved(error):
    assert read_error(error, nothing_left=False).outcome is UNRESOLVED


@pytest.mark.parametrize("error", LABELLED, ids=lambda error: type(error).__name__)
def test_whatever_is_raised_before_a_byte_left_is_proof(error):
    assert read_error(error, nothing_left=True).outcome is NOT_APPLIED


def test_a_body_that_says_unresolved_is_taken_at_its_word():
    assert read_error(Unresolved("u"), nothing_left=True) == Reading(UNRESOLVED, retryable=True)


@pytest.mark.parametrize(
    "error",
    [
        Transient("t"), ConnectionRefusedError(), TimeoutError(), DeadlinePassed("late"), LeaseLost("lost"),
        StoreUnavailable("away"), KeyboardInterrupt(), SystemExit(), GeneratorExit(),
    ],
    ids=lambda error: type(error).__name__,
)  # fmt: skip
def test_nothing_sent_for_a_passing_reason_is_worth_another_attempt(error):
    assert read_error(error, nothing_left=True) == Reading(NOT_APPLIED, retryable=True)


@pytest.mark.parametrize(
    "error", [ValueError(), Permanent("p"), Malformed("m")], ids=lambda error: type(error).__name__
)
def test_a_fault_of_the_code_before_the_first_byte_would_only_come_again(error):
    assert not read_error(error, nothing_left=True).retryable


def test_permanent_spends_no_retry_even_where_it_proves_nothing():
    assert read_error(Permanent("p"), nothing_left=False) == Reading(UNRESOLVED, retryable=False)


@pytest.mark.parametrize("nothing_left", [True, False])
def test_a_rate_limit_carries_its_pause(nothing_left):
    reading = read_error(RateLimited("r", retry_after=timedelta(seconds=1)), nothing_left=nothing_left)
    assert (reading.retryable, reading.retry_after) == (True, SECOND)


@pytest.mark.parametrize("bare", [30, 30.0, "30s"])
def test_a_pause_without_a_unit_is_refused_where_it_is_written(bare):
    with pytest.raises(TypeError, match="timedelta"):
        RateLimited("r", retry_after=bare)
