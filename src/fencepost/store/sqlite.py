"""The ledger on SQLite: one connection writes, a few read, and every verb is one transaction.

Lock order: the turn (one writer among this process's threads), then SQLite's write lock (one among the processes).
Reads go through connections of their own and wait for neither. Opening and checking the file is `open`'s matter, the
order of moves `batch`'s; which move to make is decided in `core`.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from fencepost.core.errors import StoreBusy, StoreFailed, StoreUnavailable
from fencepost.store import faultpoints, joining
from fencepost.store.api import Answer, Group, NewRun, Started
from fencepost.store.batch import Writer
from fencepost.store.callers import Steps
from fencepost.store.changes import Looked, Told
from fencepost.store.connection import Connection, SqliteError
from fencepost.store.failures import unavailable
from fencepost.store.groups import Outcome, audits
from fencepost.store.ledger_verbs import LedgerVerbs
from fencepost.store.lending import lent_sqlite
from fencepost.store.moves import Move, Observe
from fencepost.store.queries import Row, load
from fencepost.store.statements import Probe, Statements, Work
from fencepost.store.transaction import Patience, begin, commit, roll_back, when_free


class SqliteStore(LedgerVerbs):
    """One ledger file. Safe to use from any thread; made by `open_store`."""

    dialect = "sqlite"
    is_remote = False

    def __init__(
        self,
        path: str,
        connect: Callable[[], Connection],
        *,
        clock: Callable[[], int],
        patience: float,
        probe: Probe | None = None,
    ) -> None:
        self.path = path
        self.clock = clock
        self.probe = probe
        self.patience = Patience(patience)
        self.queries = load("sqlite")
        self._connect = connect
        self._turn = threading.Lock()
        self._connection = connect()
        self._writer = Writer(self._connection, self.queries)
        self._watch = connect()
        self._watching = threading.Lock()
        self._readers: deque[Connection] = deque()
        self._failed: StoreFailed | None = None
        self._closed = threading.Event()

    # -- clocks ---------------------------------------------------------------------------------------------------

    def now(self) -> int:
        """See `Store.now`."""
        return self.clock()

    def latest(self) -> int:
        """See `Store.latest`."""
        return max(self.clock(), int(self._read("latest_time")[0][0]))

    def changes(self, told: Told) -> Looked:  # noqa: ARG002 - a file tells nobody; it is looked at
        """See `Store.changes`. Writes of this process count too."""
        return Looked(self._version)

    def _version(self) -> int:
        try:
            with self._watching:
                return int(_Patient(self._watch, self.patience).execute("PRAGMA data_version")[0][0])
        except SqliteError as error:
            raise unavailable(error, self.path) from error

    # -- the journal's commit -------------------------------------------------------------------------------------

    def commit(self, entries: Sequence[Group | NewRun], *, patience: float) -> list[Outcome]:
        """See `Store.commit`."""
        return self.prepare(entries, patience=patience).commit(patience=patience)

    def prepare(self, entries: Sequence[Group | NewRun], *, patience: float) -> Prepared:
        """Write groups and starts without committing them; see `Store.commit`."""
        groups = [entry for entry in entries if type(entry) is Group]
        points = faultpoints.of_entries(entries) if self.probe else []
        self._take_turn(Patience(patience))
        try:
            begin(self._connection, Patience(patience))
            self._announce("before", points)
            answers: list[Outcome] | None = self._writer.write_fast(groups)
            if answers is None:
                roll_back(self._connection)
                begin(self._connection, self.patience)
                answers = self._writer.write_each(groups)
            for row in audits(groups, answers):
                self._append(Work(self._connection, self.queries, self.probe), row)
            if len(groups) < len(entries):
                of_groups = iter(answers)
                work = Work(self._connection, self.queries, self.probe)
                answers = [self._start(work, one) if isinstance(one, NewRun) else next(of_groups) for one in entries]
        except SqliteError as error:
            self._give_up(error)
            raise unavailable(error, self.path) from error
        except BaseException as error:
            self._give_up(error)
            raise
        return Prepared(self, answers, points)

    def finish(self, points: Sequence[str]) -> None:
        """Commit what `prepare` wrote and give the turn back; only `Prepared` calls it."""
        try:
            commit(self._connection, self.path)
        except StoreFailed as error:
            self._failed = error
            raise
        finally:
            self._turn.release()
        self._announce("after", points)

    # -- transactions ---------------------------------------------------------------------------------------------

    @contextmanager
    def _writing(self, *points: str, patience: float | None = None) -> Iterator[Work]:
        """One write transaction under the write lock."""
        work = Work(self._connection, self.queries, self.probe)
        waits = self.patience if patience is None else Patience(patience)
        self._take_turn(waits)
        try:
            begin(self._connection, waits)
            work.passing(points)
            yield work
        except SqliteError as error:
            self._give_up(error)
            raise unavailable(error, self.path) from error
        except BaseException as error:
            self._give_up(error)
            raise
        self.finish(work.passed)

    def _write(self, work: Work, moves: Iterable[Move]) -> Move | None:  # noqa: ARG002 - the one writing connection's
        return self._writer.write(moves)

    def _lent(self, work: Work) -> AbstractContextManager[Any]:  # noqa: ARG002 - the same
        return lent_sqlite(self._connection.raw)

    def _observe(self, work: Work, observations: Sequence[Observe]) -> None:  # noqa: ARG002 - the same
        self._writer.observe(observations)

    @property
    def place(self) -> str:
        """The file."""
        return self.path

    def _joining(self, new: NewRun) -> Steps[Started]:
        return joining.on_sqlite(self.queries, self.path, new)

    def _take_turn(self, patience: Patience) -> None:
        if not self._turn.acquire(timeout=patience.seconds):
            raise StoreBusy(
                "another thread of this process is writing to the ledger",
                hint="try again, or give the store more patience",
                ids={"ledger": self.path},
            )
        if self._failed is not None or self._closed.is_set():
            self._turn.release()
            self._refuse_closed()
            assert self._failed is not None, "one of the two"
            raise self._failed

    def _refuse_closed(self) -> None:
        if self._closed.is_set():
            raise StoreUnavailable("the store is closed", hint="open it again", ids={"ledger": self.path})

    def _give_up(self, error: BaseException) -> None:
        """End the transaction without its changes and give the turn back."""
        try:
            if not roll_back(self._connection):
                self._failed = StoreFailed(
                    f"a transaction could not be ended after {error!r}",
                    hint="start this process again; nothing unacknowledged was sent",
                    ids={"ledger": self.path},
                )
        finally:
            self._turn.release()

    def _announce(self, when: str, points: Sequence[str]) -> None:
        if self.probe is not None:
            for point in points:
                self.probe(f"{when}:{point}")

    # -- reading --------------------------------------------------------------------------------------------------

    @contextmanager
    def _reading(self) -> Iterator[Statements]:
        with self._reader() as connection:
            yield Statements(_Patient(connection, self.patience), self.queries)

    @contextmanager
    def _snapshot(self) -> Iterator[Statements]:
        with self._reader() as connection:
            patient = _Patient(connection, self.patience)
            patient.execute("BEGIN")
            try:
                yield Statements(patient, self.queries)
            finally:
                roll_back(connection)

    def _lasting(self) -> AbstractContextManager[Statements]:
        return self._snapshot()

    @contextmanager
    def _reader(self) -> Iterator[Connection]:
        """A reading connection: one that is free, or a new one."""
        self._refuse_closed()
        try:
            connection = self._free_reader()
            try:
                yield connection
            finally:
                self._readers.append(connection)
                if self._closed.is_set():
                    self._close_readers()
        except SqliteError as error:
            raise unavailable(error, self.path) from error

    def _free_reader(self) -> Connection:
        try:
            return self._readers.popleft()
        except IndexError:
            return self._connect()

    def _close_readers(self) -> None:
        while self._readers:
            self._readers.popleft().close()

    def close(self) -> None:
        """See `Store.close`. Waits for the transaction that is under way."""
        with self._turn:
            self._closed.set()
            self._close_readers()
            self._watch.close()
            self._connection.close()


class _Patient:
    """A connection that reads: it is refused as busy only while another process recovers or closes the log."""

    __slots__ = ("_connection", "_patience")

    def __init__(self, connection: Connection, patience: Patience) -> None:
        self._connection = connection
        self._patience = patience

    def execute(self, statement: str, parameters: Sequence[Any] = (), /) -> list[Row]:
        """See `Connection.execute`."""
        return when_free(lambda: self._connection.execute(statement, parameters), self._patience)

    def change(self, statement: str, parameters: Sequence[Any] = (), /) -> int:
        """See `Connection.change`."""
        return when_free(lambda: self._connection.change(statement, parameters), self._patience)


class Prepared:
    """Groups and starts that are written and not yet committed; holds the write lock until `commit`, on any thread."""

    __slots__ = ("_answers", "_points", "_store")

    def __init__(self, store: SqliteStore, answers: list[Outcome], points: Sequence[str]) -> None:
        self._store = store
        self._answers = answers
        self._points = points

    def commit(self, *, patience: float) -> list[Outcome]:  # noqa: ARG002 - the lock is held; there is no waiting
        """Make it durable; what each was answered. Raises `StoreFailed` when that is not known."""
        self._store.finish(self._points)
        return self._answers

    def watched(self) -> None:
        """See `PreparedCommit.watched`: a file answers at once."""


__all__ = ["Answer", "Prepared", "SqliteStore"]
