"""The plan: the same for the same seed, with every kind of paper, fault and blow in it."""

import re
from collections import Counter

import pytest

from fencepost.demo import example
from fencepost.demo.plan import DROPPED, HANDWRITTEN, MALFORMED, draw

SAMPLES = example.folder() / "invoices"


@pytest.mark.parametrize("invoices", [4, 5, 20, 50])
@pytest.mark.parametrize("seed", [1, 7])
def test_a_plan_holds_one_malformed_paper_a_handwritten_one_and_distinct_numbers(seed, invoices):
    plan = draw(seed, invoices, SAMPLES)
    files = Counter(paper.file for paper in plan.papers)
    assert len(plan.papers) == invoices == len({paper.number for paper in plan.papers})
    assert files[MALFORMED] == 1
    assert files[HANDWRITTEN] >= 1
    assert all(paper.number in paper.text for paper in plan.papers)


@pytest.mark.parametrize("invoices", [4, 20, 50])
def test_more_is_planned_than_the_stated_minimum_asks_for(invoices):
    plan = draw(3, invoices, SAMPLES)
    blows = Counter(blow.how for blow in plan.blows)
    dropped = sum(fault.name == DROPPED for change in plan.settings for fault in change.faults or ())
    assert (blows["kill"], blows["pause"]) == (plan.minimum.kills, plan.minimum.pauses)
    assert dropped >= plan.minimum.dropped_replies > 0
    assert 0 < plan.minimum.takeovers < len(plan.blows)


def test_the_same_seed_plans_the_same_and_another_does_not():
    assert draw(7, 20, SAMPLES) == draw(7, 20, SAMPLES)
    assert draw(7, 20, SAMPLES) != draw(8, 20, SAMPLES)


def test_every_sample_but_the_malformed_one_can_be_read_and_the_languages_differ():
    invoice = example.load()
    read = {}
    for path in SAMPLES.glob("*.txt"):
        document = invoice.Document(name=path.name, text=path.read_text(encoding="utf-8"))
        read[path.name] = invoice.read_invoice.body(None, document)
    assert {name for name, found in read.items() if found is None} == {MALFORMED}
    assert read["german.txt"].total == 245_850
    assert read["polish.txt"].total == 348_000
    assert (read["japanese.txt"].total, read["japanese.txt"].currency) == (1_325_000, "JPY")
    assert len(read) >= 7


def test_the_model_answers_badly_at_first_about_the_handwritten_paper_only():
    invoice = example.load()
    for path in SAMPLES.glob("*.txt"):
        question = invoice.Question("classify", "", path.read_text(encoding="utf-8"), {}, attempt=1)
        is_form = re.fullmatch(r'\{"account":"\w+"\}', invoice.RULES.answer(question)) is not None
        assert is_form == (path.name != HANDWRITTEN)
