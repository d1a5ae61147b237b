"""The ledger on PostgreSQL: a few connections, each verb one transaction, and nothing kept in a session.

Many processes write at a time. So what a verb decides on is locked first: the run whose row it reads, the chain of the
audit. Lock order: leases, then runs by number, then whatever belongs to a run, then the audit. A transaction that was
refused for a reason that passes, or whose connection was lost before its commit, is done again from its start for as
long as there is patience; what became of a lost commit is found out by its mark (`postgres_commit`).

Behind a pooler that lends a server connection per transaction everything works but NOTIFY and planned statements.
Opening and checking is `postgres_open`'s matter; which move to make is decided in `core`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeVar

from fencepost.core.errors import StoreUnavailable
from fencepost.store import faultpoints, joining, postgres_listener, rows
from fencepost.store.api import Group, NewRun, Started
from fencepost.store.callers import Steps
from fencepost.store.changes import Changes, Told
from fencepost.store.groups import Outcome
from fencepost.store.ledger_verbs import LedgerVerbs
from fencepost.store.moves import Move, Observe
from fencepost.store.postgres_batch import Writer
from fencepost.store.postgres_commit import BEGIN, CHANNEL, COMMIT, Again, Commits, Doubt, GuardRefused, Prepared
from fencepost.store.postgres_connection import Encoded, PostgresConnection, PostgresError, Step, encoded
from fencepost.store.postgres_connection import Result as Answered
from fencepost.store.postgres_listener import Heard, Listener
from fencepost.store.postgres_pool import Pool
from fencepost.store.postgres_seen import Seen
from fencepost.store.queries import Query, Row
from fencepost.store.server_clock import ServerClock, boot_time
from fencepost.store.statements import Probe, Statements, Wanted, Work
from fencepost.store.transaction import Patience
from fencepost.store.verbs import Body, whole

Result = TypeVar("Result")

_RENEWAL = ("lease:live:renew",)
_BEGIN_READING: Step = ("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY", ())


class PostgresStore(LedgerVerbs):
    """One ledger in a PostgreSQL database. Safe to use from any thread; made by `open_store`.

    `listener` is None where nobody can be told of changes. `clock` is the server's unless a test gives another.
    """

    dialect = "postgres"
    is_remote = True

    def __init__(
        self,
        connect: Callable[[], PostgresConnection],
        queries: Mapping[str, Query],
        *,
        ledger: str,
        schema: str,
        connections: int,
        listens: bool,
        clock: Callable[[], int] | None,
        patience: float,
        probe: Probe | None = None,
    ) -> None:
        self.ledger = ledger
        self.schema = schema
        self.queries = queries
        self.patience = Patience(patience)
        self.probe = probe
        server_clock = ServerClock()
        self.clock = clock or server_clock
        self._seen = Seen(queries, ledger=ledger)
        self._pool = Pool(lambda: self._known(connect()), size=connections - listens, ledger=ledger)
        self._commits = Commits(self._pool, queries, server_clock, now=self.now, schema=schema, ledger=ledger)
        self.learn = self._commits.learn
        self.telling = self._commits.telling
        self._writer = Writer(queries)
        listen = queries["listen"].statement
        self._listener = Listener(connect, listen=listen, change=schema, say=self._say) if listens else None
        limit = f"{patience:g}s"
        self._begin: list[Encoded] = [BEGIN, (queries["patience_of_work"].statement, [limit.encode()])]
        self._ask_the_time()

    def _known(self, connection: PostgresConnection) -> PostgresConnection:
        """A new connection, once it is certain that the ledger behind it remembers what this process has seen."""
        try:
            self._seen.compare(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    # -- clocks and changes ---------------------------------------------------------------------------------------

    def now(self) -> int:
        """See `Store.now`; the server's clock, see `server_clock`."""
        return self.clock()

    def latest(self) -> int:
        """See `Store.latest`. Highest as far as this process knows: it hears of others' times every few seconds."""
        return max(self.clock(), self._commits.highest)

    def changes(self, told: Told) -> Changes:
        """See `Store.changes`. Writes of this process count too."""
        return Heard(self._listener, told)

    def _say(self, message: str) -> None:
        """Send a message to those who listen, and read the clock along."""
        spoken = {"channel": CHANNEL, "message": message}
        before = boot_time()
        try:
            with self._borrowed() as connection:
                steps = [_step(self.queries, "latest_time", {}), _step(self.queries, "tell_others", spoken)]
                found = connection.run(steps, patience=postgres_listener.ANSWER_WITHIN)
        except Again as again:
            raise again.error from again
        self._commits.learn(found[0].rows[0], before)

    @whole
    def _ask_the_time(self) -> None:
        with self._borrowed() as connection:
            before = boot_time()
            self._commits.learn(connection.execute(self.queries["latest_time"].statement)[0], before)

    @whole
    def renew_lease(self, lease: str, *, now: int, expires_at: int, seen: int = 0, carries: str | None = None) -> bool:
        """See `Store.renew_lease`. One statement, which may be repeated: a worker does little else when it is idle."""
        self._announce("before", _RENEWAL)
        with self._borrowed() as connection:
            values = {"lease": lease, "now": now, "expires_at": expires_at, "seen": seen, "carries": carries}
            renewed = connection.run([_step(self.queries, "renew_lease", values)])[0].changed == 1
        self._announce("after", _RENEWAL)
        return renewed

    # -- copying a ledger in ---------------------------------------------------------------------------------------

    def is_empty(self) -> bool:
        """Whether nothing was ever written to this ledger."""
        return bool(self._read("ledger_is_empty")[0][0])

    def paste(self, rows: Callable[[Work], Result]) -> Result:
        """Insert a whole ledger's rows in one transaction, while nobody else starts or claims anything."""
        try:
            with self._writing() as work:
                work.lock("lock_every_run")
                return rows(work)
        except Again as again:
            raise again.error from again

    # -- the journal's commit -------------------------------------------------------------------------------------

    def commit(self, entries: Sequence[Group | NewRun], *, patience: float) -> list[Outcome]:
        """See `Store.commit`. Never raises `StoreFailed`: what became of a commit is found out."""
        return self.prepare(entries, patience=patience).commit(patience=patience)

    def prepare(self, entries: Sequence[Group | NewRun], *, patience: float) -> Prepared:  # noqa: ARG002 - no lock here
        """See `Store.prepare`: what is to be sent; no lock is taken before it is."""
        points = faultpoints.of_entries(entries) if self.probe else []
        return Prepared(self._commits, self._writer, entries, lambda when: self._announce(when, points))

    # -- transactions ---------------------------------------------------------------------------------------------

    def _whole(self, verb: Callable[[], Result]) -> Result:
        pauses = self.patience.pauses()
        while True:
            try:
                return verb()
            except Again as again:
                if not pauses.wait():
                    raise again.error from again

    @contextmanager
    def _writing(self, *points: str, patience: float | None = None) -> Iterator[Work]:
        connection = self._commits.lend(self.patience.seconds if patience is None else patience)
        opening = [*self._begin, self._commits.mark(connection)]
        work = _PostgresWork(self, connection, opening)
        try:
            work.passing(points)
            yield work
            work.begin()
        except PostgresError as error:
            self._commits.refuse(connection, error)
        except BaseException:
            if not work.is_over:
                self._commits.take_back(connection)
            raise
        if work.is_in_vain:
            self._commits.take_back(connection)
        elif not work.is_over:
            self.end(connection, work.telling)
        self._announce("after", work.passed)

    def end(self, connection: PostgresConnection, steps: Sequence[Encoded]) -> list[Answered] | None:
        """Send a transaction's last statements with its commit; their answers, or None where only those were lost.

        Raises `Again` where it has not been committed, and never will be, and `GuardRefused`.
        """
        ended = self._commits.commit(connection, steps)
        if not isinstance(ended, Doubt):
            return ended
        self._settle(ended)
        return None

    def _settle(self, doubt: Doubt) -> None:
        """Return if the commit has happened; raises `Again` if it has not, and never will."""
        if not self._whole(lambda: self._commits.settle(doubt, self.patience.seconds)):
            raise Again(
                StoreUnavailable(
                    "the connection was lost before the commit; nothing was changed",
                    hint="try again",
                    ids={"ledger": self.ledger},
                )
            )

    def _write(self, work: Work, moves: Iterable[Move]) -> Move | None:
        assert isinstance(work, _PostgresWork), "what `_writing` gives"
        return self._writer.write(work.connection, moves)

    def _lent(self, work: Work) -> AbstractContextManager[Any]:
        assert isinstance(work, _PostgresWork), "what `_writing` gives"
        return work.connection.lent()

    def transact(self, run: int, body: Body[Result], *, patience: float) -> Result:
        """See `Store.transact`. Once: what passes by itself is told, and the body is not run again here."""
        try:
            return super().transact(run, body, patience=patience)
        except Again as again:
            raise again.error from again

    def _observe(self, work: Work, observations: Sequence[Observe]) -> None:
        assert isinstance(work, _PostgresWork), "what `_writing` gives"
        self._writer.observe(work.connection, observations)

    def _start(self, work: Work, new: NewRun) -> Started:
        assert isinstance(work, _PostgresWork), "what `_writing` gives"
        if new.resource is not None:
            work.lock("lock_line", namespace=new.namespace, resource=new.resource)
        is_new, row = self._writer.start(work.connection, new)
        if is_new and new.lease is None:
            work.announce()
        return Started(rows.run(row), is_new)

    def _first_in_line(self, work: Work, wanted: dict[str, str], due: list[Row], now: int, limit: int) -> list[Row]:
        """See `Verbs`. Which run is the first may have changed since, if somebody let an earlier one go on."""
        lines = sorted({resource for *_, resource in due if resource is not None})
        if not lines:
            return due
        found = work.execute("hold_lines", namespace=wanted["namespace"], resources=json.dumps(lines))
        held = {None, *(resource for (resource,) in found)}
        # Read after they are held: whoever claimed from them before has committed.
        return [row for row in work.execute("due_runs", now=now, limit=limit, **wanted) if row[-1] in held]

    @property
    def place(self) -> str:
        """Server and database, without a password."""
        return self.ledger

    def _joining(self, new: NewRun) -> Steps[Started]:
        told = {"channel": CHANNEL, "message": self.schema}
        return joining.on_postgres(self.queries, told, lambda: self._read("where_we_are")[0], new)

    def _announce(self, when: str, points: Sequence[str]) -> None:
        if self.probe is not None:
            for point in points:
                self.probe(f"{when}:{point}")

    # -- reading --------------------------------------------------------------------------------------------------

    @contextmanager
    def _reading(self) -> Iterator[Statements]:
        with self._borrowed() as connection:
            yield _PostgresStatements(connection, self.queries, [], self._commits.learn)

    def read(self, wanted: Sequence[Wanted]) -> list[list[Row]]:
        """Read in one round trip."""
        with self._reading() as reading:
            return reading.execute_all(wanted)

    @contextmanager
    def _snapshot(self) -> Iterator[Statements]:
        with self._borrowed() as connection:
            yield _PostgresStatements(connection, self.queries, [_BEGIN_READING], self._commits.learn)

    @contextmanager
    def _lasting(self) -> Iterator[Statements]:
        try:
            with self._borrowed() as connection:
                connection.run([_BEGIN_READING])
                yield _PostgresStatements(connection, self.queries, [], self._commits.learn)
                connection.run([COMMIT])
        except Again as again:
            raise again.error from again

    @contextmanager
    def _borrowed(self) -> Iterator[PostgresConnection]:
        connection = self._commits.lend(self.patience.seconds)
        try:
            yield connection
        except PostgresError as error:
            self._commits.refuse(connection, error)
        except BaseException:
            self._commits.take_back(connection)
            raise
        self._commits.take_back(connection)

    def close(self) -> None:
        """See `Store.close`."""
        if self._listener is not None:
            self._listener.close()
        self._pool.close(self._commits.farewell)


