"""What a model is asked, who may be asked, and the error for an answer that does not have the declared form.

Only words: a `Question` is answered by an `endpoint` over HTTP or by local `rules`, and `model` asks it and reads the
answer.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Protocol

from fencepost.core.errors import Malformed


@dataclass(frozen=True, slots=True)
class Question:
    """One question of one model step.

    `prompt` says what to do, `text` is what to do it with. `schema` is the JSON schema of the answer, or None if any
    text will do. `attempt` counts the step's attempts, from 1.
    """

    step: str
    prompt: str
    text: str
    schema: dict[str, Any] | None = None
    attempt: int = 1

    @property
    def instructions(self) -> str:
        """The prompt, and the form in which the answer is expected."""
        if self.schema is None:
            return self.prompt
        form = json.dumps(self.schema, ensure_ascii=False)
        return f"{self.prompt}\n\nAnswer with one JSON value of this schema, and with nothing else:\n{form}"


class Answerer(Protocol):
    """Something in this process that answers questions at once, such as `RuleBased` or a test's own stand-in."""

    @property
    def provenance(self) -> str:
        """Who answers, as it is stored with the answer and shown to operators."""

    def answer(self, question: Question) -> str:
        """The answer as text, in the form that `question.schema` asks for.

        Raises a `StepError`: `Permanent` if asking again cannot help, `Transient` if it may.
        """


class MalformedAnswer(Malformed):
    """A model's answer, `text`, is not of the declared form; the message says where and why."""

    def __init__(self, message: str, *, text: str, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.text = text
