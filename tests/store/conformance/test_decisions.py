"""A person's verb decides under the write lock and leaves a chained audit row; refused, it changes nothing."""

import threading
from dataclasses import replace

import pytest

from fencepost.core.errors import VerbRefused
from fencepost.core.records import History
from fencepost.core.states import OperationState, RunState
from fencepost.core.transitions import IllegalTransition
from fencepost.store.chain import broken_at
from tests.store import build
from tests.store.conftest import Ledger


def test_a_decision_moves_observes_and_is_audited_in_one_commit(ledger: Ledger) -> None:
    run = ledger.running()
    ledger.do(run, build.new_operation(run), build.move_operation(run, "lose", "dispatched", "unknown"))
    ledger.do(run, build.move_run(run, "hold", "held"))

    def settle(history: History, now: int):
        owner = history.run
        moves = [
            build.settle(owner, at=now), build.move_operation(owner, "apply", "unknown", "succeeded", at=now),
            build.move_run(owner, "resume", "ready", raise_generation=1),
        ]  # fmt: skip
        return moves, [build.seen(owner, kind="statement")], [build.audit("settle")]

    after = ledger.store.decide(run.no, settle)

    assert (after.run.state, after.run.generation) == (RunState.READY, 2)
    assert after.operations[0].state is OperationState.SUCCEEDED
    assert after.operations[0].observations[0].kind == "statement"
    assert [row.verb for row in ledger.store.audits("default", "run-1")] == ["settle"]
    assert after == ledger.load(run)


def test_a_decision_that_raises_changes_nothing(ledger: Ledger) -> None:
    run = ledger.running()
    before = ledger.load(run)

    def refuse(history: History, now: int):
        raise VerbRefused("not now")

    with pytest.raises(VerbRefused):
        ledger.store.decide(run.no, refuse)
    assert ledger.load(run) == before
    ledger.do(run, build.new_operation(run))


def test_a_decision_whose_moves_do_not_fit_changes_nothing_at_all(ledger: Ledger) -> None:
    run = ledger.running()
    before = ledger.load(run)

    def decide(history: History, now: int):
        return [build.open_step(run), build.applied(run)], [build.seen(run)], [build.audit()]

    with pytest.raises(IllegalTransition):
        ledger.store.decide(run.no, decide)
    assert ledger.load(run) == before
    assert ledger.store.audits(None, None) == []


def test_five_clicks_at_once_are_judged_one_after_the_other(ledger: Ledger) -> None:
    run = ledger.running()
    ledger.do(run, build.move_run(run, "hold", "held"))
    stores = [ledger.store, ledger.another()]
    outcomes: list[str] = []

    def resume(history: History, now: int):
        if history.run.state is not RunState.HELD:
            raise VerbRefused("it is not held any more")
        return [build.move_run(history.run, "resume", "ready", raise_generation=1)], [], [build.audit()]

    def click(number: int) -> None:
        try:
            stores[number % 2].decide(run.no, resume)
            outcomes.append("done")
        except VerbRefused:
            outcomes.append("refused")

    threads = [threading.Thread(target=click, args=(number,)) for number in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(outcomes) == ["done"] + ["refused"] * 4
    assert ledger.run(run).generation == 2


def test_audit_rows_are_chained_across_runs(ledger: Ledger) -> None:
    rows = [ledger.store.audit(build.audit(verb, run_id=f"run-{verb}")) for verb in ("resume", "settle", "cancel")]

    assert ledger.store.audits("default", None) == rows
    assert [row.no for row in rows] == [1, 2, 3]
    assert rows[0].previous == ""
    assert [row.previous for row in rows[1:]] == [row.hash for row in rows[:-1]]
    assert broken_at(rows) is None


def test_an_audit_row_that_was_changed_or_taken_out_shows(ledger: Ledger) -> None:
    rows = [ledger.store.audit(build.audit(verb)) for verb in ("resume", "settle", "cancel")]

    assert broken_at([rows[0], replace(rows[1], actor="nobody"), rows[2]]) == 2
    assert broken_at([rows[0], rows[2]]) == 3


def test_refused_verbs_are_audited_too(ledger: Ledger) -> None:
    ledger.store.audit(build.audit(outcome="refused", reason="not held", step="pay", item="line-1"))

    (row,) = ledger.store.audits("default", "run-1")
    assert (row.outcome, row.reason, row.step, row.item) == ("refused", "not held", "pay", "line-1")
    assert ledger.store.audits("other", "run-1") == []
