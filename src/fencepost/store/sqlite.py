"""The ledger on SQLite: one connection writes, a few read, and every verb is one transaction.

Lock order: the turn (one writer among this process's threads), then SQLite's write lock (one among the processes).
Reads go through connections of their own and wait for neither. Opening and checking the file is `open`'s matter, the
order of moves `batch`'s; which move to make is decided in `core`.
"""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

from fencepost.core.epoch import Epoch
from fencepost.core.errors import LeaseLost, RunNotFound, StoreBusy, StoreFailed, StoreUnavailable
from fencepost.core.poison import fitting
from fencepost.core.records import Audit, History, Lease, Run, Signal
from fencepost.core.transitions import IllegalTransition
from fencepost.core.waits import NOT_WAITING, RUN_ENDED
from fencepost.store import faultpoints, rows
from fencepost.store.api import Answer, Decision, Group, NewRun, RunFilter, Started
from fencepost.store.batch import Outcome, Writer
from fencepost.store.chain import chained
from fencepost.store.connection import Connection, SqliteError
from fencepost.store.failures import unavailable
from fencepost.store.faultpoints import Probe
from fencepost.store.queries import Row, load
from fencepost.store.transaction import Patience, begin, commit, roll_back, when_free

_NO_RUN_HAS_THIS_NUMBER = 2**63 - 1
_SIGNAL_FIELDS = tuple(field.name for field in fields(Signal))


