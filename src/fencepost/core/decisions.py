"""Decisions that are made anew: which of a model's answers count now, what they have led to, and what is set aside.

A row of kind `redecide` stands in the order of deliveries like an answer. What was delivered from the decision on up to
that row counts no more, and stays as it is; what the code asks for after it has a path of its own, so that each version
stands beside the others. An effect has one place and one key in all of them.

Pure: the verb is `runtime.redeciding`, and going on under another path the driver's part.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from fencepost.core.position import version_path
from fencepost.core.records import History, Operation, Step
from fencepost.core.states import OperationState, RunState

KIND = "redecide"
"""Kind of the row that says that a decision is made anew, from which place on, by whom and why."""


class Versions:
    """What of a run's history counts, after each of its new decisions; without one, all of it does."""

    def __init__(self, steps: Iterable[Step]) -> None:
        found = sorted((step for step in steps if step.kind == KIND), key=_place)
        self.last = found[-1] if found else None
        """The row of the last new decision."""
        self._ranges = [range(json.loads(one.detail or "{}")["from"], _place(one)) for one in found]
        self._path = "" if self.last is None else version_path(self.last.position)

    def __bool__(self) -> bool:
        return self.last is not None

    def counts(self, place: int) -> bool:
        """Whether what was delivered in this place in the order is still what the workflow was told."""
        return not (self._ranges and any(place in one for one in self._ranges))

    def has_asked(self, step: Step) -> bool:
        """Whether the code, as it decides now, has asked at this position, which is no effect's."""
        if self.last is None or step.position.startswith(self._path):
            return True
        return bool(step.delivered) and self.counts(_place(step))

    def has_intended(self, operation: Operation) -> bool:
        """Whether the code, as it decides now, has asked for this effect: if not, it may, and gets what is recorded."""
        if self.last is None or (operation.delivered and self.counts(operation.delivered)):
            return True
        return operation.reserved_at > self.last.opened_at


def decisions(history: History) -> list[Step]:
    """The model's decisions that the workflow goes by, in the order in which it was told; refused ones too."""
    versions = Versions(history.steps)
    told = (one for one in history.steps if one.kind == "model" and one.delivered and versions.counts(one.delivered))
    return sorted(told, key=_place)


def stands_on(history: History, decision: Step) -> list[str]:
    """What came after the decision and stands: effects that happened and were not compensated, and child runs.

    An effect that another branch has begun before the workflow was told of the decision does not rest on it. Of one
    that an earlier version has led to this cannot be told by its time: it counts, unless it was told before.
    """
    last = Versions(history.steps).last
    since = 0 if last is None else last.opened_at

    def came_after(delivered: int | None, began_at: int) -> bool:
        told_before = bool(delivered) and (delivered or 0) < _place(decision)
        return not told_before and (began_at >= (decision.closed_at or 0) or began_at <= since)

    undone = compensated(history.operations)
    found = [
        one.position
        for one in history.operations
        if one.state is OperationState.SUCCEEDED and one.compensates is None and one.position not in undone
        and came_after(one.delivered, one.reserved_at)
    ]  # fmt: skip
    gone = {child.id for child in history.children if child.state is RunState.COMPENSATED}
    children = (step for step in history.steps if step.kind == "child")
    return found + [
        step.position
        for step in children
        if json.loads(step.detail or "{}").get("child") not in gone and came_after(step.delivered, step.opened_at)
    ]


def was_undone_below(history: History, decision: Step) -> list[str]:
    """What the workflow was told of before the decision and was compensated since: it would decide as if that stood."""
    undone = compensated(history.operations)
    return [
        one.position
        for one in history.operations
        if one.position in undone and one.delivered and one.delivered < _place(decision)
    ]


def compensated(operations: Iterable[Operation]) -> set[str]:
    """The positions of the effects of this turn that were compensated."""
    return {
        one.compensates for one in operations if one.compensates is not None and one.state is OperationState.SUCCEEDED
    }


def _place(step: Step) -> int:
    return step.delivered or 0
