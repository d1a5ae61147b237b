"""Commits on PostgreSQL so that it is always found out what became of a commit, also when its answer is lost.

Each connection numbers its commits in a row of its own, written in the commit itself (`mark`). When a connection is
lost after COMMIT was sent, another one declares that number void, which waits for whatever of the old transaction is
still under way: either the number is there, and the commit happened, or it can happen no more. So nobody has to guess,
nothing is written twice, and the process carries on by itself when the server is back.

A `Prepared` batch of the journal is one round trip. Alone it is awaited in place; when the answer takes longer the
writer thread goes on waiting for the same answer. What is written is `postgres_batch`'s matter; whole verbs are
`postgres`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import NoReturn

from fencepost.core.errors import FencepostError, StoreBusy
from fencepost.core.records import Audit
from fencepost.core.states import RunState
from fencepost.store import rows
from fencepost.store.api import Answer, Group, NewRun, Started
from fencepost.store.chain import chain, values_of
from fencepost.store.groups import Outcome, audits
from fencepost.store.moves import MoveRun, NextTurn, StartChild
from fencepost.store.postgres_batch import Batch, Writer
from fencepost.store.postgres_connection import Encoded, PostgresConnection, PostgresError, Result
from fencepost.store.postgres_failures import GUARD_REFUSED, is_gone, is_of_one_record, is_passing, unavailable
from fencepost.store.postgres_pool import Pool
from fencepost.store.queries import Query, Row
from fencepost.store.server_clock import ServerClock, boot_time
from fencepost.store.transaction import Patience

# Whatever a database's or a user's defaults are: the guards lock what they read, and need no snapshot. But where it is
# set to read-only, somebody wants no writes, least of all on a server that has been left.
BEGIN: Encoded = ("BEGIN ISOLATION LEVEL READ COMMITTED", ())
COMMIT: Encoded = ("COMMIT", ())
ROLLBACK: Encoded = ("ROLLBACK", ())

CHANNEL = "fencepost"
"""Where changes are told; the message is the ledger's schema."""

IN_PLACE = 0.002
"""Seconds for which an event loop waits in place for the answer to a single group; then it watches for it."""


class Again(Exception):
    """A transaction did not come to its end, and may be tried again; `error` says why if there is no more patience."""

    def __init__(self, error: FencepostError) -> None:
        super().__init__(str(error))
        self.error = error


class GuardRefused(Exception):
    """A guard among a transaction's last statements has refused it; nothing was committed."""


@dataclass(frozen=True, slots=True)
class Doubt:
    """A commit whose answer was lost."""

    mark: str
    number: int


