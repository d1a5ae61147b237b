"""Claiming and leases: a run has one owner, a lease that is over stays over, and what was in flight is unknown."""

import threading

import pytest

from fencepost.core.errors import LeaseLost
from fencepost.core.states import LeaseState, OperationState, Outcome, RunState
from tests.store import build
from tests.store.conftest import Ledger

LATER = build.NOW + 100 * build.SECOND


def test_a_ready_run_is_claimed_once_and_its_generation_rises(ledger: Ledger) -> None:
    ledger.store.take_lease(build.lease())
    ledger.store.start_run(build.new_run())

    (run,) = ledger.claim()

    assert (run.state, run.generation, run.lease, run.wake_at) == (RunState.RUNNING, 1, "lease-1", None)
    assert ledger.claim() == []


def test_runs_are_claimed_in_the_order_in_which_they_fall_due_and_not_before(ledger: Ledger) -> None:
    ledger.store.take_lease(build.lease())
    for name, wait in (("third", 3), ("first", 1), ("second", 2)):
        ledger.store.start_run(build.new_run(name, wake_at=build.NOW + wait))

    assert ledger.claim() == []
    assert ledger.store.next_wake(build.WORKFLOWS, namespace="default", margin=0) == build.NOW + 1
    ledger.now += 2
    assert [run.id for run in ledger.claim(limit=1)] == ["first"]
    assert [run.id for run in ledger.claim()] == ["second"]
    assert ledger.claim(limit=0) == []


def test_one_that_keeps_a_place_in_line_is_claimed_when_every_earlier_one_has_ended(ledger: Ledger) -> None:
    ledger.store.take_lease(build.lease())
    for name, resource in (("first", "a"), ("second", "a"), ("third", "a"), ("other", "b"), ("free", None)):
        ledger.store.start_run(build.new_run(name, resource=resource))
    ledger.store.start_run(build.new_run("of another namespace", resource="a", namespace="tests"))

    first, *others = ledger.claim()

    assert [run.id for run in (first, *others)] == ["first", "other", "free"]
    wake = ledger.store.next_wake(build.WORKFLOWS, namespace="default", margin=0)
    assert wake == ledger.store.leases()[0].expires_at, "nothing is due but the lease's own end"
    assert [run.id for run in ledger.claim(namespace="tests")] == ["of another namespace"]
    ledger.do(first, build.move_run(first, "fail", "failed"))
    assert [run.id for run in ledger.claim()] == ["second"]
    assert ledger.claim() == []


def test_only_workflows_that_the_worker_knows_are_claimed(ledger: Ledger) -> None:
    ledger.store.take_lease(build.lease())
    ledger.store.start_run(build.new_run("newer", workflow_version=2))
    ledger.store.start_run(build.new_run("foreign", workflow="other"))
    ledger.store.start_run(build.new_run("elsewhere", namespace="tests"))

    assert ledger.claim() == []
    assert ledger.store.next_wake(build.WORKFLOWS, namespace="default", margin=0) is None
    assert ledger.store.claim("lease-1", [], namespace="default", now=LATER, margin=0, limit=9) == []
    taken = ledger.store.claim(
        "lease-1", [("approve", 2), ("other", 1)], namespace="default", now=ledger.now, margin=0, limit=9
    )
    assert {run.id for run in taken} == {"newer", "foreign"}


def test_what_was_being_sent_when_a_run_changes_hands_is_unknown(ledger: Ledger) -> None:
    run = ledger.running()
    ledger.do(
        run, build.new_operation(run, "sent"), build.new_operation(run, "done"), build.applied(run, "done"),
        build.new_operation(run, "reserved", state="reserved"),
    )  # fmt: skip
    ledger.now = LATER
    ledger.store.take_lease(build.lease("heir", at=LATER))

    (claimed,) = ledger.claim("heir")

    assert (claimed.generation, claimed.lease) == (2, "heir")
    sent, done, reserved = ledger.load(run).operations
    assert (sent.state, sent.generation, sent.version) == (OperationState.UNKNOWN, 2, 1)
    assert sent.attempts[0].outcome is Outcome.UNRESOLVED
    assert (done.state, reserved.state) == (OperationState.SUCCEEDED, OperationState.RESERVED)


def test_a_lease_is_taken_over_no_earlier_than_its_end_and_the_margin(ledger: Ledger) -> None:
    ledger.running()
    ledger.now = ends = build.NOW + 10 * build.SECOND
    ledger.store.take_lease(build.lease("heir", at=ends))
    margin = 3 * build.SECOND

    assert ledger.store.next_wake(build.WORKFLOWS, namespace="default", margin=margin) == ends + margin
    assert ledger.claim("heir", margin=margin, now=ends + margin - 1) == []
    assert len(ledger.claim("heir", margin=margin, now=ends + margin)) == 1


def test_a_renewed_lease_keeps_its_runs(ledger: Ledger) -> None:
    ledger.running()
    ledger.now = LATER
    assert ledger.store.renew_lease("lease-1", now=LATER, expires_at=LATER + build.SECOND)
    ledger.store.take_lease(build.lease("heir", at=LATER))

    assert ledger.claim("heir") == []


