"""What a step that changes nothing outside has used up of its budgets: the JSON that is kept in its row as `detail`.

Written with every failed attempt, so that a crash or another worker goes on counting where the last one stopped. When
a budget is spent, and what happens then, is decided in `deliberate`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from fencepost.core.identity import canonical

BAD_OUTPUTS_MAX = 5
BAD_OUTPUT_CHARACTERS_MAX = 2_000
_CUT = "[…]"


@dataclass(slots=True)
class Tally:
    """The counts of one step.

    Attributes:
        attempts: How often its body was run to an end, over all budgets.
        failures: Attempts since `budget_from` that failed for a reason of the outside.
        format_failures: Answers since `budget_from` in the wrong form.
        bad_outputs: The last of their texts, each cut to 2,000 characters, where they may be kept.
        endpoint: Who answered last: model and address, or "local rules, no model".
        policy: The verdict on the accepted answer.
        spent: Which budget is spent; the step is not tried again before a person gives a new one.
        budget_from: When the budget in force began, in microseconds of the store's clock.
        others: Whatever else is kept in the same place, such as what a person's verb left there.
    """

    attempts: int = 0
    failures: int = 0
    format_failures: int = 0
    bad_outputs: list[str] = field(default_factory=list)
    endpoint: str | None = None
    policy: dict[str, Any] | None = None
    spent: str | None = None
    budget_from: int = 0
    others: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_text(cls, text: str | None, *, began_at: int) -> Tally:
        """The tally in a stored `detail`; a budget that was not counted on yet begins at `began_at`."""
        stored = json.loads(text) if text else {}
        known = {name: stored.pop(name) for name in _COUNTED if name in stored}
        return cls(**{"budget_from": began_at, **known}, others=stored)

    def as_text(self) -> str | None:
        """Canonical JSON without what is empty; the counts only if something failed, None if nothing is to be said."""
        failed = self.failures or self.format_failures or self.others
        said = _COUNTED if failed else _SAID_OF_EACH
        found = {**self.others, **{name: value for name in said if (value := getattr(self, name))}}
        return canonical(found, where="detail") if found else None

    def count_malformed(self, text: str | None) -> None:
        """Count an answer in the wrong form, and keep its text if there is one."""
        self.format_failures += 1
        if text is None:
            return
        if len(text) > BAD_OUTPUT_CHARACTERS_MAX:
            text = text[: BAD_OUTPUT_CHARACTERS_MAX - len(_CUT)] + _CUT
        storable = text.encode("utf-8", "replace").decode()  # lone surrogates have no place in the ledger
        self.bad_outputs = [*self.bad_outputs, storable][-BAD_OUTPUTS_MAX:]

    def renewed(self, now: int) -> Tally:
        """A new budget from `now` on; what was counted so far is kept beside it."""
        before = {"failures": self.failures, "format_failures": self.format_failures, "spent": self.spent}
        return Tally(
            attempts=self.attempts,
            bad_outputs=self.bad_outputs,
            endpoint=self.endpoint,
            budget_from=now,
            others={**self.others, "before": [*self.others.get("before", []), before]},
        )


_SAID_OF_EACH = ("endpoint", "policy")
_COUNTED = (
    "attempts",
    "failures",
    "format_failures",
    "bad_outputs",
    "spent",
    "budget_from",
    *_SAID_OF_EACH,
)
