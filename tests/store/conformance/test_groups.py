"""The moves of one run stand or fall together, observations stand outside, and no group harms another."""

import pytest

from fencepost.core.errors import ValueRefused
from fencepost.core.states import OperationState, Outcome, RunState
from fencepost.store.api import Answer
from tests.store import build
from tests.store.conftest import Ledger


def test_a_result_and_the_next_intent_share_a_commit(ledger: Ledger) -> None:
    run = ledger.running()
    ledger.do(run, build.new_operation(run, "one"))
    ledger.do(
        run, build.applied(run, "one", delivered=1), build.settle(run, step="one"), build.new_operation(run, "two")
    )

    one, two = ledger.load(run).operations
    assert (one.state, one.delivered, one.result) == (OperationState.SUCCEEDED, 1, '"done"')
    assert one.attempts[0].outcome is Outcome.APPLIED
    assert (two.state, two.attempts[0].outcome) == (OperationState.DISPATCHED, Outcome.UNRESOLVED)


def test_a_refused_move_takes_its_whole_group_along(ledger: Ledger) -> None:
    run = ledger.running()
    ledger.do(run, build.new_operation(run, "one"))
    before = ledger.load(run)

    refused = ledger.answer(
        run, build.applied(run, "one"), build.settle(run, step="one"), build.new_operation(run, "two"),
        build.move_step(run, "finish", "open", "done", "nowhere"),
    )  # fmt: skip

    assert refused is Answer.ILLEGAL
    after = ledger.load(run)
    # What the refused settlement saw stands outside.
    assert [seen.says for seen in after.operations[0].observations] == ["applied"]
    after.operations[0].observations.clear()
    assert after == before


def test_the_row_to_insert_exists_already(ledger: Ledger) -> None:
    run = ledger.running()
    ledger.do(run, build.new_operation(run), build.open_step(run))
    lost = build.move_operation(run, "lose", "dispatched", "unknown")
    ledger.do(run, lost, build.dispatch_again(run, "unknown", 2), build.new_attempt(run))

    assert ledger.answer(run, build.new_operation(run)) is Answer.DUPLICATE
    assert ledger.answer(run, build.new_attempt(run)) is Answer.DUPLICATE
    assert ledger.answer(run, build.open_step(run)) is Answer.DUPLICATE


def test_an_operation_key_belongs_to_one_operation(ledger: Ledger) -> None:
    run, other = ledger.running(), ledger.running("run-2")
    ledger.do(run, build.new_operation(run, key="the key"))

    assert ledger.answer(other, build.new_operation(other, key="the key")) is Answer.DUPLICATE


def test_a_released_operation_is_dispatched_again_in_the_same_group(ledger: Ledger) -> None:
    run = ledger.running()
    ledger.do(run, build.new_operation(run))
    ledger.do(
        run, build.move_operation(run, "release", "dispatched", "reserved", error='"429"', not_before=ledger.now),
        build.settle(run, "not applied"), build.dispatch_again(run, "reserved", 2), build.new_attempt(run, number=2),
    )  # fmt: skip

    (operation,) = ledger.load(run).operations
    assert operation.state is OperationState.DISPATCHED
    assert [attempt.outcome for attempt in operation.attempts] == [Outcome.NOT_APPLIED, Outcome.UNRESOLVED]
    assert (operation.not_before, operation.error) == (None, '"429"')


def test_the_number_of_attempts_never_goes_down_and_never_skips(ledger: Ledger) -> None:
    run = ledger.running()
    ledger.do(run, build.new_operation(run), build.move_operation(run, "lose", "dispatched", "unknown"))

    for number in (1, 3):
        assert ledger.answer(run, build.dispatch_again(run, "unknown", number)) is Answer.ILLEGAL
    ledger.do(run, build.dispatch_again(run, "unknown", 2), build.new_attempt(run, number=2))


def test_moves_happen_in_the_order_of_the_group(ledger: Ledger) -> None:
    run = ledger.running()

    # Dispatched and refused at once; then the same moves in an order in which they cannot be made.
    ledger.do(
        run, build.new_operation(run), build.settle(run, "not applied"),
        build.move_operation(run, "refuse", "dispatched", "failed"),
    )  # fmt: skip
    refused = ledger.answer(
        run, build.applied(run, "two"), build.settle(run, step="two"), build.new_operation(run, "two")
    )

    (operation,) = ledger.load(run).operations
    assert operation.state is OperationState.FAILED
    assert refused is Answer.ILLEGAL


def test_nothing_is_done_after_a_run_was_given_up_in_its_own_group(ledger: Ledger) -> None:
    run = ledger.running()

    assert ledger.answer(run, build.move_run(run, "wait", "waiting"), build.new_operation(run)) is Answer.ILLEGAL
    assert ledger.run(run).state is RunState.RUNNING


