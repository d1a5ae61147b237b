"""The approvals demo: a smaller one as a user runs it, its plan, and a verdict that notices whatever is wrong."""

import subprocess
import sys
from collections import Counter
from dataclasses import replace

import pytest

from fencepost.core.errors import ApprovalRefused, ErrorRecord, Misuse
from fencepost.core.records import Audit, History, Operation, Run, Signal
from fencepost.core.states import OperationState, RunState, SignalState
from fencepost.demo import approvals
from fencepost.demo.approval_plan import IS_PAID, REFUSALS, Case, Kind, draw
from fencepost.demo.approval_tally import FULL, Found, complaints, lines
from tests.demo.processes import mentioning

COMMAND = [sys.executable, "-c", "import sys; from fencepost.cli.main import main; sys.exit(main())", "demo"]
RUNS = 24


def test_a_smaller_demo_ends_right_and_leaves_no_process(tmp_path):
    folder = tmp_path / "kept"
    told = subprocess.run(
        [*COMMAND, "--approvals", "--seed", "5", "--invoices", str(RUNS), "--folder", str(folder)],
        capture_output=True, text=True, timeout=110, check=False,
    )  # fmt: skip
    assert told.returncode == 0, told.stdout + told.stderr
    assert f"all {RUNS} runs wait" in told.stdout
    assert told.stdout.count("SIGKILL") >= 4
    for kind in Kind:
        assert kind.partition("'")[0] in told.stdout
    assert "each with its audit row, the chain intact" in " ".join(told.stdout.split())
    assert not mentioning(folder)
    checked = subprocess.run(
        [*COMMAND[:-1], "check", "--db", f"sqlite:///{folder}/fencepost.db"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert checked.returncode == 0, checked.stdout + checked.stderr
    assert checked.stdout.startswith(f"0 contradictions in {RUNS} runs")


# -- the plan ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
def test_a_full_demo_has_at_least_twenty_of_each_mishap(seed):
    kinds = Counter(case.kind for case in draw(seed, FULL).cases)
    assert sum(kinds.values()) == FULL
    assert all(kinds[kind] >= 20 for kind in (Kind.EARLY, Kind.LATE, Kind.DOUBLE, Kind.APPROVER, Kind.PRINCIPAL))
    assert set(kinds) == set(Kind)


@pytest.mark.parametrize("runs", [approvals.RUNS_MIN, 37, approvals.RUNS_MAX])
def test_a_seed_draws_the_same_plan_and_another_seed_another(runs):
    assert draw(1, runs) == draw(1, runs)
    assert draw(1, runs) != draw(2, runs)
    assert len(draw(1, runs).cases) == runs
    assert {case.kind for case in draw(1, runs).cases} == set(Kind)


@pytest.mark.parametrize("runs", [0, approvals.RUNS_MIN - 1, approvals.RUNS_MAX + 1])
def test_too_few_or_too_many_runs_are_refused(tmp_path, runs):
    with pytest.raises(Misuse, match="runs"):
        approvals.run_approvals(seed=1, runs=runs, folder=tmp_path / "kept")


# -- the verdict ------------------------------------------------------------------------------------------------------

UNAPPROVED = ErrorRecord.of(ApprovalRefused, "right lost by approver: ann may not").as_text()


def right(kind):
    """A run of that kind as it must end."""
    case = Case("P-1", kind, 100, late_after_end=False)
    lost = kind in (Kind.APPROVER, Kind.PRINCIPAL)
    run = Run(1, "n", case.run, "w", 1, "{}", "f", RunState.FAILED if lost else RunState.SUCCEEDED, 1, 1, 0, 0)
    history = History(run, signals=[Signal("a", "approval", "{}", SignalState.APPLIED, 1)])
    told = []
    if kind is Kind.LATE:
        history.signals.append(Signal("b", "approval", "{}", SignalState.REFUSED, 2, reason="not waiting"))
        told = ["signal 'approval' is refused: not waiting"]
    elif lost:
        history.operations.append(
            Operation(1, "pay", None, "pay", 1, "k", 1, "{}", "f", OperationState.FAILED, 1, error=UNAPPROVED)
        )
    elif REFUSALS[kind]:
        told = ["what waits is not what was shown"]
    rows = [Audit(1, "ann", "approve", case.run, "refused", "why", "{}", "{}")] * REFUSALS[kind]
    return Found(case, history, rows, told, 1 + REFUSALS[kind], int(IS_PAID[kind]))


def judged(*found, kills=9, broken_at=None):
    return complaints(list(found), kills=kills, broken_at=broken_at)


@pytest.mark.parametrize("kind", Kind)
def test_whatever_is_wrong_with_a_run_is_said(kind):
    good = right(kind)
    assert judged(good) == []
    assert "was paid" in judged(replace(good, payments=good.payments + 1))[0]
    assert "was paid" in judged(replace(good, payments=1 - good.payments))[0]
    assert "audit rows" in judged(replace(good, audits=good.audits + good.audits + [None]))[0]
    assert "has refused" in judged(replace(good, told=[*good.told, "something else"], audits=[*good.audits, None]))[0]
    assert "applied" in judged(replace(good, history=replace(good.history, signals=good.history.signals[1:])))[0]
    held = replace(good.history, run=replace(good.history.run, state=RunState.HELD, hold="stuck"))
    assert "is held: stuck" in judged(replace(good, history=held))[0]


def test_a_refusal_without_its_audit_row_is_said():
    assert "0 audit rows of refusals for 1" in judged(replace(right(Kind.LATE), audits=[]))[0]


def test_too_few_kills_a_broken_chain_and_too_few_of_a_kind_are_said():
    assert judged(kills=1) == ["Only 1 workers were killed."]
    assert judged(broken_at=7) == ["The audit's chain is broken at row 7."]
    many = [right(Kind.IN_TIME)] * FULL
    assert [said for said in judged(*many) if "at least 20" in said] == judged(*many)
    assert len(judged(*many)) == 5


def test_the_table_counts_by_kind_and_names_the_reasons():
    table = lines([right(Kind.LATE), right(Kind.LATE), right(Kind.APPROVER)])
    assert (table[Kind.LATE].runs, table[Kind.LATE].refused, table[Kind.LATE].audited) == (2, 2, 2)
    assert table[Kind.LATE].reasons == {"not waiting": 2}
    assert table[Kind.APPROVER].reasons == {"right lost by approver": 1}
    assert table[Kind.DENIED].runs == 0
