"""Queues: how many of a kind of runs may be in work at a time, how fast they begin, and which of those due comes first.

A slot is a run that a worker owns: one that waits for a person, a time or a target holds none, and that of a worker
that died goes with the run to whoever takes it over. So nothing is counted that could be forgotten. Pure: what the
ledger holds of a queue is handed in; claiming is `store.verbs`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import NamedTuple

from fencepost.core.duration import microseconds, spelled
from fencepost.core.errors import DeclarationError
from fencepost.core.identity import check_name
from fencepost.core.states import RunState

_STOPPING = RunState.CANCELLING.value
"""What a person has stopped waits for no slot and no pause; while it is in work it takes one."""

_GOING_BACK = RunState.COMPENSATING.value
"""What goes back waits for no pause, and comes first for a slot; but it takes one, since it sends like any other."""


@dataclass(frozen=True, slots=True, init=False)
class Rate:
    """At most `times` runs begin `within` any such time. Raises `DeclarationError` for what is no rate."""

    times: int
    within: int

    def __init__(self, times: int, within: str | timedelta) -> None:
        object.__setattr__(self, "times", times)  # a frozen dataclass keeps even its own constructor from assigning
        object.__setattr__(self, "within", microseconds(within, what="Rate within"))
        if times < 1 or self.within < 1:
            raise DeclarationError("a rate of no runs, or in no time", hint='write Rate(100, "1m")')


@dataclass(frozen=True, slots=True, init=False)
class Queue:
    """The limits under which runs of one queue are claimed, by all workers together; None: no such limit.

    `concurrency` runs are in work at a time, `per_key` of those that were started with the same `queue_key=`, and at
    most `rate` begin. One that waits for a signal, a time or a target is not in work.

    Raises:
        DeclarationError: the name is no name, or a limit is none.
    """

    name: str
    concurrency: int | None
    per_key: int | None
    rate: Rate | None

    def __init__(
        self, name: str, *, concurrency: int | None = None, per_key: int | None = None, rate: Rate | None = None
    ) -> None:
        assign = object.__setattr__
        assign(self, "name", check_name(name, what="queue"))
        assign(self, "concurrency", concurrency)
        assign(self, "per_key", per_key)
        assign(self, "rate", rate)
        for limit in (concurrency, per_key):
            if limit is not None and (type(limit) is not int or limit < 1):
                raise DeclarationError(
                    f"queue {name!r} allows {limit!r} runs at a time", hint="pass a number from 1 on, or pause it"
                )


class QueueStanding(NamedTuple):
    """What the ledger holds of a queue: its limits, whether it is paused, how many slots are taken, how many began."""

    name: str
    concurrency: int | None
    per_key: int | None
    rate: int | None
    rate_within: int | None
    paused_at: int | None
    paused_by: str | None
    paused_because: str | None
    version: int
    owned: int
    begun: int
    first_begun_at: int | None
    goes_back: int = 0
    """1 if a run of it that is compensated waits for a worker."""

    @property
    def slots(self) -> int | None:
        """How many more may be in work; None: as many as there are."""
        return None if self.concurrency is None else max(0, self.concurrency - self.owned)

    @property
    def begins(self) -> bool:
        """Whether any of its runs may be claimed now, other than those that a pause or its slots do not keep."""
        return self.paused_at is None and self.slots != 0

    @property
    def fresh(self) -> int | None:
        """How many more may begin within the rate's present time; None: as many as there are."""
        return None if self.rate is None else max(0, self.rate - self.begun)

    @property
    def opens_at(self) -> int | None:
        """When the next one may begin, if the rate is spent."""
        if self.fresh != 0 or self.first_begun_at is None or self.rate_within is None:
            return None
        return self.first_begun_at + self.rate_within

    def why_not(self, state: RunState) -> str | None:
        """Why a run of it that is due is not claimed, for people; None: it is the next worker's, or its key's turn."""
        if state.value == _STOPPING:
            return None
        if self.paused_at is not None and state.value != _GOING_BACK:
            return f"queue {self.name} is paused by {self.paused_by} because {self.paused_because}"
        if self.slots == 0:
            return f"a slot of queue {self.name}: {self.owned} of {self.concurrency} are taken"
        if state is RunState.READY and self.fresh == 0:
            return f"queue {self.name}: {self.begun} have begun within {spelled(self.rate_within or 0)}, its rate"
        return None


class Candidate(NamedTuple):
    """A run that is due in a queue, in the order in which they come; `held` others of its key are in work."""

    run: int
    generation: int
    state: str
    takeovers: int
    answers: int
    key: str | None
    is_fresh: bool
    held: int


def chosen(standing: QueueStanding, candidates: Iterable[Candidate]) -> list[Candidate]:
    """Those that may be claimed now, together; the others stay."""
    slots, fresh, found = standing.slots, standing.fresh, []
    of_key: Counter[str] = Counter()
    for one in candidates:
        if one.state != _STOPPING:
            is_kept_back = standing.paused_at is not None or (one.is_fresh and fresh == 0)
            if slots == 0 or (is_kept_back and one.state != _GOING_BACK):
                continue
            limit = standing.per_key
            if limit is not None and one.key is not None and one.held + of_key[one.key] >= limit:
                continue
        if one.key is not None:
            of_key[one.key] += 1
        if slots:
            slots -= 1
        if fresh and one.is_fresh:
            fresh -= 1
        found.append(one)
    return found