class Commits:
    """Numbers the commits of a process's connections, settles doubts about them, and keeps the time they bring."""

    def __init__(
        self,
        pool: Pool,
        queries: Mapping[str, Query],
        clock: ServerClock,
        *,
        now: Callable[[], int],
        schema: str,
        ledger: str,
    ) -> None:
        self.ledger = ledger
        self.now = now
        self.highest = 0
        """The highest time that this process has stored or seen stored."""
        self._pool = pool
        self._queries = queries
        self._clock = clock
        self._schema = schema

    @property
    def has_one_connection(self) -> bool:
        """Whether whoever wants a connection waits for this journal's."""
        return self._pool.size < 2  # noqa: PLR2004 - one for the journal, one for others

    def lend(self, patience: float) -> PostgresConnection:
        """A connection. Raises `Again` when none can be made, `StoreBusy` when all are in use."""
        try:
            return self._pool.take(patience)
        except PostgresError as error:
            raise Again(unavailable(error, self.ledger)) from error

    def take_back(self, connection: PostgresConnection) -> None:
        """End what is left of a transaction, and give the connection back."""
        if connection.in_transaction and connection.is_quiet:
            try:
                connection.run_encoded([ROLLBACK])
            except PostgresError:
                connection.close()
        self._pool.give(connection)

    def refuse(self, connection: PostgresConnection, error: PostgresError) -> NoReturn:
        """Give a connection back and raise what its error means; nothing was committed."""
        connection.forget_prepared(error.code)
        if is_gone(error):
            connection.close()
        self.take_back(connection)
        told = unavailable(error, self.ledger)
        if is_gone(error) or is_passing(error):
            raise Again(told) from error
        raise told from error

    # -- marks ----------------------------------------------------------------------------------------------------

    def mark(self, connection: PostgresConnection) -> Encoded:
        """What numbers the next commit of this connection; the second statement of a transaction."""
        self.highest = max(self.highest, self.now())
        mark = connection.mark
        mark.at = self.highest
        return self._step("mark_commit", mark=mark.id, number=mark.number + 1, at=mark.at)

    def learn(self, row: Row, before: int) -> None:
        """Read the server's clock, and maybe the highest stored time, in an answer to what was sent at `before`."""
        self._clock.learn(row[0], before=before, after=boot_time())
        if len(row) > 1 and row[1] is not None:
            self.highest = max(self.highest, int(row[1]))

    def commit(self, connection: PostgresConnection, steps: Sequence[Encoded]) -> list[Result] | Doubt:
        """Send a transaction's last statements with its COMMIT, and give the connection back; what they answered.

        Returns the doubt when the answers are lost; raises like `refuse`, or `GuardRefused`, when it was not committed.
        """
        try:
            answers = connection.run_encoded([*steps, COMMIT])
        except PostgresError as error:
            if is_gone(error):
                return self.lose(connection)
            if error.code == GUARD_REFUSED:
                self.take_back(connection)
                raise GuardRefused from error
            self.refuse(connection, error)
        self.committed(connection)
        return answers

    def committed(self, connection: PostgresConnection) -> None:
        """Count a commit that has happened, and give its connection back."""
        connection.mark.number += 1
        self.take_back(connection)

    def lose(self, connection: PostgresConnection) -> Doubt:
        """Give up a connection whose commit is in doubt."""
        connection.close()
        self.take_back(connection)
        return Doubt(connection.mark.id, connection.mark.number + 1)

    def audit(self, connection: PostgresConnection, rows: Sequence[Audit]) -> None:
        """Append audit rows in the transaction, in two round trips; the chain is locked until its end."""
        if rows:
            last = connection.run_encoded([self._step("lock_audit"), self._step("last_audit_hash")])[1].rows
            add = self._queries["add_audit"]
            connection.run([(add.statement, add.bind(**values_of(row))) for row in chain(rows, last=last)])

    def farewell(self, connection: PostgresConnection) -> None:
        """Take a connection's mark along, before it is closed in peace."""
        if connection.mark.number:
            with suppress(PostgresError):
                connection.run_encoded([BEGIN, self._step("forget_mark", mark=connection.mark.id), COMMIT])

    def telling(self, signalled: tuple[str, str] | None = None) -> list[Encoded]:
        """The word to those who listen, that anything or this run may be due; it goes out with the commit."""
        if signalled is not None:
            namespace, run_id = signalled
            of_run = {"namespace": namespace, "run_id": run_id}
            return [self._step("tell_of_signal", channel=CHANNEL, message=self._schema, **of_run)]
        return [self._step("tell_others", channel=CHANNEL, message=self._schema)]

    def settle(self, doubt: Doubt, patience: float) -> bool:
        """Whether the commit in doubt has happened; if not, it never will. Raises `Again` when nobody can say yet."""
        connection = self.lend(patience)
        try:
            found = connection.run_encoded(
                [
                    BEGIN,
                    self._step("keep_mark", mark=doubt.mark),
                    self._step("void_mark", mark=doubt.mark, number=doubt.number),
                    self._step("find_mark", mark=doubt.mark),
                    COMMIT,
                ]
            )
        except PostgresError as error:
            raise Again(unavailable(error, self.ledger)) from error
        finally:
            self.take_back(connection)
        return bool(found[3].rows[0][0] == doubt.number)

    def _step(self, name: str, **values: str | int) -> Encoded:
        query = self._queries[name]
        return query.statement, [str(value).encode() for value in query.bind(**values)]


