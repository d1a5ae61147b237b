"""An approval is used once, by a dispatch; and what an owner or a sender is refused is audited in the same commit."""

from fencepost.core.errors import ValueRefused
from fencepost.core.records import Audit, Run, Signal
from fencepost.core.states import SignalState
from fencepost.store.api import Answer
from fencepost.store.chain import broken_at
from tests.store import build
from tests.store.conftest import Ledger

WAIT = "/decision"


def test_an_approval_is_used_by_one_dispatch_of_a_run_and_by_no_other(ledger: Ledger) -> None:
    run, other = ledger.running(), ledger.running("run-2")
    ledger.do(run, build.new_operation(run, "pay", approval=WAIT), build.new_operation(run, "mail", state="reserved"))

    assert ledger.answer(run, build.new_operation(run, "refund", approval=WAIT)) is Answer.DUPLICATE
    assert ledger.answer(run, build.dispatch_again(run, "reserved", 1, "mail", approval=WAIT)) is Answer.DUPLICATE
    ledger.do(other, build.new_operation(other, "pay", approval=WAIT))

    assert [one.approval for one in ledger.load(run).operations] == [WAIT, None]
    assert [one.approval for one in ledger.load(other).operations] == [WAIT]


def test_two_dispatches_of_one_batch_do_not_both_use_an_approval(ledger: Ledger) -> None:
    run = ledger.running()
    groups = [build.group(run, build.new_operation(run, step, approval=WAIT)) for step in ("pay", "refund")]

    assert ledger.store.commit(groups, patience=1.0) == [Answer.MOVED, Answer.DUPLICATE]
    assert [one.step for one in ledger.load(run).operations] == ["pay"]


def test_what_is_not_dispatched_uses_no_approval(ledger: Ledger) -> None:
    run = ledger.running()
    assert isinstance(ledger.answer(run, build.new_operation(run, state="reserved", approval=WAIT)), ValueRefused)


def test_a_dispatch_again_keeps_the_approval_that_the_first_has_used(ledger: Ledger) -> None:
    run = ledger.running()
    ledger.do(run, build.new_operation(run, "mail", state="reserved"))
    ledger.do(run, build.dispatch_again(run, "reserved", 1, "mail", approval=WAIT))
    ledger.do(run, build.move_operation(run, "lose", "dispatched", "unknown", "mail"))
    ledger.do(run, build.dispatch_again(run, "unknown", 2, "mail"), build.new_attempt(run, "mail"))

    assert ledger.load(run).operations[0].approval == WAIT


def test_the_audit_rows_of_a_group_are_chained_in_its_commit_and_dropped_with_it(ledger: Ledger) -> None:
    run, other = ledger.running(), ledger.running("run-2")
    right, wrong = build.group(run, build.open_step(run)), build.group(other, build.move_signal(other, "refused"))
    right.audits = (build.audit("one"), build.audit("two"))
    wrong.audits = (build.audit("of what was not refused"),)
    plain = build.group(other, build.open_step(other))

    answers = ledger.store.commit([right, build.new_run("run-3"), wrong, plain], patience=1.0)

    assert [answers[0], answers[2], answers[3]] == [Answer.MOVED, Answer.ILLEGAL, Answer.MOVED]
    ledger.store.audit(build.audit("three"))
    rows = ledger.store.audits(None, None)
    assert [row.verb for row in rows] == ["one", "two", "three"]
    assert broken_at(rows) is None
    assert [step.position for step in ledger.load(other).steps] == ["wait:0"]


def test_a_signal_is_audited_when_it_comes_the_first_time(ledger: Ledger) -> None:
    run = ledger.running()
    ledger.do(run, build.open_step(run, state="done", closed_at=build.NOW))
    asked: list[tuple[str, SignalState]] = []

    def audited(to: Run, stored: Signal) -> Audit | None:
        asked.append((to.id, stored.state))
        return build.audit(str(stored.reason)) if stored.state is SignalState.REFUSED else None

    for wait in ("decision", "decision", "another"):
        ledger.store.signal("default", "run-1", build.signal(wait, wait), audited)

    assert asked == [("run-1", SignalState.REFUSED), ("run-1", SignalState.KEPT)]
    assert [row.verb for row in ledger.store.audits(None, None)] == ["not waiting"]


def test_what_the_end_of_a_run_refuses_is_audited_once_soon_after(ledger: Ledger) -> None:
    run = ledger.running()
    for name in ("one", "two"):
        ledger.store.signal("default", "run-1", build.signal(name))
    asked: list[tuple[str, str, str | None]] = []

    def audited(of: Run, refused: Signal) -> Audit:
        asked.append((of.state, refused.id, refused.reason))
        return build.audit(refused.id)

    assert ledger.store.audit_left(audited) == 0
    ledger.do(run, build.move_run(run, "succeed", "succeeded"))

    assert ledger.store.audit_left(audited) == 2
    assert ledger.store.audit_left(audited) == 0
    assert sorted(asked) == [("succeeded", name, "the run has ended") for name in ("one", "two")]
    assert sorted(row.verb for row in ledger.store.audits(None, None)) == ["one", "two"]