class SqliteStore:
    """One ledger file. Safe to use from any thread; made by `open_store`."""

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
        self._connect = connect
        self._queries = load("sqlite")
        self._turn = threading.Lock()
        self._connection = connect()
        self._writer = Writer(self._connection, self._queries)
        self._watch = connect()
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

    def change_mark(self) -> int:
        """See `Store.change_mark`. Writes of this process count too."""
        return int(self._guarded(self._watch, "PRAGMA data_version", ())[0][0])

    # -- leases ---------------------------------------------------------------------------------------------------

    def take_lease(self, lease: Lease) -> None:
        """See `Store.take_lease`."""
        values = {name: getattr(lease, name) for name in self._queries["take_lease"].parameters}
        with self._writing():
            self._change("take_lease", **values)

    def renew_lease(self, lease: str, *, now: int, expires_at: int, seen: int = 0) -> bool:
        """See `Store.renew_lease`."""
        with self._writing("lease:live:renew"):
            return self._change("renew_lease", lease=lease, now=now, expires_at=expires_at, seen=seen) == 1

    def has_gone_back(self, lease: str, seen: int) -> bool:
        """See `Store.has_gone_back`."""
        return not self._read("lease_since", lease=lease, seen=seen)

    def end_lease(self, lease: str, *, now: int) -> bool:
        """See `Store.end_lease`."""
        with self._writing("lease:live:end"):
            return self._change("end_lease", lease=lease, now=now) == 1

    def leases(self) -> list[Lease]:
        """See `Store.leases`."""
        return [rows.lease(row) for row in self._read("all_leases")]

    # -- epochs ---------------------------------------------------------------------------------------------------

    def epoch(self) -> Epoch | None:
        """See `Store.epoch`."""
        return rows.epoch(self._read("current_epoch"))

    def begin_epoch(self, audit: Callable[[Epoch], Audit]) -> Epoch:
        """See `Store.begin_epoch`."""
        now, lost_from = self.now(), self.latest()
        with self._writing():
            self._change("begin_epoch", now=now, lost_from=min(now, lost_from))
            for statement in ("raise_generations", "raise_tokens"):
                self._change(statement)
            self._change("expire_all_leases", now=now)
            epoch = rows.epoch(self._execute("current_epoch"))
            assert epoch is not None, "one has just begun"
            self._append(audit(epoch))
            return epoch

    def close_lost_span(self, audit: Callable[[Epoch], Audit]) -> Epoch | None:
        """See `Store.close_lost_span`."""
        with self._writing():
            if not self._change("close_lost_span", now=self.now()):
                return None
            epoch = rows.epoch(self._execute("current_epoch"))
            assert epoch is not None, "its span was just closed"
            self._append(audit(epoch))
            return epoch

    # -- runs -----------------------------------------------------------------------------------------------------

    def start_run(self, new: NewRun) -> Started:
        """See `Store.start_run`."""
        with self._writing(faultpoints.of_start(new)):
            return self._start(new)

    def _start(self, new: NewRun) -> Started:
        is_new = self._change("start_run", **new._asdict()) == 1
        found = self._execute("find_run", namespace=new.namespace, id=new.id)
        return Started(rows.run(found[0]), is_new)

    def find(self, namespace: str, run_id: str) -> Run | None:
        """See `Store.find`."""
        found = self._read("find_run", namespace=namespace, id=run_id)
        return rows.run(found[0]) if found else None

    def runs(self, wanted: RunFilter) -> list[Run]:
        """See `Store.runs`."""
        values = wanted._asdict()
        values["after"] = _NO_RUN_HAS_THIS_NUMBER if wanted.after is None else wanted.after
        if wanted.state is None:
            del values["state"]
        name = "list_runs" if wanted.state is None else "list_runs_in_state"
        return [rows.run(row) for row in self._read(name, **values)]

    def claim(
        self, lease: str, workflows: Sequence[tuple[str, int]], *, namespace: str, now: int, margin: int, limit: int,
        suspects: int | None = None,
    ) -> list[Run]:  # fmt: skip
        """See `Store.claim`. Raises `LeaseLost` when the claimer's own lease is over."""
        due = self.next_wake(workflows, namespace=namespace, margin=margin)
        if due is None or due > now or limit < 1:
            # Nothing to do is found out by reading, so that idle workers do not queue for the write lock.
            return []
        wanted = {"namespace": namespace, "workflows": json.dumps(workflows)}
        with self._writing() as points:
            if self._change("expire_leases", now=now, margin=margin):
                self._pass(points, ["lease:live:expire"])
            if self._execute("lease_is_live", lease=lease):
                found = fitting(self._execute("orphaned_runs", limit=limit, **wanted), suspects)
                found += self._execute("due_runs", now=now, limit=limit - len(found), **wanted)
                return [self._claim_one(lease, row, now, points) for row in found]
        # After the commit, so that the expiry of this very lease stands.
        raise LeaseLost(
            "this process's own lease is over, so it may not claim runs",
            hint="take a new lease",
            ids={"lease": lease},
        )

    def _claim_one(self, lease: str, due: Row, now: int, points: list[str]) -> Run:
        run, generation, state, takeovers, answers = due
        if self.probe is not None:
            states = [row[0] for row in self._execute("operation_states_of", run=run)]
            self._pass(points, faultpoints.of_claim(state, states))
        changed = self._change(
            "claim_run", run=run, generation=generation, expected=state, lease=lease, now=now, takeovers=takeovers,
            answers=answers,
        )  # fmt: skip
        assert changed == 1, "the run was read under the same write lock"
        self._change("take_over_operations", run=run, generation=generation + 1, now=now)
        return rows.run(self._execute("load_run", run=run)[0])

    def next_wake(self, workflows: Sequence[tuple[str, int]], *, namespace: str, margin: int) -> int | None:
        """See `Store.next_wake`."""
        wanted = {"namespace": namespace, "workflows": json.dumps(workflows)}
        run = self._read("next_due_run", **wanted)[0][0]
        lease = self._read("next_due_lease", margin=margin, **wanted)[0][0]
        return min((due for due in (run, lease) if due is not None), default=None)

    def load(self, run: int) -> History:
        """See `Store.load`. Raises `RunNotFound` when no run has this number."""
        with self._reading() as connection:
            # One snapshot for all tables.
            self._guarded(connection, "BEGIN", ())
            try:
                return self._history(connection, run)
            finally:
                roll_back(connection)

    def decide(self, run: int, decision: Decision) -> History:
        """See `Store.decide`. Raises `IllegalTransition` when a move's own guard refuses it."""
        with self._writing() as points:
            history = self._history(self._connection, run)
            moves, observations, audits = decision(history, self.now())
            self._pass(points, faultpoints.of_moves(moves) if self.probe else [])
            refused = self._writer.write(moves)
            if refused is not None:
                raise IllegalTransition(
                    f"{type(refused).__name__} does not fit the row as it is: {refused}",
                    hint="decide from the history handed in; give each move the generation that it acts under",
                    ids={"run": history.run.id, "generation": str(history.run.generation)},
                )
            self._writer.observe(observations)
            for row in audits:
                self._append(row)
            return self._history(self._connection, run)

    def _history(self, connection: Connection, run: int) -> History:
        found = self._run_query(connection, "load_run", run=run)
        if not found:
            raise RunNotFound(f"no run has number {run}", hint="look it up by its id", ids={"run": str(run)})
        return rows.history(
            found[0],
            steps=self._run_query(connection, "steps_of", run=run),
            operations=self._run_query(connection, "operations_of", run=run),
            attempts=self._run_query(connection, "attempts_of", run=run),
            observations=self._run_query(connection, "observations_of", run=run),
            signals=self._run_query(connection, "signals_of", run=run),
        )

    def issue_token(self, run: int, generation: int, resource: str) -> int | None:
        """See `Store.issue_token`."""
        with self._writing():
            issued = self._execute("issue_token", run=run, generation=generation, resource=resource)
            return int(issued[0][0]) if issued else None

    # -- signals --------------------------------------------------------------------------------------------------

    def signal(self, namespace: str, run_id: str, signal: Signal) -> Signal:
        """See `Store.signal`."""
        now = self.now()
        with self._writing():
            found = self._execute("find_run", namespace=namespace, id=run_id)
            if not found:
                raise RunNotFound(
                    f"no run has the id {run_id!r}",
                    hint="check the id and the namespace; a signal is only kept for a run that was started",
                    ids={"namespace": namespace, "run": run_id, "signal": signal.id},
                )
            run = found[0][0]
            values = {name: getattr(signal, name) for name in _SIGNAL_FIELDS}
            if self._change("keep_signal", run=run, now=now, run_ended=RUN_ENDED, not_waiting=NOT_WAITING, **values):
                self._change("wake_run", run=run, now=now)
            return rows.signal(self._execute("find_signal", run=run, id=signal.id)[0])

    def signalled(self, lease: str) -> list[int]:
        """See `Store.signalled`."""
        return [row[0] for row in self._read("signalled_runs", lease=lease)]

    # -- audit ----------------------------------------------------------------------------------------------------

    def audit(self, row: Audit) -> Audit:
        """See `Store.audit`."""
        with self._writing():
            return self._append(row)

    def audits(self, namespace: str | None, run_id: str | None) -> list[Audit]:
        """See `Store.audits`."""
        if run_id is None:
            return [rows.audit(row) for row in self._read("all_audits", namespace=namespace)]
        return [rows.audit(row) for row in self._read("audits_of_run", namespace=namespace, run_id=run_id)]

    def _append(self, row: Audit) -> Audit:
        last = self._execute("last_audit_hash")
        row = chained(row, previous=last[0][0] if last else "")
        values = {name: getattr(row, name) for name in self._queries["add_audit"].parameters}
        row.no = self._execute("add_audit", **values)[0][0]
        return row

    # -- the journal's commit -------------------------------------------------------------------------------------

    def commit(self, entries: Sequence[Group | NewRun], *, patience: float) -> list[Outcome]:
        """See `Store.commit`."""
        return self.prepare(entries, patience=patience).commit()

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
            if len(groups) < len(entries):
                of_groups = iter(answers)
                answers = [self._start(one) if isinstance(one, NewRun) else next(of_groups) for one in entries]
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
    def _writing(self, *points: str) -> Iterator[list[str]]:
        """One write transaction under the write lock. The list names the fault points that it passes."""
        passed: list[str] = []
        self._take_turn(self.patience)
        try:
            begin(self._connection, self.patience)
            self._pass(passed, points)
            yield passed
        except SqliteError as error:
            self._give_up(error)
            raise unavailable(error, self.path) from error
        except BaseException as error:
            self._give_up(error)
            raise
        self.finish(passed)

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

    def _pass(self, passed: list[str], points: Sequence[str]) -> None:
        passed += points
        self._announce("before", points)

    def _announce(self, when: str, points: Sequence[str]) -> None:
        if self.probe is not None:
            for point in points:
                self.probe(f"{when}:{point}")

    # -- statements -----------------------------------------------------------------------------------------------

    def _change(self, name: str, /, **values: Any) -> int:
        query = self._queries[name]
        return self._connection.change(query.statement, query.bind(**values))

    def _execute(self, name: str, /, **values: Any) -> list[Row]:
        return self._run_query(self._connection, name, **values)

    def _run_query(self, connection: Connection, name: str, /, **values: Any) -> list[Row]:
        query = self._queries[name]
        return connection.execute(query.statement, query.bind(**values))

    def _read(self, name: str, /, **values: Any) -> list[Row]:
        query = self._queries[name]
        with self._reading() as connection:
            return self._guarded(connection, query.statement, query.bind(**values))

    def _guarded(self, connection: Connection, statement: str, parameters: Sequence[Any]) -> list[Row]:
        """Read with patience: a reader is refused as busy only while another process recovers or closes the log."""
        try:
            return when_free(lambda: connection.execute(statement, parameters), self.patience)
        except SqliteError as error:
            raise unavailable(error, self.path) from error

    @contextmanager
    def _reading(self) -> Iterator[Connection]:
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


class Prepared:
    """Groups and starts that are written and not yet committed; holds the write lock until `commit`, on any thread."""

    __slots__ = ("_answers", "_points", "_store")

    def __init__(self, store: SqliteStore, answers: list[Outcome], points: Sequence[str]) -> None:
        self._store = store
        self._answers = answers
        self._points = points

    def commit(self) -> list[Outcome]:
        """Make it durable; what each was answered. Raises `StoreFailed` when that is not known."""
        self._store.finish(self._points)
        return self._answers


__all__ = ["Answer", "Prepared", "SqliteStore"]
