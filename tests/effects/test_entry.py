"""One operation's entry: the record in memory and the moves say the same, whatever evidence comes."""

from dataclasses import replace

from fencepost.core.contract import Contract, KeyPromise, LookUpPromise, Retry
from fencepost.core.records import IN_PROGRESS, Observation, Operation
from fencepost.core.states import OperationState, Outcome
from fencepost.effects.entry import Entry, Owner, Proof, Result
from fencepost.store.moves import (
    DispatchOperation,
    MoveOperation,
    NewAttempt,
    NewOperation,
    SettleAttempt,
    SettleFirst,
    Succeed,
)

NOW = 1_700_000_000_000_000
CONTRACT = Contract(
    "charge",
    settle=1_000_000,
    key=KeyPromise(None, "header Idempotency-Key"),
    look_up=LookUpPromise("find"),
    retry=Retry(attempts=2, within="15m"),
)


def entry(contract: Contract = CONTRACT) -> Entry:
    operation = Operation(1, "charge", None, "charge", 1, "k", 1, "{}", "f", OperationState.RESERVED, reserved_at=NOW)
    return Entry(operation, contract, Owner("lease", 1, "running"))


def kinds(moves: list) -> list[type]:
    return [type(move) for move in moves]


def test_intent_and_permission_are_one_transition():
    one = entry()
    assert kinds(one.open_dispatched(NOW)) == [NewOperation]
    assert one.operation.state is OperationState.DISPATCHED
    assert [attempt.outcome for attempt in one.operation.attempts] == [Outcome.UNRESOLVED]


def test_an_applied_attempt_makes_the_operation_succeed_with_its_result():
    one = entry()
    one.open_dispatched(NOW)
    moves = one.settle([Proof(1, Outcome.APPLIED, "{}")], NOW, retryable=False, outcome=Result(result="7", delivered=3))
    assert kinds(moves) == [SettleFirst, MoveOperation]
    assert (moves[-1].to, moves[-1].result, moves[-1].delivered) == ("succeeded", "7", 3)
    assert (one.operation.state, one.operation.result, one.operation.delivered) == (OperationState.SUCCEEDED, "7", 3)


def test_the_usual_success_is_one_move_and_says_what_two_would_say():
    one, other = entry(), entry()
    proof, outcome = Proof(1, Outcome.APPLIED, "{}", sends=1), Result(result="7", reference="t-1", delivered=3)
    for each in (one, other):
        each.open_dispatched(NOW)
    assert kinds(one.succeed(proof, NOW, outcome)) == [Succeed]
    other.settle([proof], NOW, retryable=False, outcome=outcome)
    assert one.operation == other.operation


def test_a_success_after_more_than_one_attempt_is_folded():
    one = entry()
    one.open_dispatched(NOW)
    one.settle([], NOW, retryable=True)
    one.dispatch(NOW)
    assert kinds(one.succeed(Proof(2, Outcome.APPLIED, "{}"), NOW, Result(result="7"))) == [
        SettleAttempt,
        MoveOperation,
    ]


def test_a_refusal_of_the_second_attempt_says_nothing_of_the_first():
    one = entry()
    one.open_dispatched(NOW)
    one.settle([], NOW, retryable=True)
    assert one.operation.state is OperationState.UNKNOWN
    assert kinds(one.dispatch(NOW)) == [DispatchOperation, NewAttempt]
    one.settle([Proof(2, Outcome.NOT_APPLIED, "{}")], NOW, retryable=False)
    assert one.operation.state is OperationState.UNKNOWN


def test_an_attempt_that_met_the_target_still_at_work_costs_no_budget():
    one = entry()
    one.open_dispatched(NOW)
    for number in (1, 2):
        one.settle([], NOW, retryable=True)
        one.observe(Observation(IN_PROGRESS, None, "{}", NOW, attempt=number))
        if number == 1:
            one.dispatch(NOW)
    one.prove_absent("{}", NOW)
    assert one.operation.state is OperationState.RESERVED, "both attempts were free, so the budget is whole"


def test_without_that_word_two_attempts_spend_a_budget_of_two():
    one = entry()
    one.open_dispatched(NOW)
    one.settle([], NOW, retryable=True)
    one.dispatch(NOW)
    one.settle([], NOW, retryable=True)
    one.operation.error = '{"class":"OSError","message":"reset","traceback":""}'
    one.prove_absent("{}", NOW)
    assert one.operation.state is OperationState.FAILED


def test_a_refuted_attempt_that_is_found_applied_is_a_conflict_and_never_a_success():
    one = entry()
    one.open_dispatched(NOW)
    one.settle([Proof(1, Outcome.NOT_APPLIED, "{}")], NOW, retryable=True)
    assert one.operation.state is OperationState.RESERVED
    one.settle([Proof(1, Outcome.APPLIED, "{}")], NOW, retryable=False)
    assert (one.operation.state, one.operation.conflict) == (OperationState.UNKNOWN, True)


def test_two_applied_attempts_are_a_conflict():
    one = entry(replace(CONTRACT, retry=Retry(attempts=5, within="15m")))
    one.open_dispatched(NOW)
    one.settle([], NOW, retryable=True)
    one.dispatch(NOW)
    one.settle([Proof(1, Outcome.APPLIED, "{}"), Proof(2, Outcome.APPLIED, "{}")], NOW, retryable=False)
    assert one.operation.conflict
