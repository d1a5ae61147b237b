"""Begins, commits and undoes transactions, and knows after each error whether the disk may hold the commit.

Every write begins with BEGIN IMMEDIATE, never with a read that would have to be upgraded: SQLite answers such an
upgrade with "locked" at once, whatever patience was asked for. What is written in between is the caller's matter.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from fencepost.core.errors import StoreFailed
from fencepost.store.connection import Connection, SqliteError
from fencepost.store.failures import BUSY, FULL, LOCKED, unavailable

Result = TypeVar("Result")

_PAUSE_FIRST, _PAUSE_MAX = 0.000_2, 0.02  # seconds


@dataclass(frozen=True, slots=True)
class Patience:
    """How long to wait for a lock, in seconds; 0 asks once."""

    seconds: float

    def pauses(self) -> _Pauses:
        """Start waiting now."""
        return _Pauses(time.monotonic() + self.seconds)


class _Pauses:
    """Waits that grow, with jitter so that processes do not ask in step, until the patience is spent."""

    def __init__(self, until: float) -> None:
        self._until = until
        self._pause = _PAUSE_FIRST

    def wait(self) -> bool:
        """Sleep a little; False when the time is over."""
        left = self._until - time.monotonic()
        if left <= 0:
            return False
        time.sleep(min(left, self._pause * random.uniform(0.5, 1.0)))  # noqa: S311 - jitter, not a secret
        self._pause = min(self._pause * 1.5, _PAUSE_MAX)
        return True


def begin(connection: Connection, patience: Patience) -> None:
    """Take the write lock; raises `SqliteError` with BUSY when another process keeps it."""
    when_free(lambda: connection.execute("BEGIN IMMEDIATE"), patience)


def when_free(action: Callable[[], Result], patience: Patience) -> Result:
    """Do something on a connection, again while it is refused as busy and there is patience."""
    pauses: _Pauses | None = None
    while True:
        try:
            return action()
        except SqliteError as error:
            if error.primary not in (BUSY, LOCKED):
                raise
            pauses = pauses or patience.pauses()
            if not pauses.wait():
                raise


def roll_back(connection: Connection) -> bool:
    """End the open transaction without its changes; whether that is certain."""
    try:
        # Some errors, a full disk among them, make SQLite end the transaction by itself.
        if connection.in_transaction:
            connection.execute("ROLLBACK")
    except SqliteError:
        return False
    return not connection.in_transaction


def commit(connection: Connection, path: str) -> None:
    """Commit; raises `StoreFailed` when what was written may or may not be on disk, else `StoreUnavailable`.

    A full disk is a clean failure: the frame that would make the commit valid was not written. After a failed sync
    every frame may be there, and a crash could bring it to life, so that nobody may act as if it were not.
    """
    try:
        connection.execute("COMMIT")
    except SqliteError as error:
        undone = roll_back(connection)
        if undone and error.primary in (BUSY, LOCKED, FULL):
            raise unavailable(error, path) from error
        raise StoreFailed(
            f"committing to the ledger failed, and whether it is on disk is not known: {error}",
            hint="this process stops dispatching; look at the disk, then start it again: it reads back what is there",
            ids={"ledger": path},
        ) from error
