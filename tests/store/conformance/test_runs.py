"""Runs: started once per id, found, listed in pages, counted by version."""

import threading

import pytest

from fencepost.core.errors import RunNotFound
from fencepost.core.states import RunState
from fencepost.store.api import RunFilter
from tests.polling import until
from tests.store import build
from tests.store.conftest import Ledger


def test_starting_the_same_id_again_returns_the_run_that_is_there(ledger: Ledger) -> None:
    first, is_new = ledger.store.start_run(build.new_run())
    again, is_new_again = ledger.store.start_run(build.new_run(input='{"other":1}', workflow="other"))

    assert (is_new, is_new_again) == (True, False)
    assert again == first
    assert (first.state, first.generation, first.lease) == (RunState.READY, 0, None)


def test_two_namespaces_hold_runs_of_one_id(ledger: Ledger) -> None:
    here, _ = ledger.store.start_run(build.new_run())
    there, is_new = ledger.store.start_run(build.new_run(namespace="tests"))

    assert is_new
    assert there.no != here.no


def test_a_run_may_be_owned_from_its_first_row_on(ledger: Ledger) -> None:
    run = ledger.running()

    assert (run.state, run.generation, run.lease, run.wake_at) == (RunState.RUNNING, 1, "lease-1", None)


def test_one_id_started_by_many_threads_at_once_is_one_run(ledger: Ledger) -> None:
    stores = [ledger.store, ledger.another()]
    gate = threading.Barrier(8)
    found = []

    def start(number: int) -> None:
        gate.wait()
        found.append(stores[number % 2].start_run(build.new_run()))

    threads = [threading.Thread(target=start, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sum(is_new for _, is_new in found) == 1
    assert len({run.no for run, _ in found}) == 1


def test_a_run_is_found_by_its_id_or_not_at_all(ledger: Ledger) -> None:
    run, _ = ledger.store.start_run(build.new_run())

    assert ledger.store.find("default", "run-1") == run
    assert ledger.store.find("default", "run-2") is None
    assert ledger.store.find("other", "run-1") is None
    with pytest.raises(RunNotFound) as refusal:
        ledger.store.load(99)
    assert refusal.value.hint


def test_runs_are_listed_in_pages_newest_first(ledger: Ledger) -> None:
    for number in range(7):
        ledger.store.start_run(build.new_run(f"run-{number}"))
    seen, after = [], None
    while page := ledger.store.runs(RunFilter("default", after=after, limit=3)):
        seen += [run.id for run in page]
        after = page[-1].no

    assert seen == [f"run-{number}" for number in reversed(range(7))]


def test_runs_are_listed_by_state_workflow_and_the_beginning_of_their_id(ledger: Ledger) -> None:
    ledger.store.start_run(build.new_run("invoice:1"))
    ledger.store.start_run(build.new_run("invoice:2", workflow="pay"))
    ledger.store.start_run(build.new_run("invoice%3", namespace="tests"))
    ledger.running("order:1")

    def listed(**wanted: object) -> list[str]:
        return [run.id for run in ledger.store.runs(RunFilter("default")._replace(**wanted))]

    assert listed() == ["order:1", "invoice:2", "invoice:1"]
    assert listed(state="ready") == ["invoice:2", "invoice:1"]
    assert listed(state="ready", workflow="pay") == ["invoice:2"]
    assert listed(prefix="invoice:") == ["invoice:2", "invoice:1"]
    assert listed(prefix="invoice%") == []
    assert listed(state="held") == []


def test_every_change_of_a_run_raises_its_version(ledger: Ledger) -> None:
    run = ledger.running()
    versions = [run.version]
    for event, to in (("wait", "waiting"), ("cancel", "cancelling"), ("hold", "held")):
        current = ledger.run(run)
        ledger.do(current, build.move_run(current, event, to))
        versions.append(ledger.run(run).version)
    ledger.store.start_run(build.new_run())

    assert versions == [0, 1, 2, 3]
    assert ledger.run(run).version == 3


def test_a_person_takes_a_run_from_its_owner_by_raising_the_generation(ledger: Ledger) -> None:
    run = ledger.running()
    ledger.do(run, build.move_run(run, "hold", "held", raise_generation=1))

    after = ledger.run(run)
    assert (after.generation, after.lease, after.state) == (2, None, RunState.HELD)


def test_a_failed_run_that_is_resumed_is_ready_at_once(ledger: Ledger) -> None:
    run = ledger.running()
    ledger.do(run, build.move_run(run, "fail", "failed"))
    failed = ledger.run(run)
    ledger.do(failed, build.move_run(failed, "resume", "ready", raise_generation=1))

    after = ledger.run(run)
    assert (after.state, after.wake_at, after.ended_at) == (RunState.READY, build.NOW, None)


def test_somebody_elses_write_is_heard_of(ledger: Ledger) -> None:
    other = ledger.another()
    changes = ledger.store.changes(lambda signalled: None)
    until(lambda: not changes.look(), "everything that was written before to be seen")

    other.start_run(build.new_run())

    until(changes.look, "the start to be heard of")
    changes.close()


def test_the_latest_time_does_not_follow_a_clock_that_is_set_back(ledger: Ledger) -> None:
    run = ledger.running()
    ledger.do(run, build.new_operation(run))
    ledger.now = build.NOW - 3_600 * build.SECOND

    assert ledger.store.now() == build.NOW - 3_600 * build.SECOND
    assert ledger.store.latest() == build.NOW


def test_the_latest_time_outlives_whatever_a_clock_that_was_set_back_writes(ledger: Ledger) -> None:
    before = build.NOW - 3_600 * build.SECOND
    ledger.store.take_lease(build.lease(at=before))
    assert ledger.store.renew_lease("lease-1", now=build.NOW, expires_at=build.NOW + build.SECOND)

    ledger.now = before
    assert ledger.store.renew_lease("lease-1", now=before, expires_at=before + build.SECOND)
    ledger.store.start_run(build.new_run(at=before))

    assert ledger.store.latest() == build.NOW
