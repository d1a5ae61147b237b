"""The target that compares tokens: a database file of bookings, guarded by `SqlFence`, and what is counted in it.

The bookings are counted as the world counts: one beyond the first of a name is a duplicate, one that came after a
newer token of its account is stale. Nothing here knows which number is right; that is `verdict`.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from fencepost.store.open import wall_clock
from fencepost.targets.sql import SqlFence

_BOOKINGS = """CREATE TABLE IF NOT EXISTS booking (
    no INTEGER PRIMARY KEY, account TEXT NOT NULL, token INTEGER NOT NULL, key TEXT NOT NULL, name TEXT NOT NULL,
    at INTEGER NOT NULL
)"""
_BOOK = "INSERT INTO booking (account, token, key, name, at) VALUES (?, ?, ?, ?, ?)"
_FIND = "SELECT no FROM booking WHERE key = ? ORDER BY no"
_ALL = "SELECT account, token, name, at FROM booking ORDER BY no"

BUSY_SECONDS = 30.0
"""How long a booking waits for the file's write lock: longer than any attempt here may last."""


@dataclass(frozen=True)
class Booking:
    """One row; `at` is microseconds of this machine's clock."""

    account: str
    token: int
    name: str
    at: int


class Accounts:
    """One file of bookings."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.fence = SqlFence(lambda: sqlite3.connect(file, timeout=1.0), name="accounts")

    def create(self) -> None:
        """Create the tables."""
        with closing(self._connect()) as connection:
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(_BOOKINGS)
        self.fence.create()

    def _connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self.file, timeout=BUSY_SECONDS, isolation_level=None)

    @contextmanager
    def session(self) -> Iterator[sqlite3.Connection]:
        """A connection to book on."""
        with closing(self._connect()) as connection:
            yield connection

    def book(self, connection: sqlite3.Connection, account: str, token: int, key: str, name: str) -> str:
        """Make one booking under a token; returns its number. Raises `FenceRefused`."""
        connection.execute("BEGIN IMMEDIATE")
        self.fence.guard(connection, account, token)
        row = connection.execute(_BOOK, (account, token, key, name, wall_clock()))
        connection.execute("COMMIT")
        return str(row.lastrowid)

    def find(self, key: str) -> list[str]:
        """The numbers of what was booked under a key."""
        with self.session() as connection:
            return [str(no) for (no,) in connection.execute(_FIND, (key,))]

    def bookings(self) -> list[Booking]:
        """Every booking, in order."""
        with self.session() as connection:
            return [Booking(*row) for row in connection.execute(_ALL)]

    def stale(self) -> list[Booking]:
        """The bookings that came after one of a newer token."""
        highest: dict[str, int] = {}
        found = []
        for one in self.bookings():
            if one.token < highest.get(one.account, 0):
                found.append(one)
            highest[one.account] = max(one.token, highest.get(one.account, 0))
        return found
