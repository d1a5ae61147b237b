"""Which steps' failures ended a run: what a resume takes back, so that exactly those are asked for again.

The positions are kept beside the error's record in the run's row. Taking the answers back is `verbs`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from fencepost.core.errors import ApprovalRefused, StepFailed, WaitExpired
from fencepost.effects.failures import error_record


def failure_text(error: BaseException) -> str:
    """The error's record as JSON for the ledger, with the positions of the steps whose failures it consists of.

    A step's failure that the workflow let through is recorded as what it was, not as the exception that carried it.
    """
    record = json.loads((error.record if isinstance(error, StepFailed) else error_record(error)).as_text())
    steps = list(dict.fromkeys(_positions(error)))
    return json.dumps({**record, "steps": steps} if steps else record)


def blamed(text: str | None) -> set[str]:
    """The positions in a stored failure."""
    return set(json.loads(text).get("steps", ())) if text else set()


def _positions(error: BaseException | None) -> Iterator[str]:
    """Also of a gather's other branches, and of what an error of the user's own was raised from."""
    while error is not None:
        for one in (error, *getattr(error, "others", ())):
            if isinstance(one, StepFailed | WaitExpired | ApprovalRefused) and "step" in one.ids:
                yield one.ids["step"]
        error = error.__cause__
