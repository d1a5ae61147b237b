"""Replays a run's history against code, without acting on anything: does this code still tell the same story?

What a person asks before a run is migrated to another version of its workflow, and what a test asks of stored histories
of earlier releases. The same driver runs as in production; what the workflow asks for is compared and dropped. Moving a
run to the version that fits is `verbs`'s part.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from fencepost.core.asks import Ending, Held, Raised
from fencepost.core.errors import FencepostError, HistoryMismatch
from fencepost.core.records import History
from fencepost.core.states import ACTIVE_RUN_STATES, FINAL_OPERATION_STATES
from fencepost.effects.failures import error_record
from fencepost.runtime import guard
from fencepost.runtime.replay import completions, driver_of

if TYPE_CHECKING:
    from fencepost.core.driver import Driver
    from fencepost.runtime.workflow import Workflow


class Rehearsal(NamedTuple):
    """What a replay came to: the first `difference`, or None; how many answers it took, and what it waits for then."""

    difference: FencepostError | None
    delivered: int
    waits_for: tuple[str, ...]
    ending: Ending | None

    @property
    def fits(self) -> bool:
        """Whether the code tells the story that the history holds."""
        return self.difference is None


def rehearse(workflow: Workflow[..., Any], history: History) -> Rehearsal:
    """Replay a history against a workflow's code; nothing is performed, stored or waited for."""
    guard.install()
    done = completions(history)
    driver = driver_of(workflow, history, len(done))
    try:
        with guard.Driving(driver):
            driver.start()
            for completion in done:
                driver.deliver(completion)
        waits_for = tuple(ask.position for ask in driver.waiting())
        return Rehearsal(_difference(workflow, history, driver), driver.delivered, waits_for, driver.ending)
    finally:
        driver.close()


def _difference(workflow: Workflow[..., Any], history: History, driver: Driver) -> FencepostError | None:
    ending = driver.ending
    if isinstance(ending, Held):
        return ending.error
    forgotten = driver.history_mismatch()
    if forgotten is not None:
        return forgotten
    ids = {"run": history.run.id}
    if isinstance(ending, Raised) and history.run.state in ACTIVE_RUN_STATES and not driver.cancelled:
        return HistoryMismatch(
            f"the code raises where the run has not failed: {error_record(ending.error).said}",
            hint="make it accept the run's input and answers as they are stored",
            ids=ids,
        )
    known = {effect.name for effect in workflow.effects}
    for operation in history.operations:
        if operation.state not in FINAL_OPERATION_STATES and operation.effect not in known:
            return HistoryMismatch(
                f"{operation.position} is {operation.state}, and the code refers to no effect {operation.effect!r}",
                hint="keep the effect in the workflow's code until none of its operations is open",
                ids=ids | {"step": operation.position},
            )
    return None
