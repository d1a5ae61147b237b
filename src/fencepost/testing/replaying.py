"""Replays workflows in tests: after each answer of a live run, and from histories that an earlier version has stored.

A workflow that reads a clock, counts in a global or iterates over a set works until the first crash. `always_replay`
makes every step a crash: the run leaves memory and comes back from its history. `dump_history` and `replay` keep what
today's code has recorded, for tomorrow's code to be held against. The driver is the one of production; comparing is
`runtime.rehearsal`'s part.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from fencepost.core.asks import Cancelled_, Raised, Returned
from fencepost.core.errors import HistoryMismatch, Misuse
from fencepost.core.records import Attempt, History, Observation, Operation, Run, Signal, Step
from fencepost.core.states import OperationState, Outcome, RunState, SignalState, StepState
from fencepost.runtime.rehearsal import Rehearsal, rehearse

if TYPE_CHECKING:
    from fencepost.runtime.app import App
    from fencepost.runtime.workflow import Workflow

FORMAT = 1
"""How a dumped history is laid out; raised when an older reader could not read it."""


def always_replay(app: App) -> App:
    """Have an app's runs leave memory after each answer, and come back from their histories; returns the app.

    Slow, and only for tests: what a workflow does in one life and not in its replay is a named hold at once. Call it
    before the app is used.
    """
    app.lives_are_brief = True
    return app


def dump_history(history: History) -> str:
    """A run's history as JSON text, as `await app.show(run_id)` has it; `load_history` reads it back."""
    return (
        json.dumps({"format": FORMAT, "history": asdict(history)}, indent=1, sort_keys=True, ensure_ascii=False) + "\n"
    )


def load_history(text: str) -> History:
    """The history in a dumped text, of this or an earlier version. Raises `Misuse` for one of a later version."""
    document = json.loads(text)
    if document["format"] > FORMAT:
        raise Misuse(f"a history of format {document['format']}; this version reads up to {FORMAT}", hint="upgrade")
    stored = document["history"]
    return History(
        run=_run(stored["run"]),
        steps=[Step(**one | {"state": StepState(one["state"])}) for one in stored["steps"]],
        operations=[_operation(one) for one in stored["operations"]],
        signals=[Signal(**one | {"state": SignalState(one["state"])}) for one in stored["signals"]],
        children=[_run(one) for one in stored.get("children", ())],
    )


def replay(workflow: Workflow[..., Any], history: History | str) -> Rehearsal:
    """Replay a history, or its dumped text, against a workflow's code; nothing is performed.

    Raises the first difference: a `HistoryMismatch`, or what else would hold such a run; also when the code ends
    otherwise than the run did.
    """
    history = load_history(history) if isinstance(history, str) else history
    came = rehearse(workflow, history)
    if came.difference is not None:
        raise came.difference
    wanted = _ENDINGS.get(history.run.state)
    ended = type(came.ending).__name__ if came.ending is not None else "waits"
    if wanted is not None and not isinstance(came.ending, wanted):
        raise _other_end(history, f"the code now ends as {ended}")
    if isinstance(came.ending, Returned) and history.run.result is not None:
        result = workflow.results.encode(came.ending.value)
        if result != history.run.result:
            raise _other_end(history, f"the code now returns {result} in place of {history.run.result}")
    return came


_ENDINGS: dict[RunState, tuple[type, ...]] = {
    RunState.SUCCEEDED: (Returned,),
    RunState.CONTINUED: (Returned,),
    RunState.FAILED: (Raised,),
    RunState.CANCELLED: (Cancelled_, Returned, Raised),
}


def _other_end(history: History, said: str) -> HistoryMismatch:
    run = history.run
    return HistoryMismatch(
        f"the run is {run.state}, and {said}",
        hint="a workflow may depend on nothing but its history",
        ids={"run": run.id},
    )


def _run(stored: dict[str, Any]) -> Run:
    return Run(**stored | {"state": RunState(stored["state"])})


def _operation(stored: dict[str, Any]) -> Operation:
    attempts = [Attempt(**one | {"outcome": Outcome(one["outcome"])}) for one in stored["attempts"]]
    observations = [Observation(**one) for one in stored["observations"]]
    state = OperationState(stored["state"])
    after = tuple((step, item) for step, item in stored.get("after", ()))
    read = {"state": state, "attempts": attempts, "observations": observations, "after": after}
    return Operation(**stored | read)