def test_two_groups_of_one_run_are_judged_in_the_order_in_which_they_were_given(ledger: Ledger) -> None:
    run = ledger.running()
    first = build.group(run, build.new_operation(run, "one"))
    second = build.group(run, build.applied(run, "one"), build.settle(run, step="one"), build.new_operation(run, "two"))
    gives_up = build.group(run, build.move_run(run, "wait", "waiting"))
    too_late = build.group(run, build.new_operation(run, "three"))

    answers = ledger.store.commit([first, second, gives_up, too_late], patience=1)

    assert answers == [Answer.MOVED, Answer.MOVED, Answer.MOVED, Answer.ILLEGAL]


def test_a_dispatch_never_stands_on_a_refused_result_of_the_same_batch(ledger: Ledger) -> None:
    run = ledger.running()
    refused = build.group(run, build.applied(run, "nowhere"), build.open_step(run, "reached"))
    needs_it = build.group(run, build.move_step(run, "finish", "open", "done", "reached"), build.new_operation(run))

    assert ledger.store.commit([refused, needs_it], patience=1) == [Answer.ILLEGAL, Answer.ILLEGAL]
    assert ledger.load(run).operations == []


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0), (1, 3, 0, 2)])
def test_refused_groups_do_not_harm_the_others_of_their_batch(ledger: Ledger, order: tuple[int, ...]) -> None:
    good, stale, illegal, twice = (ledger.running(f"run-{number}") for number in range(4))
    ledger.do(twice, build.new_operation(twice))
    stale.generation += 1
    groups = [
        build.group(good, build.new_operation(good)),
        build.group(stale, build.new_operation(stale)),
        build.group(illegal, build.applied(illegal)),
        build.group(twice, build.new_operation(twice)),
    ]
    expected = [Answer.MOVED, Answer.STALE, Answer.ILLEGAL, Answer.DUPLICATE]

    answers = ledger.store.commit([groups[place] for place in order], patience=1)

    assert answers == [expected[place] for place in order]
    assert [len(ledger.load(run).operations) for run in (good, stale, illegal, twice)] == [1, 0, 0, 1]


BAD_VALUES = {
    "not JSON but an object": object(),
    "an integer of 65 bits": 2**64,
    "half a surrogate pair": "\ud800",
    "a missing value": None,
}


@pytest.mark.parametrize("bad", BAD_VALUES)
def test_a_record_that_the_database_cannot_hold_is_refused_alone(ledger: Ledger, bad: str) -> None:
    good, other = ledger.running(), ledger.running("run-2")
    broken = build.group(other, build.new_operation(other, request=BAD_VALUES[bad]))

    answers = ledger.store.commit([broken, build.group(good, build.new_operation(good))], patience=1)

    assert isinstance(answers[0], ValueRefused)
    assert answers[1] is Answer.MOVED
    assert ledger.load(other).operations == []


def test_a_final_state_without_its_evidence_is_refused(ledger: Ledger) -> None:
    run = ledger.running()
    ledger.do(run, build.new_operation(run), build.open_step(run))
    without = [
        build.move_operation(run, "refuse", "dispatched", "failed", error=None),
        build.settle(run)._replace(evidence=None),
        build.move_step(run, "fail", "open", "failed", error=None),
        build.move_run(run, "succeed", "succeeded", result=None),
        build.move_run(run, "hold", "held", hold=None),
        build.move_run(run, "fail", "failed", ended_at=None),
        build.move_run(run, "wait", "waiting", keep_lease=1),
    ]
    before = ledger.load(run)

    for move in without:
        assert isinstance(ledger.answer(run, move), ValueRefused), move
    assert ledger.load(run) == before


def test_what_was_seen_is_kept_with_the_moves(ledger: Ledger) -> None:
    run = ledger.running()
    ledger.do(run, build.new_operation(run))
    answer = ledger.answer(
        run, build.applied(run), build.settle(run), seen=[build.seen(run)], if_refused=[build.seen(run, current=0)]
    )

    assert answer is Answer.MOVED
    (seen,) = ledger.load(run).operations[0].observations
    assert (seen.kind, seen.says, seen.current, seen.attempt) == ("reply", "applied", True, 1)


