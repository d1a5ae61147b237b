"""The ledgers on which the matrix is played: a file, or a schema on a PostgreSQL server; and how an owner is cut off.

What a cut means differs: a server can be out of reach for one process alone, a file cannot, since whoever keeps its
write lock keeps everybody from writing. What is done with it is in `faults`.
"""

import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from pathlib import Path
from typing import Any, Protocol

from tests.services.fixtures import Place
from tests.services.postgres import Cluster
from tests.services.wire import At, Wire
from tests.zombies.clock import JumpingClock


class Ledger(Protocol):
    """One ledger that nobody has used yet."""

    name: str
    url: str
    victims_url: str
    """Another way to the same ledger, which can be cut."""
    cuts_everybody: bool
    """Whether a cut keeps the heir out as well, so that it takes over only afterwards."""
    has_own_clock: bool
    """Whether times are the ledger's own, so that a process's clock may jump without anybody's harm."""

    def cut(self) -> AbstractContextManager[None]:
        """The victim is cut off while inside."""

    def jump(self, seconds: int) -> None:
        """Let the ledger's own clock jump; only where it has one that can."""

    def is_free(self) -> bool:
        """Whether nobody is in the middle of a transaction, so that a process that is stopped now keeps no lock."""

    def close(self) -> None:
        """Remove what was made for it."""


class SqliteLedger:
    """A file."""

    name = "SQLite"
    cuts_everybody = True
    has_own_clock = False

    def __init__(self, folder: Path) -> None:
        self._file = folder / "ledger.db"
        self.url = self.victims_url = f"sqlite:///{self._file}"

    def cut(self) -> AbstractContextManager[None]:
        return lock_kept(self._file)

    def jump(self, seconds: int) -> None:
        raise AssertionError("a file has no clock")

    def is_free(self) -> bool:
        return is_unlocked(self._file)

    def close(self) -> None:
        pass


class PostgresLedger:
    """A schema of a server, to which the victim has a wire of its own."""

    name = "PostgreSQL"
    cuts_everybody = False
    has_own_clock = True

    def __init__(self, server: Cluster) -> None:
        place = Place(server)
        self._server = server
        self._wire = Wire(place)
        self.url, self.victims_url = place.url(), self._wire.url()

    @contextmanager
    def cut(self) -> Iterator[None]:
        self._wire.refuses, self._wire.choose = True, lambda sent: At.CUT_BEFORE
        try:
            yield
        finally:
            self._wire.refuses, self._wire.choose = False, lambda sent: At.PASSED

    def jump(self, seconds: int) -> None:
        assert isinstance(self._server, JumpingCluster), "this server keeps the machine's time"
        self._server.clock.jump(seconds)

    def is_free(self) -> bool:
        asked = "SELECT count(*) FROM pg_stat_activity WHERE state = 'idle in transaction'"
        return _answer(self._server.url(), asked) == 0

    def close(self) -> None:
        self._wire.close()
        if isinstance(self._server, JumpingCluster):
            self._server.remove()


class JumpingCluster(Cluster):
    """A server of one ledger's own, whose wall clock can be made to jump."""

    clock: JumpingClock

    def start(self) -> None:
        self.clock = JumpingClock(self.folder / "clock")
        told = self._as_user
        self._as_user = [*told, "env", *(f"{name}={value}" for name, value in self.clock.environment().items())]
        try:
            super().start()
        finally:
            self._as_user = told


@contextmanager
def lock_kept(file: Path) -> Iterator[None]:
    """Another process keeps the write lock of an SQLite file."""
    command = [sys.executable, "-m", "tests.zombies.keeper", str(file)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=Path(__file__).parents[2]
    ) as keeper:
        assert keeper.stdout is not None
        assert keeper.stdin is not None
        assert keeper.stdout.readline() == b"kept\n"
        try:
            yield
        finally:
            keeper.stdin.close()
            keeper.wait(30)


def is_unlocked(file: Path) -> bool:
    """Whether nobody holds an SQLite file's write lock."""
    with closing(sqlite3.connect(file, timeout=0.2, isolation_level=None)) as connection:
        try:
            connection.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError:
            return False
        connection.execute("ROLLBACK")
        return True


def _answer(url: str, asked: str) -> Any:
    import psycopg

    with psycopg.connect(url) as connection:
        row = connection.execute(asked).fetchone()
    assert row is not None
    return row[0]
