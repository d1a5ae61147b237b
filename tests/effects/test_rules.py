"""Local rules answer with the first match, in any language, and never pretend to be a model."""

from enum import StrEnum

import pytest
from pydantic import BaseModel

from fencepost.core.errors import DeclarationError, Permanent
from fencepost.effects.question import Question
from fencepost.effects.rules import Rule, RuleBased


class Kind(StrEnum):
    INVOICE = "invoice"
    OTHER = "other"


class Classification(BaseModel):
    kind: Kind


RULES = RuleBased(
    [
        Rule("credit note|gutschrift|avoir|貸方票", Classification(kind=Kind.OTHER)),
        Rule("invoice|rechnung|factura|facture|счёт|請求書", Classification(kind=Kind.INVOICE)),
    ],
    otherwise={"kind": "other"},
)


def asked(text: str, *, step: str = "classify", rules: RuleBased = RULES, schema: dict | None = None) -> str:
    return rules.answer(Question(step, "What is it?", text, {} if schema is None else schema))


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("INVOICE 17", "invoice"),
        ("Rechnung Nr. 4", "invoice"),
        ("FACTURA", "invoice"),
        ("Счёт на оплату", "invoice"),
        ("Сче\u0308т на оплату", "invoice"),  # the same word with a combining mark
        ("請求書在中", "invoice"),
        ("Gutschrift zur Rechnung 4", "other"),  # the first rule wins
        ("Dear all", "other"),
    ],
)
def test_the_first_rule_that_matches_answers(text, kind):
    assert asked(text) == f'{{"kind":"{kind}"}}'


def test_it_says_that_it_is_no_model():
    assert RULES.provenance == "local rules, no model"


def test_a_rule_may_be_for_one_step_only():
    rules = RuleBased([Rule("", "urgent", step="triage"), Rule("", 3)])
    assert asked("x", step="triage", rules=rules) == '"urgent"'
    assert asked("x", step="count", rules=rules) == "3"


def test_where_any_text_will_do_the_answer_is_the_text():
    assert RuleBased([Rule("x", "so it is")]).answer(Question("say", "", "x")) == "so it is"


def test_without_a_matching_rule_it_refuses_for_good():
    with pytest.raises(Permanent, match="no local rule matches what classify was asked"):
        asked("Dear all", rules=RuleBased([Rule("invoice", 1)]))


def test_none_can_be_an_answer():
    assert asked("x", rules=RuleBased([], otherwise=None)) == "null"


def test_what_cannot_be_a_rule_is_refused_at_once():
    with pytest.raises(DeclarationError, match="no regular expression"):
        RuleBased([Rule("(", 1)])
    with pytest.raises(DeclarationError, match="cannot be written as JSON"):
        RuleBased([Rule("x", object())])