class Prepared:
    """A batch of the journal, ready to be sent; `commit` may be called again, on any thread, after `StoreBusy`."""

    def __init__(
        self, commits: Commits, writer: Writer, entries: Sequence[Group | NewRun], announce: Callable[[str], None]
    ) -> None:
        self._commits = commits
        self._writer = writer
        self._entries = entries
        self._announce = announce
        self._batch = Batch(
            [entry for entry in entries if isinstance(entry, Group)],
            [entry for entry in entries if isinstance(entry, NewRun)],
        )
        self._telling = commits.telling() if any(map(_frees_a_run, entries)) else []
        self._connection: PostgresConnection | None = None
        self._sent_at = 0
        self._doubt: Doubt | None = None
        self._has_happened = False
        self._answers: list[Outcome] | None = None
        """What every group and then every start was answered, as far as it was found one by one."""
        # A chain is read before it is written, which takes more than one round trip.
        self._is_audited = any(group.audits for group in self._batch.groups)
        self._steps: list[Encoded] | None
        try:
            self._steps = writer.steps(self._batch)
        except PostgresError:
            self._steps = None  # one by one

    def commit(self, *, patience: float) -> list[Outcome]:
        """Make it durable; what each was answered. 0 seconds of patience are `IN_PLACE`."""
        pauses = Patience(patience).pauses()
        self._announce("before")
        while True:
            try:
                answers = self._in_order(self._go_on(patience))
            except Again as again:
                if patience <= 0:
                    raise self._unfinished() from again
                if not pauses.wait():
                    raise again.error from again
            else:
                self._announce("after")
                return answers

    def watched(self) -> int | None:
        """See `PreparedCommit.watched`.

        Not a process's only connection: a loop that asks for it would wait for ever. Nor before everything is sent.
        """
        connection = self._connection
        if connection is None or self._commits.has_one_connection or not connection.is_sent:
            return None
        return connection.fileno()

    def _go_on(self, patience: float) -> list[Outcome]:
        if self._doubt is not None:
            self._has_happened = self._commits.settle(self._doubt, patience)
            self._doubt = None
        if self._has_happened:
            return self._answers if self._answers is not None else self._read_back(patience)
        if self._steps is not None and not self._is_audited:
            return self._all_at_once(self._steps, patience)
        if patience <= 0:
            raise self._unfinished()
        if self._steps is not None:
            return self._with_audits(self._steps, patience)
        return self._one_by_one(patience)

    def _unfinished(self) -> StoreBusy:
        return StoreBusy(
            "the ledger has not answered yet", hint="commit again, with patience", ids={"ledger": self._commits.ledger}
        )

    # -- in one round trip ----------------------------------------------------------------------------------------

    def _all_at_once(self, steps: Sequence[Encoded], patience: float) -> list[Outcome]:
        connection = self._connection
        if connection is None:
            connection = self._connection = self._commits.lend(patience)
        try:
            if connection.is_quiet:
                self._sent_at = boot_time()
                connection.send([BEGIN, self._commits.mark(connection), *steps, *self._telling, COMMIT])
            results = connection.receive(patience or (IN_PLACE if len(self._entries) == 1 else 0.0))
        except PostgresError as error:
            return self._refused(connection, error, patience)
        except BaseException:
            # Whatever it is, nobody comes back for the answer, and the pool must not lack a connection for ever.
            self._connection = None
            self._commits.lose(connection)
            raise
        if results is None and patience <= 0:
            raise self._unfinished()
        self._connection = None
        if results is None:
            self._doubt = self._commits.lose(connection)
            raise Again(self._unfinished())
        self._commits.learn(results[1].rows[0][:1], self._sent_at)
        self._commits.committed(connection)
        moved: list[Outcome] = [Answer.MOVED] * len(self._batch.groups)
        return moved + self._started(results[len(steps) :]) if self._batch.starts else moved

    def _refused(self, connection: PostgresConnection, error: PostgresError, patience: float) -> list[Outcome]:
        self._connection = None
        if is_gone(error):
            self._doubt = self._commits.lose(connection)
            raise Again(unavailable(error, self._commits.ledger)) from error
        if not is_of_one_record(error):
            self._commits.refuse(connection, error)
        self._commits.take_back(connection)
        self._steps = None
        return self._go_on(patience)

    def _with_audits(self, steps: Sequence[Encoded], patience: float) -> list[Outcome]:
        """Write the whole batch at once, and then its audit rows."""
        connection = self._commits.lend(patience)
        try:
            before = boot_time()
            written = connection.run_encoded([BEGIN, self._commits.mark(connection), *steps])
            self._commits.learn(written[1].rows[0][:1], before)
            answers: list[Outcome] = [Answer.MOVED] * len(self._batch.groups)
            if self._batch.starts:
                answers += self._started(written[len(steps) :])
            self._commits.audit(connection, audits(self._batch.groups, answers))
        except PostgresError as error:
            if is_gone(error) or not is_of_one_record(error):
                self._commits.refuse(connection, error)
            self._commits.take_back(connection)
            self._steps = None
            return self._go_on(patience)
        except BaseException:
            self._commits.take_back(connection)
            raise
        return self._ended(connection, answers, patience)

    # -- one by one -----------------------------------------------------------------------------------------------

    def _one_by_one(self, patience: float) -> list[Outcome]:
        connection = self._commits.lend(patience)
        try:
            before = boot_time()
            locks = self._writer.locks(self._batch.runs)
            begun = connection.run_encoded([BEGIN, self._commits.mark(connection), *locks])
            self._commits.learn(begun[1].rows[0][:1], before)
            answers = self._writer.write_each(connection, self._batch.groups)
            answers += [self._start(connection, new) for new in self._batch.starts]
            self._commits.audit(connection, audits(self._batch.groups, answers))
        except PostgresError as error:
            self._commits.refuse(connection, error)
        except BaseException:
            self._commits.take_back(connection)
            raise
        return self._ended(connection, answers, patience)

    def _ended(self, connection: PostgresConnection, answers: list[Outcome], patience: float) -> list[Outcome]:
        self._answers = answers
        ended = self._commits.commit(connection, self._telling)
        if not isinstance(ended, Doubt):
            return answers
        self._doubt = ended
        return self._go_on(patience)

    def _start(self, connection: PostgresConnection, new: NewRun) -> Outcome:
        made, found = self._writer.start(connection, new)
        return Started(rows.run(found), made)

    # -- answers --------------------------------------------------------------------------------------------------

    def _started(self, results: Sequence[Result]) -> list[Outcome]:
        """What the two statements that start runs have answered."""
        made = {number for (number,) in results[0].rows}
        answers: list[Outcome] = []
        for row in results[1].rows:
            answers.append(Started(rows.run(row), row[0] in made))
            made.discard(row[0])  # started twice in one batch, it is new once
        return answers

    def _read_back(self, patience: float) -> list[Outcome]:
        """The answers to a batch that was committed at once, when they were lost on the way."""
        answers: list[Outcome] = [Answer.MOVED] * len(self._batch.groups)
        if not self._batch.starts:
            return answers
        connection = self._commits.lend(patience)
        try:
            found = connection.run_encoded(self._writer.starts(self._batch.starts)[-1:])[0].rows
        except PostgresError as error:
            raise Again(unavailable(error, self._commits.ledger)) from error
        finally:
            self._commits.take_back(connection)
        for row, new in zip(found, self._batch.starts, strict=True):
            run = rows.run(row)
            is_new = (run.id, run.version, run.created_at, run.lease) == (new.id, 0, new.at, new.lease)
            answers.append(Started(run, is_new))
        return answers

    def _in_order(self, answers: list[Outcome]) -> list[Outcome]:
        """The answers in the order in which the entries came."""
        if not self._batch.starts:
            return answers
        groups, starts = iter(answers), iter(answers[len(self._batch.groups) :])
        return [next(starts) if isinstance(entry, NewRun) else next(groups) for entry in self._entries]


def _frees_a_run(entry: Group | NewRun) -> bool:
    if isinstance(entry, NewRun):
        return entry.lease is None
    if entry.wakes is not None or entry.frees_slot:
        return True
    return any(
        (isinstance(move, MoveRun) and move.to == RunState.READY) or isinstance(move, (StartChild, NextTurn))
        for move in entry.moves
    )
