"""A small local classifier made of ordered keyword rules, for where no model is configured; it says that it is none.

It is deterministic and asks nobody, so a demo or a test needs no network. Its answers pass the same door as a model's:
`model` checks their form.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic_core import to_json

from fencepost.core.errors import DeclarationError, Permanent
from fencepost.effects.question import Question

PROVENANCE = "local rules, no model"
"""What is stored as the origin of each answer."""

_NO_ANSWER = object()


@dataclass(frozen=True, slots=True)
class Rule:
    """Where `pattern` is found in the text, the answer is `answer`.

    `pattern` is a regular expression, searched without regard to case or to how accents are encoded, so one rule can
    hold the words of several languages: `Rule("invoice|factura|rechnung|請求書", Kind.INVOICE)`. `answer` is a value of
    the step's output type, or JSON data for one; for a step whose output is `str` it is the text. `step` restricts the
    rule to the model step of that name.
    """

    pattern: str
    answer: Any
    step: str | None = None


class RuleBased:
    """Answers with the first rule that matches, else with `otherwise`; without one it refuses for good.

    Raises:
        DeclarationError: for a pattern that is no regular expression, or an answer that is no JSON.
    """

    def __init__(self, rules: Sequence[Rule], *, otherwise: Any = _NO_ANSWER) -> None:
        every = [*rules] if otherwise is _NO_ANSWER else [*rules, Rule("", otherwise)]
        self._rules = [(rule.step, _compiled(rule.pattern), _as_text(rule.answer)) for rule in every]

    @property
    def provenance(self) -> str:
        """Says that no model was asked."""
        return PROVENANCE

    def answer(self, question: Question) -> str:
        """The answer of the first rule that matches; raises `Permanent` if none does."""
        text = _folded(question.text)
        for step, pattern, (as_json, as_text) in self._rules:
            if step in (None, question.step) and pattern.search(text):
                return as_text if question.schema is None and as_text is not None else as_json
        raise Permanent(
            f"no local rule matches what {question.step} was asked",
            hint="add a rule or otherwise=, or configure a model endpoint",
            ids={"step": question.step},
        )


def _folded(text: str) -> str:
    return unicodedata.normalize("NFC", text)


def _compiled(pattern: str) -> re.Pattern[str]:
    try:
        return re.compile(_folded(pattern), re.IGNORECASE)
    except re.error as error:
        raise DeclarationError(
            f"the rule's pattern {pattern!r} is no regular expression: {error}", hint="escape what is meant literally"
        ) from error


def _as_text(answer: Any) -> tuple[str, str | None]:
    try:
        return to_json(answer).decode(), answer if isinstance(answer, str) else None
    except ValueError as error:
        raise DeclarationError(f"the rule's answer {answer!r} cannot be written as JSON", hint=str(error)) from error
