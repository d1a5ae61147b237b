"""Takeovers in a row are counted where no code returned; what was answered in between, or a person, starts anew."""

from typing import Any

import pytest

from fencepost.core.records import Run
from fencepost.core.states import RunState
from tests.store import build
from tests.store.conftest import Ledger


def taken_over(ledger: Ledger, heir: str, **changes: Any) -> list[Run]:
    """Let every live lease run out, and an heir claim."""
    ledger.now += 100 * build.SECOND
    ledger.store.take_lease(build.lease(heir, at=ledger.now))
    return ledger.claim(heir, **changes)


def test_each_takeover_from_a_lost_worker_counts(ledger: Ledger) -> None:
    ledger.running()

    counts = [taken_over(ledger, f"heir-{number}")[0].takeovers for number in (1, 2, 3)]

    assert counts == [1, 2, 3]


@pytest.mark.parametrize(
    "answer",
    [
        lambda run: [build.new_operation(run), build.succeed(run)],
        lambda run: [build.open_step(run, state="done", closed_at=build.NOW)],
    ],
    ids=["an outcome", "a step's result"],
)
def test_what_was_answered_in_between_starts_the_count_anew(ledger: Ledger, answer: Any) -> None:
    ledger.running()
    taken_over(ledger, "first")
    (run,) = taken_over(ledger, "second")
    assert run.takeovers == 2
    ledger.do(run, *answer(run))

    assert [run.takeovers for run in taken_over(ledger, "third")] == [1]
    assert [run.takeovers for run in taken_over(ledger, "fourth")] == [2]


def test_a_look_up_that_could_not_tell_is_an_answer_too(ledger: Ledger) -> None:
    run = ledger.running()
    ledger.do(run, build.new_operation(run))
    (run,) = taken_over(ledger, "first")
    ledger.answer(run, seen=[build.seen(run, kind="look-up", says="inconclusive")])

    assert [run.takeovers for run in taken_over(ledger, "second")] == [1]


def test_an_attempt_that_was_only_begun_is_no_answer(ledger: Ledger) -> None:
    run = ledger.running()
    ledger.do(run, build.new_operation(run))
    (run,) = taken_over(ledger, "first")
    ledger.do(run, build.dispatch_again(run, "unknown", 2), build.new_attempt(run))

    assert [run.takeovers for run in taken_over(ledger, "second")] == [2]


def test_a_worker_that_gave_its_lease_back_is_not_lost(ledger: Ledger) -> None:
    ledger.running()
    ledger.store.end_lease("lease-1", now=ledger.now)
    ledger.store.take_lease(build.lease("heir", at=ledger.now))

    assert [run.takeovers for run in ledger.claim("heir")] == [0]


def test_a_run_that_was_given_up_in_order_keeps_its_count_for_the_next_loss(ledger: Ledger) -> None:
    ledger.running()
    (run,) = taken_over(ledger, "first")
    ledger.do(run, build.move_run(run, "wait", "waiting", wake_at=ledger.now, ended_at=None))

    assert [run.takeovers for run in ledger.claim("first")] == [1]
    assert [run.takeovers for run in taken_over(ledger, "second")] == [2]


def test_a_person_starts_the_count_anew(ledger: Ledger) -> None:
    ledger.running()
    (run,) = taken_over(ledger, "first")
    ledger.do(run, build.move_run(run, "hold", "held", hold="{}", raise_generation=1))
    assert ledger.run(run).takeovers == 0


def test_suspects_are_taken_one_at_a_time_after_all_others(ledger: Ledger) -> None:
    for name in ("a", "b", "c"):
        ledger.running(name)
    taken_over(ledger, "first")
    ledger.running("fresh", "first")

    taken = taken_over(ledger, "second", suspects=1)

    assert [(run.id == "fresh", run.takeovers) for run in taken] == [(True, 1), (False, 2)]
    assert ledger.claim("second", suspects=0) == []
    assert len(ledger.claim("second", suspects=1)) == 1
    assert len(ledger.claim("second")) == 1


def test_the_larger_margin_counts(ledger: Ledger) -> None:
    careful = build.lease()
    careful.margin = 3 * build.SECOND
    ledger.store.take_lease(careful)
    assert ledger.running().state is RunState.RUNNING
    ledger.now = ends = build.NOW + 10 * build.SECOND
    ledger.store.take_lease(build.lease("heir", at=ends))

    assert [lease.margin for lease in ledger.store.leases() if lease.id == "lease-1"] == [3 * build.SECOND]
    for margin, wait in ((0, 3), (1, 3), (5, 5)):
        wake = ledger.store.next_wake(build.WORKFLOWS, namespace="default", margin=margin * build.SECOND)
        assert wake == ends + wait * build.SECOND
    assert ledger.claim("heir", now=ends + 3 * build.SECOND - 1) == []
    assert len(ledger.claim("heir", now=ends + 3 * build.SECOND)) == 1
