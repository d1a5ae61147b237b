"""One verb that a person does to many runs, as a job of its own: its states, its rows, and what it is called by.

Pure. A job lists its runs with the versions that the person saw, and each is done once, in the commit of its verb.
Choosing runs is `runtime.bulk`; beginning a job, pausing it and going on with it, `runtime.bulking`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from fencepost.core.errors import NotOwner
from fencepost.core.identity import canonical, digest_text
from fencepost.core.records import Run
from fencepost.core.transitions import Table


class BulkState(StrEnum):
    """Whether whoever works on a job may go on with it. One whose process was killed is running until it is done."""

    RUNNING = "running"
    PAUSED = "paused"
    DONE = "done"


class BulkEvent(StrEnum):
    """What can happen to a job."""

    PAUSE = "pause"
    RESUME = "resume"
    FINISH = "finish"


class BulkOutcome(StrEnum):
    """What became of one run of a job."""

    DONE = "done"
    REFUSED = "refused"


_B, _BE = BulkState, BulkEvent

BULK = Table(
    "bulk",
    BulkState,
    BulkEvent,
    {
        None: {},
        _B.RUNNING: {_BE.PAUSE: _B.PAUSED, _BE.RESUME: _B.RUNNING, _BE.FINISH: _B.DONE},
        _B.PAUSED: {_BE.PAUSE: _B.PAUSED, _BE.RESUME: _B.RUNNING},
        _B.DONE: {_BE.FINISH: _B.DONE},
    },
)


@dataclass(frozen=True, slots=True)
class Bulk:
    """A job: `verb` with `arguments` (canonical JSON), asked for by `actor`; `no` is 0 until it is stored.

    Of its `runs` so many are `done` and `refused`. Instants are microseconds of the store's clock.
    """

    no: int
    namespace: str
    verb: str
    arguments: str
    digest: str
    actor: str
    reason: str
    started_at: int
    state: BulkState = BulkState.RUNNING
    closed_at: int | None = None
    runs: int = 0
    done: int = 0
    refused: int = 0

    @property
    def left(self) -> int:
        """How many runs nothing was done to yet."""
        return self.runs - self.done - self.refused


class BulkRun(NamedTuple):
    """One run of a job: the version under which it was seen, its state then, and what became of it."""

    place: int
    seen: int
    was: str
    outcome: BulkOutcome | None
    says: str | None
    run: Run


class Tick(NamedTuple):
    """Which run of which job is done, in the commit of its verb."""

    bulk: int
    run: int


class NotToBeDone(NotOwner):
    """The job was paused, or somebody else has done this run of it; nothing was changed."""


def digest(verb: str, arguments: str, runs: Iterable[Run]) -> str:
    """What tells a job from another one: the same verb on the same runs, as they were seen, is the same click."""
    return digest_text(canonical([verb, arguments, [[run.no, run.version] for run in runs]]).encode())
