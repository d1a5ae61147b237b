"""Notices on each new connection that the ledger is older than what this process has seen in it.

A server that failed over to a copy that lagged, or was restored under a running process, has forgotten commits that it
had acknowledged; what was sent under them would be sent again (`protocol` D2). Each connection numbers its commits
(`postgres_commit`), so that the newest numbers must be there. Behind a pooler, which changes servers without a word,
only the lease's renewal notices. What a person does about it is `runtime.restoring`'s matter.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence

from fencepost.core.duration import DAY
from fencepost.core.errors import LedgerWentBack
from fencepost.store.postgres_batch import texts
from fencepost.store.postgres_connection import Mark, PostgresConnection
from fencepost.store.queries import Query, Row

MARKS_KEPT = DAY
"""Microseconds for which the ledger keeps the marks of connections that were lost; what became of a commit is asked
within seconds."""

_MARKS_MAX = 400
"""More connections than a process opens before it notices that those it had are gone."""


class Seen:
    """What this process knows to have been committed. Used by one thread at a time, or by several."""

    def __init__(self, queries: Mapping[str, Query], *, ledger: str) -> None:
        self._epoch = queries["current_epoch"].statement
        self._marks_of = queries["marks_of"].statement
        self._ledger = ledger
        self._marks: deque[Mark] = deque(maxlen=_MARKS_MAX)
        self._highest_epoch: int | None = None

    def compare(self, connection: PostgresConnection) -> None:
        """Compare the ledger behind a new connection with what is known of it, and remember the connection.

        Raises `LedgerWentBack` where something is missing, unless an epoch has begun since: then somebody knows.
        """
        marks = [(mark, mark.number) for mark in list(self._marks) if mark.number]
        wanted = [texts([mark.id for mark, _ in marks])]
        # Asked once, so not prepared: what a pooler of which nobody has spoken makes of that is another one's trouble.
        prepares, connection.prepares = connection.prepares, False
        epochs, found = (
            answer.rows for answer in connection.run_encoded([(self._epoch, ()), (self._marks_of, wanted)])
        )
        connection.prepares = prepares
        epoch = int(epochs[0][0]) if epochs else 0
        if self._highest_epoch is not None and epoch > self._highest_epoch:
            marks = []
            self._marks.clear()
        if epoch < (self._highest_epoch or 0) or _misses(found, marks):
            raise LedgerWentBack(
                "the ledger is older than what this process has seen in it: it was restored from a backup, or failed "
                "over to a copy that lagged",
                hint="run `fencepost restored`, then start the workers again",
                ids={"ledger": self._ledger},
            )
        self._highest_epoch = epoch
        self._marks.append(connection.mark)


def _misses(found: Sequence[Row], marks: Sequence[tuple[Mark, int]]) -> bool:
    """Whether a commit is not among those that were found, although nobody has removed it because of its age."""
    there = {mark: number for mark, number, _ in found}
    removed_before = max(at for _, _, at in found) - MARKS_KEPT
    return any(
        there.get(mark.id, 0) < number for mark, number in marks if mark.id in there or mark.at >= removed_before
    )
