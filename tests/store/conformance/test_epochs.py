"""Tokens, and what a restore changes: whatever was issued before is below what is issued after, and counts no more."""

from fencepost.core.epoch import GENERATIONS_PER_SECOND, Epoch
from fencepost.core.records import Audit
from fencepost.core.states import LeaseState, OperationState
from fencepost.store.api import Answer
from tests.store import build
from tests.store.conftest import Ledger


def audited(epoch: Epoch) -> Audit:
    return build.audit("restored", run_id="", at=epoch.began_at, after=f'{{"epoch":{epoch.number}}}')


def restore(ledger: Ledger) -> Epoch:
    ledger.now += build.SECOND
    return ledger.store.begin_epoch(audited)


def test_the_tokens_of_a_resource_rise_whoever_takes_them(ledger: Ledger) -> None:
    one, two = ledger.running("one"), ledger.running("two")

    taken = [ledger.store.issue_token(run.no, run.generation, "account:7") for run in (one, two, one)]

    assert taken == [1, 2, 3]
    assert ledger.store.issue_token(one.no, one.generation, "account:8") == 1


def test_nobody_takes_a_token_for_a_run_that_is_another_owners(ledger: Ledger) -> None:
    run = ledger.running()
    for generation in (run.generation - 1, run.generation + 1):
        assert ledger.store.issue_token(run.no, generation, "account:7") is None
    assert ledger.store.issue_token(run.no, run.generation, "account:7") == 1


def test_a_ledger_that_was_never_restored_has_no_epoch(ledger: Ledger) -> None:
    assert ledger.store.epoch() is None
    assert ledger.store.close_lost_span(audited) is None


def test_an_epoch_begins_at_the_wall_clock_and_ever_higher(ledger: Ledger) -> None:
    first = restore(ledger)
    ledger.now -= 1_000 * build.SECOND  # a clock that was set back
    second = ledger.store.begin_epoch(audited)

    assert first.number == first.began_at // 1_000_000
    assert second.number == first.number + 1
    assert ledger.store.epoch() == second
    assert [row.verb for row in ledger.store.audits(None, None)] == ["restored", "restored"]


def test_who_owned_a_run_before_changes_nothing_after(ledger: Ledger) -> None:
    run = ledger.running()
    ledger.do(run, build.new_operation(run))

    epoch = restore(ledger)

    assert ledger.answer(run, build.succeed(run)) is Answer.STALE
    assert [lease.state for lease in ledger.store.leases()] == [LeaseState.EXPIRED]
    ledger.store.take_lease(build.lease("lease-2", at=ledger.now))
    (claimed,) = ledger.claim("lease-2")
    assert claimed.generation > epoch.base == epoch.number * GENERATIONS_PER_SECOND
    assert ledger.load(claimed).operations[0].state is OperationState.UNKNOWN


def test_runs_and_tokens_of_after_are_above_all_of_before(ledger: Ledger) -> None:
    before = ledger.running("before")
    ledger.store.issue_token(before.no, before.generation, "old")

    epoch = restore(ledger)

    after = ledger.running("after", "lease-2")
    assert after.generation == epoch.base + 1
    for resource in ("old", "new"):
        assert ledger.store.issue_token(after.no, after.generation, resource) == epoch.base + 1


def test_the_lost_time_reaches_from_the_highest_time_stored_to_the_restore(ledger: Ledger) -> None:
    ledger.running()
    stored = ledger.now
    ledger.now += 60 * build.SECOND

    epoch = restore(ledger)

    assert (epoch.lost_from, epoch.began_at) == (stored, ledger.now)
    assert epoch.is_open
    closed = ledger.store.close_lost_span(audited)
    assert closed is not None
    assert not closed.is_open
    assert ledger.store.epoch() == closed
    assert ledger.store.close_lost_span(audited) is None


def test_a_ledger_that_remembers_nothing_may_have_forgotten_anything(ledger: Ledger) -> None:
    assert restore(ledger).lost_from == 0


def test_a_ledger_that_has_forgotten_a_renewal_has_gone_back(ledger: Ledger) -> None:
    ledger.store.take_lease(build.lease())
    seen = ledger.now + build.SECOND

    assert not ledger.store.has_gone_back("lease-1", ledger.now)
    assert ledger.store.has_gone_back("lease-1", seen)
    assert ledger.store.has_gone_back("nobody", 0)
    assert not ledger.store.renew_lease("lease-1", now=seen, expires_at=seen + build.SECOND, seen=seen)
    assert ledger.store.renew_lease("lease-1", now=seen, expires_at=seen + build.SECOND, seen=ledger.now)