class _PostgresStatements(Statements):
    """Reads: several statements, and the server's clock and highest time with them, are one round trip."""

    def __init__(
        self,
        connection: PostgresConnection,
        queries: Mapping[str, Query],
        begin: Sequence[Step],
        learn: Callable[[Row, int], None],
    ) -> None:
        super().__init__(connection, queries)
        self._inner = connection
        self._begin = begin
        self._learn = learn

    def execute_all(self, wanted: Sequence[Wanted]) -> list[list[Row]]:
        before = boot_time()
        steps = [_step(self._queries, name, values) for name, values in wanted]
        commit = [COMMIT] if self._begin else []
        results = self._inner.run([*self._begin, _step(self._queries, "latest_time", {}), *steps, *commit])
        found = [result.rows for result in results[len(self._begin) :]]
        self._learn(found[0][0], before)
        return found[1 : len(steps) + 1]


class _PostgresWork(Work):
    """A write transaction whose locks are taken row by row.

    What opens it, and what locks, waits for the next statement and goes out with it.
    """

    def __init__(self, store: PostgresStore, connection: PostgresConnection, opening: Sequence[Encoded]) -> None:
        super().__init__(connection, store.queries, store.probe)
        self.telling: list[Encoded] = []
        """The word to those who listen, for the end."""
        self.is_over = False
        """Whether it was committed, or nobody can say so yet; the connection is given back."""
        self.is_in_vain = False
        self._store = store
        self._inner = connection
        self._waiting = list(opening)
        self._mark: int | None = len(opening) - 1

    @property
    def connection(self) -> PostgresConnection:
        """The connection, in the transaction."""
        self.begin()
        return self._inner

    def begin(self) -> None:
        """Send what waits."""
        if self._waiting:
            self._run([])

    def change(self, name: str, /, **values: Any) -> int:
        return self._run([_step(self._queries, name, values)])[0].changed

    def execute(self, name: str, /, **values: Any) -> list[Row]:
        return self._run([_step(self._queries, name, values)])[0].rows

    def execute_all(self, wanted: Sequence[Wanted]) -> list[list[Row]]:
        return [answer.rows for answer in self._run([_step(self._queries, name, values) for name, values in wanted])]

    def commit_with(self, writes: Sequence[Wanted], reads: Sequence[Wanted]) -> list[list[Row]]:
        steps = [encoded(_step(self._queries, name, values)) for name, values in (*writes, *reads)]
        waiting, self._waiting = self._waiting, []
        before = boot_time()
        self.is_over = True
        answers = self._store.end(self._inner, [*waiting, *steps, *self.telling])
        if answers is None:
            return self._store.read(reads)
        self._learn_from(answers, before)
        begin = len(waiting) + len(writes)
        return [answer.rows for answer in answers[begin : begin + len(reads)]]

    def commit_if(self, guard: Wanted, writes: Sequence[Wanted], reads: Sequence[Wanted]) -> list[list[Row]] | None:
        try:
            return self.commit_with([guard, *writes], reads)
        except GuardRefused:
            self.passed.clear()
            return None

    def was_in_vain(self) -> None:
        self.is_in_vain = True

    def lock(self, name: str, /, **values: Any) -> None:
        self._waiting.append(encoded(_step(self._queries, name, values)))

    def announce(self, *, signalled: tuple[str, str] | None = None) -> None:
        self.telling = self._store.telling(signalled)

    def _run(self, steps: Sequence[Step]) -> list[Answered]:
        waiting, self._waiting = self._waiting, []
        before = boot_time()
        answers = self._inner.run_encoded([*waiting, *map(encoded, steps)])
        self._learn_from(answers, before)
        return answers[len(waiting) :]

    def _learn_from(self, answers: Sequence[Answered], before: int) -> None:
        if self._mark is not None:
            self._store.learn(answers[self._mark].rows[0][:1], before)
            self._mark = None


def _step(queries: Mapping[str, Query], name: str, values: Mapping[str, Any]) -> Step:
    return queries[name].statement, queries[name].bind(**values)