def test_a_worker_is_not_woken_for_the_orphans_that_it_cannot_take(ledger: Ledger) -> None:
    run = ledger.running(workflow_version=2)
    ledger.store.end_lease("lease-1", now=ledger.now)

    assert ledger.store.next_wake(build.WORKFLOWS, namespace="default", margin=0) is None
    assert ledger.store.next_wake([("approve", 2)], namespace="other", margin=0) is None
    assert ledger.store.next_wake([("approve", 2)], namespace="default", margin=0) == ledger.now
    assert ledger.run(run).lease == "lease-1"


def test_no_renewal_undoes_an_expiry(ledger: Ledger) -> None:
    run = ledger.running()
    ledger.now = LATER
    ledger.store.take_lease(build.lease("heir", at=LATER))
    assert ledger.claim("heir")

    assert not ledger.store.renew_lease("lease-1", now=LATER, expires_at=LATER + build.SECOND)
    assert not ledger.store.end_lease("lease-1", now=LATER)
    assert ledger.run(run).lease == "heir"


def test_a_lease_that_was_given_back_frees_its_runs_at_once(ledger: Ledger) -> None:
    ledger.running()
    ledger.store.take_lease(build.lease("heir"))
    assert ledger.store.end_lease("lease-1", now=ledger.now)

    assert ledger.store.next_wake(build.WORKFLOWS, namespace="default", margin=0) == ledger.now
    assert len(ledger.claim("heir")) == 1
    assert not ledger.store.renew_lease("lease-1", now=ledger.now, expires_at=LATER)


def test_nobody_claims_for_a_lease_that_is_over_or_was_never_taken(ledger: Ledger) -> None:
    ledger.store.take_lease(build.lease())
    ledger.store.start_run(build.new_run())
    ledger.now = LATER

    for lease in ("lease-1", "nobody"):
        with pytest.raises(LeaseLost):
            ledger.claim(lease)
    assert not ledger.store.renew_lease("lease-1", now=LATER, expires_at=LATER + build.SECOND)


def test_a_run_that_is_being_cancelled_or_compensated_stays_so_when_it_is_taken_over(ledger: Ledger) -> None:
    for name, event, to in (("one", "cancel", "cancelling"), ("two", "compensate", "compensating")):
        run = ledger.running(name)
        ledger.do(run, build.move_run(run, event, to))
    ledger.store.end_lease("lease-1", now=ledger.now)
    ledger.store.take_lease(build.lease("heir"))

    assert {run.state for run in ledger.claim("heir")} == {RunState.CANCELLING, RunState.COMPENSATING}


def test_waiting_held_and_ended_runs_are_not_claimed(ledger: Ledger) -> None:
    ledger.store.take_lease(build.lease())
    for event, to in (("wait", "waiting"), ("hold", "held"), ("succeed", "succeeded"), ("terminate", "terminated")):
        run = ledger.running(to)
        ledger.do(run, build.move_run(run, event, to))

    assert ledger.claim() == []


def test_a_timer_wakes_a_waiting_run(ledger: Ledger) -> None:
    run = ledger.running()
    ledger.do(run, build.move_run(run, "wait", "waiting", wake_at=LATER))
    assert ledger.claim() == []
    assert ledger.store.next_wake(build.WORKFLOWS, namespace="default", margin=0) == LATER
    ledger.now = LATER
    ledger.store.take_lease(build.lease("heir", at=LATER))

    assert [found.id for found in ledger.claim("heir")] == ["run-1"]


def test_leases_that_are_live_or_own_a_run_are_listed(ledger: Ledger) -> None:
    ledger.running(lease="owner")
    ledger.store.take_lease(build.lease("idle", at=build.NOW + 1))
    ledger.store.take_lease(build.lease("gone"))
    for lease in ("owner", "gone"):
        ledger.store.end_lease(lease, now=build.NOW + 2)

    assert [(lease.id, lease.state) for lease in ledger.store.leases()] == [
        ("idle", LeaseState.LIVE), ("owner", LeaseState.ENDED)
    ]  # fmt: skip


def test_two_stores_that_race_for_runs_never_claim_one_twice(ledger: Ledger) -> None:
    stores = [ledger.store, ledger.another()]
    for number in range(60):
        ledger.store.start_run(build.new_run(f"run-{number}"))
    claimed: list[tuple[int, int]] = []
    gate = threading.Barrier(4)

    def take(number: int) -> None:
        store = stores[number % 2]
        store.take_lease(build.lease(f"lease-{number}"))
        gate.wait()
        while found := store.claim(
            f"lease-{number}", build.WORKFLOWS, namespace="default", now=ledger.now, margin=0, limit=3
        ):
            claimed.extend((run.no, run.generation) for run in found)

    threads = [threading.Thread(target=take, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(claimed) == [(number, 1) for number in range(1, 61)]
