"""Which steps' failures ended a run: what a resume takes back, so that exactly those are asked for again.

The positions are kept beside the error's record in the run's row, and with them which effects declare another way, so
that a screen can offer it without their code. Taking the answers back is `verbs`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from fencepost.core.errors import ApprovalRefused, StepFailed, WaitExpired
from fencepost.core.records import Operation, Run
from fencepost.effects.failures import error_record


def failure_text(error: BaseException, *, otherwise: Iterable[str] = ()) -> str:
    """The error's record as JSON for the ledger, with the positions of the steps whose failures it consists of.

    `otherwise` are the positions of failed effects that declare another way.

    A step's failure that the workflow let through is recorded as what it was, not as the exception that carried it.
    """
    record = json.loads((error.record if isinstance(error, StepFailed) else error_record(error)).as_text())
    steps = list(dict.fromkeys(_positions(error)))
    told = {name: found for name, found in (("steps", steps), ("otherwise", list(otherwise))) if found}
    return json.dumps({**record, **told})


def blamed(text: str | None) -> set[str]:
    """The positions in a stored failure."""
    return set(json.loads(text).get("steps", ())) if text else set()


def done_otherwise(text: str | None) -> set[str]:
    """The positions of the failed effects, in a stored failure, that declare another way."""
    return set(json.loads(text).get("otherwise", ())) if text else set()


def is_blamed(operation: Operation, run: Run) -> bool:
    """Whether the operation's failure ended the run, as far as its row tells."""
    return operation.position in blamed(run.error) or operation.delivered == run.delivered


def _positions(error: BaseException | None) -> Iterator[str]:
    """Also of a gather's other branches, and of what an error of the user's own was raised from."""
    while error is not None:
        for one in (error, *getattr(error, "others", ())):
            if isinstance(one, StepFailed | WaitExpired | ApprovalRefused) and "step" in one.ids:
                yield one.ids["step"]
        error = error.__cause__
