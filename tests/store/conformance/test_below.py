"""While an operation is unknown in a child, the write that would let a new effect of its parent begin refuses it."""

import pytest

from fencepost.core.containment import MINDS_BELOW, toward_effect, toward_run
from fencepost.core.records import Run
from fencepost.store.api import Answer
from tests.store import build
from tests.store.conftest import Ledger

MINDS = toward_run("default", "approve", None, None) + toward_effect("default", "bank", "acct", None, minds_below=True)


def child_of(ledger: Ledger, parent: Run, name: str, *, attached: bool = True) -> Run:
    """A child that its parent waits for, or does not, owned by the same lease."""
    ledger.do(parent, build.start_child(parent, name, parent_step=f"/{name}" if attached else None))
    (child,) = [run for run in ledger.claim() if run.id == name]
    return child


def lose(ledger: Ledger, run: Run) -> None:
    ledger.do(run, build.new_operation(run, "lost"))
    ledger.do(run, build.move_operation(run, "lose", "dispatched", "unknown", "lost"))


def find(ledger: Ledger, run: Run) -> None:
    ledger.do(run, build.move_operation(run, "give up", "unknown", "failed", "lost"))


@pytest.mark.parametrize("depth", [1, 2])
def test_no_new_effect_begins_while_one_below_is_unknown(ledger: Ledger, depth: int) -> None:
    run = below = ledger.running("parent")
    ledger.do(run, build.new_operation(run, "reserved", state="reserved"))
    for level in range(depth):
        below = child_of(ledger, below, f"child-{level}")
    new = build.new_operation(run, "new", toward=MINDS)
    first = build.dispatch_again(run, "reserved", 1, "reserved", toward=MINDS)
    lose(ledger, below)

    for move in (new, first):
        assert ledger.answer(run, move) is Answer.ILLEGAL
    neighbour = ledger.running("neighbour")
    groups = [build.group(run, new), build.group(neighbour, build.new_operation(neighbour, toward=MINDS))]
    assert ledger.store.commit(groups, patience=1.0) == [Answer.ILLEGAL, Answer.MOVED]
    assert [one.step for one in ledger.load(run).operations if one.attempts] == []
    ledger.do(run, build.new_operation(run, "independent", toward=MINDS.removesuffix(MINDS_BELOW)))
    ledger.do(run, build.new_operation(run, "not yet", state="reserved"))

    find(ledger, below)
    ledger.do(run, new, first)


def test_what_is_unknown_itself_goes_out_again_whatever_is_below(ledger: Ledger) -> None:
    run = ledger.running("parent")
    child = child_of(ledger, run, "child")
    for one in (run, child):
        lose(ledger, one)

    again = build.dispatch_again(run, "unknown", 2, "lost", toward=MINDS)
    ledger.do(run, again, build.new_attempt(run, "lost"))


def test_a_detached_child_and_its_parent_are_nothing_to_each_other(ledger: Ledger) -> None:
    run = ledger.running("parent")
    detached, attached = child_of(ledger, run, "detached", attached=False), child_of(ledger, run, "attached")
    lose(ledger, detached)
    ledger.do(run, build.new_operation(run, toward=MINDS))
    lose(ledger, run)
    ledger.do(attached, build.new_operation(attached, toward=MINDS))


def test_a_child_that_loses_its_effect_in_the_same_commit_is_seen(ledger: Ledger) -> None:
    run = ledger.running("parent")
    child = child_of(ledger, run, "child")
    ledger.do(child, build.new_operation(child, "lost"))

    lost = build.group(child, build.move_operation(child, "lose", "dispatched", "unknown", "lost"))
    answers = ledger.store.commit([lost, build.group(run, build.new_operation(run, toward=MINDS))], patience=1.0)

    assert answers == [Answer.MOVED, Answer.ILLEGAL]