def test_a_stale_owners_report_is_kept_although_its_moves_are_dropped(ledger: Ledger) -> None:
    run = ledger.running()
    ledger.do(run, build.new_operation(run))
    ledger.store.end_lease("lease-1", now=ledger.now)
    ledger.store.take_lease(build.lease("lease-2"))
    ledger.claim("lease-2")

    answer = ledger.answer(
        run, build.applied(run), build.settle(run), seen=[build.seen(run, kind="reference", says=None)],
        if_refused=[build.seen(run, kind="look-up", says="found", current=0)],
    )  # fmt: skip

    assert answer is Answer.STALE
    (operation,) = ledger.load(run).operations
    assert operation.state is OperationState.UNKNOWN
    # The evidence of the attempt that could not be settled is kept by itself.
    assert [(seen.kind, seen.says, seen.current, seen.generation) for seen in operation.observations] == [
        ("reference", None, True, 1), ("look-up", "found", False, 1), ("reply", "applied", False, 1)
    ]  # fmt: skip


def test_an_observation_that_cannot_be_stored_refuses_its_group_and_no_other(ledger: Ledger) -> None:
    run, other = ledger.running(), ledger.running("run-2")
    broken = build.group(run, build.new_operation(run), seen=[build.seen(run, evidence=object()), build.seen(run)])

    answers = ledger.store.commit([broken, build.group(other, build.new_operation(other))], patience=1)

    assert isinstance(answers[0], ValueRefused)
    assert answers[1] is Answer.MOVED
    assert ledger.load(run).operations == []


def test_a_group_of_observations_alone_is_appended_whoever_owns_the_run(ledger: Ledger) -> None:
    run = ledger.running()
    ledger.do(run, build.new_operation(run))
    run.generation = 0

    assert ledger.answer(run, seen=[build.seen(run, current=0)]) is Answer.MOVED
    assert len(ledger.load(run).operations[0].observations) == 1


def test_what_is_not_given_stays(ledger: Ledger) -> None:
    run = ledger.running()
    ledger.do(run, build.new_operation(run))
    ledger.do(run, build.move_operation(run, "lose", "dispatched", "unknown", reference="t-1", error='"no"', lookups=1))
    ledger.do(run, build.move_operation(run, "lose", "unknown", "unknown", lookups=3))
    (unknown,) = ledger.load(run).operations
    ledger.do(run, build.move_operation(run, "apply", "unknown", "succeeded", result='"late"', delivered=4, lookups=3))
    (after,) = ledger.load(run).operations

    assert (unknown.reference, unknown.error, unknown.lookups, unknown.version) == ("t-1", '"no"', 3, 2)
    assert (after.reference, after.error, after.result, after.delivered, after.lookups) == ("t-1", None, '"late"', 4, 3)


def test_a_retry_by_a_person_starts_a_new_budget(ledger: Ledger) -> None:
    run = ledger.running()
    ledger.do(run, build.new_operation(run), build.move_operation(run, "lose", "dispatched", "unknown"))
    ledger.do(run, build.dispatch_again(run, "unknown", 2), build.new_attempt(run, number=2))
    ledger.do(run, build.move_operation(run, "refuse", "dispatched", "failed"))
    ledger.do(run, build.move_operation(run, "retry", "failed", "reserved", at=build.NOW + 9))

    (operation,) = ledger.load(run).operations
    assert (operation.state, operation.budget_from, len(operation.attempts)) == (
        OperationState.RESERVED, build.NOW + 9, 2
    )  # fmt: skip


def test_text_in_any_script_comes_back_as_it_went_in(ledger: Ledger) -> None:
    text = '{"Größe":"日本語 \\u0000 🦊 \u202ertl\u202c e\u0301"}'
    run = ledger.running("invoice:Zürich:請求書-1", input=text)
    ledger.do(run, *[move._replace(item="π/ß\n") for move in [build.new_operation(run, "支払う")]])

    history = ledger.load(run)
    assert history.run.input == text
    assert (history.operations[0].step, history.operations[0].item) == ("支払う", "π/ß\n")
    assert history.operations[0].attempts[0].number == 1


def test_positions_come_back_in_the_order_in_which_they_were_opened(ledger: Ledger) -> None:
    run = ledger.running()
    for name in ("z", "a", "m"):
        ledger.do(run, build.new_operation(run, name), build.open_step(run, f"step {name}"))

    history = ledger.load(run)
    assert [operation.step for operation in history.operations] == ["z", "a", "m"]
    assert [step.position for step in history.steps] == ["step z", "step a", "step m"]


def test_a_note_on_an_open_step_leaves_it_open(ledger: Ledger) -> None:
    run = ledger.running()
    ledger.do(run, build.open_step(run, "model:0", "model"))
    ledger.do(run, build.move_step(run, "note", "open", "open", "model:0", detail='{"bad":["text"]}'))

    (step,) = ledger.load(run).steps
    assert (step.state.value, step.detail, step.closed_at) == ("open", '{"bad":["text"]}', None)
