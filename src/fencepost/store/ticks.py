"""Ticks off one run of a job on many, in the transaction of the verb that is done to it: both, or neither.

Whoever pauses the job waits for that transaction, and the next one finds it paused. The job's other verbs are `bulks`.
"""

from __future__ import annotations

from fencepost.core.bulk import BulkOutcome, NotToBeDone, Tick
from fencepost.store.statements import Work


def tick(work: Work, ticks: Tick, now: int, *, refused: str | None = None) -> None:
    """Note that the run is done, or was `refused`; raises `NotToBeDone` unless it is this one's turn."""
    outcome = BulkOutcome.DONE if refused is None else BulkOutcome.REFUSED
    held = work.change("hold_bulk", bulk=ticks.bulk)
    if not held or not work.change("tick", **ticks._asdict(), outcome=outcome.value, says=refused, now=now):
        raise NotToBeDone(
            f"bulk job {ticks.bulk} is paused" if not held else f"somebody else has done this run of job {ticks.bulk}",
            hint="`fencepost bulks` lists the jobs; `fencepost bulks resume` goes on with one",
            ids={"bulk": str(ticks.bulk)},
        )
