"""A wait for the end of another run: a row like any wait, whose signal the waiting run sends to itself.

    open, durable ──▶ look at the other run ──▶ it has ended: a signal, with how
                        ▲                  └──▶ not yet: a row; the other's end wakes this run (a trigger of the ledger)
                        └── in each life that waits

The other run is no child: it is started, cancelled and compensated by itself, and is not told of who waits. It is
looked at only once the wait is durable, and under its lock, so that an end is either seen or wakes. Waits for jobs are
`jobs`, children are `children`.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fencepost.core.asks import WaitAsk
from fencepost.core.errors import ErrorRecord, Misuse, RunNotFound
from fencepost.core.identity import canonical, check_run_id, digest_text
from fencepost.core.records import Run, Signal, Step
from fencepost.core.states import FINAL_RUN_STATES, RunState, SignalState
from fencepost.runtime.waiting import WaitSpec
from fencepost.store.api import Answer

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fencepost.core.asks import Ask
    from fencepost.runtime.execution import Execution

PREFIX = "ended "
"""How the names of such waits begin; the ledger's trigger knows them by it."""

UNKNOWN = ErrorRecord.of(RunNotFound, "")


@dataclass(frozen=True, slots=True)
class EndedRun:
    """How another run has ended.

    `state` is one of those in which a run has ended, `result` the JSON data of its result (None if it has none),
    `error` what it ended with, in words.
    """

    id: str
    state: RunState
    result: Any = None
    error: str | None = None


class EndSpec(WaitSpec[EndedRun]):
    """A wait for the end of the run with that id."""

    __slots__ = ("run",)

    def __init__(self, run: str, *, within: int | None) -> None:
        super().__init__(PREFIX + run, EndedRun, within=within, many=True, also="end of a run")
        self.run = run

    def detail(self, now: int) -> str:  # noqa: ARG002 - as of any wait
        """What its row says while it is open."""
        return canonical({"within": self.within, "allows": None, "many": True, "takes": None, "run": self.run})

    def failure_in(self, signal: Signal) -> ErrorRecord | None:
        """The error where there is no such run."""
        if json.loads(signal.payload) is None:
            return ErrorRecord.of(RunNotFound, f"no run has the id {self.run!r}")
        return None


def end_spec(own_id: str, run_id: str, within: int | None) -> EndSpec:
    """The wait for the end of that run. Raises `Misuse` for a malformed id, or the waiting run's own."""
    if check_run_id(run_id) == own_id:
        raise Misuse("a run does not wait for its own end", hint="pass the id of another run")
    return EndSpec(run_id, within=within)


def other_run(step: Step) -> str | None:
    """The id of the run for whose end a wait is; None for another wait."""
    found = json.loads(step.detail or "{}").get("run") if step.kind == "wait" else None
    return found if isinstance(found, str) else None


def look_at_all(execution: Execution, asks: Iterable[Ask]) -> None:
    """Open a lane for each of these that waits for another run's end."""
    for ask in asks:
        if isinstance(ask, WaitAsk) and isinstance(ask.spec, EndSpec) and not execution.is_over():
            execution.open_lane(look(execution, ask))


async def look(execution: Execution, ask: WaitAsk) -> None:
    """Look whether the other run has ended, once the wait for that is durable; then tell this run."""
    spec: EndSpec = ask.spec  # type: ignore[assignment]  # whoever calls this has looked
    if await execution.record([], []) is not Answer.MOVED or execution.is_withdrawn(ask.position):
        return
    host, run = execution.host, execution.history.run
    other = await asyncio.to_thread(host.store.find_settled, run.namespace, spec.run)
    if other is not None and other.state not in FINAL_RUN_STATES:
        return
    payload = "null" if other is None else _told(other)
    signal = Signal(
        id=f"{PREFIX}{0 if other is None else other.no} {ask.position}", name=ask.name, payload=payload,
        state=SignalState.KEPT, sent_at=host.now(), sender=f"run {spec.run}", fingerprint=digest_text(payload.encode()),
    )  # fmt: skip
    execution.hear(await asyncio.to_thread(host.store.signal, run.namespace, run.id, signal))


def _told(other: Run) -> str:
    error = None if other.error is None else ErrorRecord.from_text(other.error).said
    result = None if other.result is None else json.loads(other.result)
    return canonical({"error": error, "id": other.id, "result": result, "state": other.state.value})
