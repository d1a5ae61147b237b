"""Each way in which the demo can fail to show what it claims is named; only the right picture passes."""

from dataclasses import replace

import pytest

from fencepost.demo.plan import Minimum
from fencepost.demo.tally import Injected, Row
from fencepost.demo.verdict import complaints

RIGHT = Row(invoices=20, tickets=20, mails=20, payments=20, entries=20, duplicates=0, lost=0, settled=3)
WRONG = Row(invoices=20, tickets=25, mails=22, payments=21, entries=20, duplicates=8, lost=0)
ENOUGH = Injected(kills=4, pauses=2, dropped_replies=12, takeovers=9)
MINIMUM = Minimum(kills=4, pauses=2, dropped_replies=10, takeovers=4)


def judged(*, naive=WRONG, fencepost=RIGHT, struck_naive=ENOUGH, struck=ENOUGH):
    return complaints(naive, fencepost, struck_naive, struck, MINIMUM)


def test_one_of_each_beside_a_naive_side_with_duplicates_is_right():
    assert judged() == []


def test_a_naive_side_that_lost_something_is_wrong_enough():
    assert judged(naive=replace(RIGHT, entries=19, lost=1)) == []


@pytest.mark.parametrize("column", ["tickets", "mails", "payments", "entries"])
@pytest.mark.parametrize("made", [19, 21])
def test_any_number_but_one_for_each_invoice_is_named(column, made):
    assert judged(fencepost=replace(RIGHT, **{column: made})) == [f"Fencepost made {made} {column} for 20 invoices."]


def test_a_duplicate_that_hides_a_loss_in_the_total_is_named():
    assert judged(fencepost=replace(RIGHT, duplicates=1, lost=1)) == [
        "Fencepost made 1 duplicates.",
        "Fencepost lost 1 effects.",
    ]


def test_a_naive_side_without_fault_makes_the_comparison_worthless():
    (said,) = judged(naive=replace(RIGHT, settled=0))
    assert "shows nothing" in said


@pytest.mark.parametrize("kind", ["kills", "pauses", "dropped_replies", "takeovers"])
def test_too_little_injected_into_fenceposts_side_is_named(kind):
    (said,) = judged(struck=replace(ENOUGH, **{kind: 1}))
    assert kind.replace("_", " ") in said
    assert "Fencepost" in said


@pytest.mark.parametrize("kind", ["kills", "pauses", "dropped_replies"])
def test_too_little_injected_into_the_naive_side_is_named(kind):
    (said,) = judged(struck_naive=replace(ENOUGH, **{kind: 1}))
    assert "naive" in said


def test_takeovers_are_asked_of_fenceposts_side_only():
    assert judged(struck_naive=replace(ENOUGH, takeovers=0)) == []
