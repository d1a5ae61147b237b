"""Proves, while the benchmark runs, that each body began only after its intent was durable.

The key of every intent whose commit has returned is a permission; a body uses its permission up, so that a body that
runs early, or twice for one dispatch, is counted as a violation. That is one set lookup a step, a fraction of a
microsecond. One body in `SAMPLE` also reads its own row through a connection that shares nothing with the store:
SQLite in WAL mode and PostgreSQL show a commit to others only after its sync. That the sync is a real one are settings
that `subject` reads back.
"""

from collections.abc import Sequence
from typing import NamedTuple

from bench.place import Eye, Place
from fencepost.store.api import Answer, Group, NewRun
from fencepost.store.groups import Outcome
from fencepost.store.moves import NewOperation

SAMPLE = 256


class Testimony(NamedTuple):
    """What a witness has seen."""

    acknowledged: int
    """Intents whose commit has returned."""
    bodies: int
    """Bodies that have begun."""
    read_back: int
    """Bodies that also found their row, dispatched, through a connection of their own."""
    violations: int
    """Bodies without permission, and rows that were not there."""


class Witness:
    """Counts permissions and bodies. The bodies run on one thread; commits may return on another."""

    def __init__(self) -> None:
        self._permitted: set[str] = set()
        self._acknowledged = 0
        self._bodies = 0
        self._read_back = 0
        self._violations = 0
        self._other: Eye | None = None

    def watch(self, ledger: Place) -> None:
        """Read samples back from this ledger."""
        self._other = ledger.eye()

    def committed(self, groups: Sequence[Group | NewRun], outcomes: Sequence[Outcome]) -> None:
        """Take the permissions of a commit that has returned; what `aftercommit` is given to tell."""
        for group, outcome in zip(groups, outcomes, strict=True):
            if outcome is not Answer.MOVED:
                continue
            for move in group.moves if isinstance(group, Group) else ():
                if type(move) is NewOperation and move.state == "dispatched":
                    self._permitted.add(move.key)
                    self._acknowledged += 1

    def body_begins(self, key: str) -> None:
        """Use the permission of this operation up."""
        self._bodies += 1
        if key not in self._permitted:
            self._violations += 1
            return
        self._permitted.remove(key)
        if self._other is not None and self._bodies % SAMPLE == 0:
            self._look(self._other, key)

    def _look(self, other: Eye, key: str) -> None:
        if list(other.ask("SELECT state FROM operation WHERE key = ?", key)) == [("dispatched",)]:
            self._read_back += 1
        else:
            self._violations += 1

    def close(self) -> None:
        """Give the connection back."""
        if self._other is not None:
            self._other.close()

    def testimony(self) -> Testimony:
        """What was seen so far."""
        return Testimony(self._acknowledged, self._bodies, self._read_back, self._violations)


WITNESS = Witness()
"""The one of this process: the body of a declared effect gets its arguments from the engine and nothing else."""
