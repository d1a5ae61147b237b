"""The verbs of the store, written once over named statements: leases, runs, claims, signals, decisions, audit.

Each verb is one transaction. The two databases differ in how one begins and commits, in their SQL, and in what must be
locked where several write at a time: `sqlite` and `postgres`. The journal's commit is `batch`'s part; which move to
make is decided in `core`.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from itertools import zip_longest
from typing import Any, Concatenate, ParamSpec, TypeVar

from fencepost.core.bulk import Tick
from fencepost.core.epoch import Epoch
from fencepost.core.errors import LeaseLost, NotOwner, VerbRefused
from fencepost.core.poison import fitting
from fencepost.core.position import effect_position
from fencepost.core.proposals import Closing, ProposalState
from fencepost.core.records import Audit, History, Lease, Run
from fencepost.core.transitions import IllegalTransition
from fencepost.store import callers, faultpoints, histories, rows
from fencepost.store.api import Decision, NewRun, RunFilter, Started
from fencepost.store.callers import Steps
from fencepost.store.chain import append
from fencepost.store.governing import AuditFilter
from fencepost.store.moves import Move, Observe
from fencepost.store.queries import Query, Row
from fencepost.store.statements import Probe, Statements, Wanted, Work
from fencepost.store.ticks import tick
from fencepost.store.walk import Walk

Result = TypeVar("Result")
P = ParamSpec("P")

Body = Callable[[Any], tuple[Result, Sequence[Move]]]
"""What writes through the database's own connection, and returns its value and the moves that record it."""

_NO_ROW_HAS_THIS_NUMBER = 2**63 - 1


def whole(verb: Callable[Concatenate[Any, P], Result]) -> Callable[Concatenate[Any, P], Result]:
    """Mark a verb as one transaction: the store may do it again from its start, if nothing was committed."""

    @wraps(verb)
    def again(self: Verbs, /, *args: P.args, **kwargs: P.kwargs) -> Result:
        return self._whole(lambda: verb(self, *args, **kwargs))

    return again


class Verbs(ABC):
    """What both stores do alike."""

    dialect: str
    probe: Probe | None
    queries: Mapping[str, Query]

    @abstractmethod
    def now(self) -> int:
        """See `Store.now`."""

    @abstractmethod
    def latest(self) -> int:
        """See `Store.latest`."""

    def _whole(self, verb: Callable[[], Result]) -> Result:
        """Do a verb; once more where the database may refuse a transaction for reasons that pass."""
        return verb()

    @abstractmethod
    def _reading(self) -> AbstractContextManager[Statements]:
        """A connection to read from, each statement by itself."""

    @abstractmethod
    def _snapshot(self) -> AbstractContextManager[Statements]:
        """A connection to read from, all statements from one moment."""

    @abstractmethod
    def _lasting(self) -> AbstractContextManager[Statements]:
        """A connection to read from, statement by statement, all of them from one moment."""

    @abstractmethod
    def _writing(self, *points: str, patience: float | None = None) -> AbstractContextManager[Work]:
        """One write transaction, committed on the way out; it passes these fault points from the start."""

    @abstractmethod
    def _write(self, work: Work, moves: Iterable[Move]) -> Move | None:
        """Write moves in their own order; the first one whose guard refused, or None."""

    @abstractmethod
    def _lent(self, work: Work) -> AbstractContextManager[Any]:
        """The driver's own connection of the transaction, for the body of an atomic effect."""

    @abstractmethod
    def _observe(self, work: Work, observations: Sequence[Observe]) -> None:
        """Append observations."""

    def _first_in_line(self, work: Work, wanted: dict[str, str], due: list[Row], now: int, limit: int) -> list[Row]:  # noqa: ARG002 - a server needs them
        """Those of these due runs that may be claimed, whatever others claim now: all, where nobody else can."""
        return due

    @abstractmethod
    def _due_in_queues(self, work: Work, wanted: dict[str, str], now: int, limit: int) -> list[Row]:
        """The runs of queues that may be claimed now, as rows of `due_runs`."""

    @abstractmethod
    def _next_in_queues(self, reading: Statements, namespace: str, workflows: Sequence[tuple[str, int]]) -> list[int]:
        """When the next run of each queue falls due, of those of which any does."""

    # -- leases ---------------------------------------------------------------------------------------------------

    @whole
    def take_lease(self, lease: Lease) -> None:
        """See `Store.take_lease`."""
        values = {name: getattr(lease, name) for name in self.queries["take_lease"].parameters}
        with self._writing() as work:
            work.change("take_lease", **values)

    @whole
    def renew_lease(self, lease: str, *, now: int, expires_at: int, seen: int = 0, carries: str | None = None) -> bool:
        """See `Store.renew_lease`."""
        values = {"lease": lease, "now": now, "expires_at": expires_at, "seen": seen, "carries": carries}
        with self._writing("lease:live:renew") as work:
            return work.change("renew_lease", **values) == 1

    @whole
    def has_gone_back(self, lease: str, seen: int) -> bool:
        """See `Store.has_gone_back`."""
        return not self._read("lease_since", lease=lease, seen=seen)

    @whole
    def end_lease(self, lease: str, *, now: int) -> bool:
        """See `Store.end_lease`."""
        with self._writing("lease:live:end") as work:
            work.announce()
            return work.change("end_lease", lease=lease, now=now) == 1

    @whole
    def leases(self) -> list[Lease]:
        """See `Store.leases`."""
        return [rows.lease(row) for row in self._read("all_leases")]

    # -- epochs ---------------------------------------------------------------------------------------------------

    @whole
    def epoch(self) -> Epoch | None:
        """See `Store.epoch`."""
        return rows.epoch(self._read("current_epoch"))

    @whole
    def begin_epoch(self, audit: Callable[[Epoch], Audit]) -> Epoch:
        """See `Store.begin_epoch`."""
        now = self.now()
        with self._writing() as work:
            work.lock("lock_every_run")
            last = int(work.execute("last_trace")[0][0])
            work.change("begin_epoch", now=now, lost_from=min(now, last))
            for statement in ("raise_generations", "raise_tokens"):
                work.change(statement)
            work.change("expire_all_leases", now=now)
            return self._audited_epoch(work, audit)

    @whole
    def close_lost_span(self, audit: Callable[[Epoch], Audit]) -> Epoch | None:
        """See `Store.close_lost_span`."""
        with self._writing() as work:
            return self._audited_epoch(work, audit) if work.change("close_lost_span", now=self.now()) else None

    def _audited_epoch(self, work: Work, audit: Callable[[Epoch], Audit]) -> Epoch:
        epoch = rows.epoch(work.execute("current_epoch"))
        assert epoch is not None, "it has just begun, or its span was just closed"
        self._append(work, audit(epoch))
        return epoch

    # -- runs -----------------------------------------------------------------------------------------------------

    @whole
    def start_run(self, new: NewRun) -> Started:
        """See `Store.start_run`."""
        with self._writing(faultpoints.of_start(new)) as work:
            return self._start(work, new)

    def _start(self, work: Work, new: NewRun) -> Started:
        for piece in new.pieces:
            work.change("keep_piece_of_start", **piece._asdict())
        is_new = work.change("start_run", **new.row) == 1
        if is_new and new.lease is None:
            work.announce()
        found = work.execute("find_run", namespace=new.namespace, id=new.id)
        if not found:  # its queue has one that stands for the same
            found = work.execute("find_duplicate", namespace=new.namespace, queue=new.queue, dedup=new.dedup)
        return Started(rows.run(found[0]), is_new)

    @property
    @abstractmethod
    def place(self) -> str:
        """What may be shown of where the ledger is."""

    @abstractmethod
    def _joining(self, new: NewRun) -> Steps[Started]:
        """The statements that start a run on a caller's own connection."""

    async def start_within(self, connection: Any, new: NewRun) -> Started:
        """See `Store.start_within`."""
        return await callers.run(self._joining(new), connection, dialect=self.dialect, ledger=self.place)

    @whole
    def find(self, namespace: str, run_id: str) -> Run | None:
        """See `Store.find`."""
        found = self._read("find_run", namespace=namespace, id=run_id)
        return rows.run(found[0]) if found else None

    @whole
    def ahead_of(self, run: Run) -> tuple[str, str] | None:
        """See `Store.ahead_of`."""
        found = self._read("ahead_of", namespace=run.namespace, resource=run.resource, run=run.no)
        return found[0] if found else None

    @whole
    def turn(self, namespace: str, run_id: str, turn: int) -> Run | None:
        """See `Store.turn`."""
        found = self._read("find_turn", namespace=namespace, id=run_id, turn=turn)
        return rows.run(found[0]) if found else None

    @whole
    def turns_with_effects(self, run: Run) -> list[int]:
        """See `Store.turns_with_effects`."""
        found = self._read("turns_with_effects", namespace=run.namespace, id=run.id, turn=run.turn)
        return [number for (number,) in found]

    @whole
    def children(self, run: int) -> list[Run]:
        """See `Store.children`."""
        return [rows.run(row) for row in self._read("children_of", run=run)]

    @whole
    def unknown_below(self, run: int) -> list[str]:
        """See `Store.unknown_below`."""
        found = self._read("unknown_below", run=run)
        return [f"{run_id}: {effect_position(step, item or None)}" for run_id, step, item in found]

    @whole
    def pinned(self, namespace: str) -> list[tuple[str, int, int, str]]:
        """See `Store.pinned`."""
        found = self._read("pinned_runs", namespace=namespace)
        return [(name, version, count, run_id) for name, version, count, run_id in found]

    @whole
    def runs(self, wanted: RunFilter) -> list[Run]:
        """See `Store.runs`."""
        values = wanted._asdict()
        values["after"] = _NO_ROW_HAS_THIS_NUMBER if wanted.after is None else wanted.after
        if wanted.state is None:
            del values["state"]
        name = "list_runs" if wanted.state is None else "list_runs_in_state"
        return [rows.run(row) for row in self._read(name, **values)]

    @whole
    def claim(
        self, lease: str, workflows: Sequence[tuple[str, int]], *, namespace: str, now: int, margin: int, limit: int,
        suspects: int | None = None, asks: bool = True, queues: bool = False,
    ) -> list[Run]:  # fmt: skip
        """See `Store.claim`. Raises `LeaseLost` when the claimer's own lease is over."""
        if asks:
            due = self.next_wake(workflows, namespace=namespace, margin=margin, queues=queues)
            if due is None or due > now:
                return []
        wanted = {"namespace": namespace, "workflows": json.dumps(workflows)}
        with self._writing() as work:
            expired, live, found, unowned = work.execute_all(
                [
                    ("expire_leases", {"now": now, "margin": margin}),
                    ("lease_is_live", {"lease": lease}),
                    ("orphaned_runs", {"limit": limit, **wanted}),
                    ("due_runs", {"now": now, "limit": limit, **wanted}),
                ]
            )
            if expired:
                work.passing(["lease:live:expire"])
            if live:
                unowned = self._first_in_line(work, wanted, unowned, now, limit)
                queued = self._due_in_queues(work, wanted, now, limit) if queues else []
                # By turns: neither those of queues nor the others keep the rest from coming.
                turns = (one for both in zip_longest(unowned, queued) for one in both if one is not None)
                taken = [*fitting(found, suspects), *turns][:limit]
                if not taken and not expired:
                    work.was_in_vain()
                return self._claim_all(work, lease, taken, now) if taken else []
        # After the commit, so that the expiry of this very lease stands.
        raise LeaseLost(
            "this process's own lease is over, so it may not claim runs",
            hint="take a new lease",
            ids={"lease": lease},
        )

    def _claim_all(self, work: Work, lease: str, due: Sequence[Row], now: int) -> list[Run]:
        if self.probe is not None:
            for run, _, state, *_ in due:
                states = [row[0] for row in work.execute("operation_states_of", run=run)]
                work.passing(faultpoints.of_claim(state, states))
        writes: list[Wanted] = []
        for run, generation, state, takeovers, answers, *_ in due:
            claimed = {"run": run, "generation": generation, "expected": state, "lease": lease, "now": now}
            counted = {"takeovers": takeovers, "answers": answers}
            taken_over = {"run": run, "generation": generation + 1, "now": now}
            writes += [("claim_run", claimed | counted), ("take_over_operations", taken_over)]
        runs = [rows.run(row) for (row,) in work.commit_with(writes, [("load_run", {"run": run}) for run, *_ in due])]
        assert all(run.lease == lease for run in runs), "the runs were read under the same lock"
        return runs

    @whole
    def next_wake(
        self, workflows: Sequence[tuple[str, int]], *, namespace: str, margin: int, schedules: Sequence[str] = (),
        queues: bool = False,
    ) -> int | None:  # fmt: skip
        """See `Store.next_wake`."""
        wanted = {"namespace": namespace, "workflows": json.dumps(workflows)}
        asked: list[Wanted] = [("next_due_run", wanted), ("next_due_lease", {"margin": margin, **wanted})]
        if schedules:
            asked.append(("next_due_schedule", {"namespace": namespace, "names": json.dumps(schedules)}))
        with self._reading() as reading:
            found = reading.execute_all(asked)
            queued = self._next_in_queues(reading, namespace, workflows) if queues else []
        return min((*(due for ((due,),) in found if due is not None), *queued), default=None)

    @whole
    def load(self, run: int) -> History:
        """See `Store.load`. Raises `RunNotFound` when no run has this number."""
        with self._snapshot() as reading:
            return histories.load_one(reading, run)

    @whole
    def load_all(self, runs: Sequence[int]) -> list[History]:
        """See `Store.load_all`. Raises `RunNotFound` when no run has one of these numbers."""
        with self._snapshot() as reading:
            return histories.load(reading, runs)

    @whole
    def decide(
        self, run: int, decision: Decision, *, confirms: Closing | None = None, ticks: Tick | None = None
    ) -> History:
        """See `Store.decide`. Raises `IllegalTransition` when a move's own guard refuses it."""
        with self._writing() as work:
            work.lock("lock_family", run=run)
            if ticks is not None:
                tick(work, ticks, self.now())
            if confirms is not None:
                confirm(work, confirms, self.now())
            history = histories.load_one(work, run)
            moves, observations, audits = decision(history, self.now())
            work.passing(faultpoints.of_moves(moves) if self.probe else [])
            refused = self._write(work, moves)
            if refused is not None:
                raise IllegalTransition(
                    f"{type(refused).__name__} does not fit the row as it is: {refused}",
                    hint="decide from the history handed in; give each move the generation that it acts under",
                    ids={"run": history.run.id, "generation": str(history.run.generation)},
                )
            self._observe(work, observations)
            for row in audits:
                self._append(work, row)
            if moves:
                work.announce()
            return histories.load_one(work, run)

    @whole
    def issue_token(self, run: int, generation: int, resource: str) -> int | None:
        """See `Store.issue_token`."""
        with self._writing() as work:
            work.lock("lock_run", run=run)
            issued = work.execute("issue_token", run=run, generation=generation, resource=resource)
            return int(issued[0][0]) if issued else None

    def transact(self, run: int, body: Body[Result], *, patience: float) -> Result:
        """See `Store.transact`. Not `whole`: whether the body, which is the user's, runs again is decided elsewhere."""
        with self._writing(patience=patience) as work:
            with self._lent(work) as connection:
                value, moves = body(connection)
            work.passing(faultpoints.of_moves(moves) if self.probe else [])
            assert {move.run for move in moves} <= {run}, "an atomic effect leads one run on"
            work.lock("lock_run", run=run)
            _refuse(self._write(work, moves))
            work.announce()
            return value

    # -- audit ----------------------------------------------------------------------------------------------------

    @whole
    def audit(self, row: Audit) -> Audit:
        """See `Store.audit`."""
        with self._writing() as work:
            return self._append(work, row)

    @whole
    def audits(self, namespace: str | None, run_id: str | None) -> list[Audit]:
        """See `Store.audits`."""
        if run_id is None:
            return [rows.audit(row) for row in self._read("all_audits", namespace=namespace)]
        return [rows.audit(row) for row in self._read("audits_of_run", namespace=namespace, run_id=run_id)]

    @whole
    def list_audits(self, wanted: AuditFilter) -> list[Audit]:
        """See `Store.list_audits`."""
        values = wanted._asdict()
        values["before"] = _NO_ROW_HAS_THIS_NUMBER if wanted.before is None else wanted.before
        if wanted.run_id is None:
            del values["run_id"]
        name = "list_audits" if wanted.run_id is None else "list_audits_of_run"
        return [rows.audit(row) for row in self._read(name, **values)]

    @contextmanager
    def walk(self) -> Iterator[Walk]:
        """See `Store.walk`. Not `whole`: what was read so far has been looked at already."""
        with self._lasting() as reading:
            yield Walk(reading, self.now())

    def _append(self, work: Work, row: Audit) -> Audit:
        work.lock("lock_audit")
        return append(work, row)

    def _read(self, name: str, /, **values: Any) -> list[Row]:
        with self._reading() as reading:
            return reading.execute(name, **values)


def confirm(work: Work, confirms: Closing, now: int) -> None:
    """Close a proposal as confirmed, in the transaction of the verb that it was made for; see `Store.decide`."""
    confirmed = ProposalState.CONFIRMED.value
    if not work.change("close_proposal", no=confirms.no, state=confirmed, by=confirms.by, now=now):
        raise VerbRefused(
            f"proposal {confirms.no} is closed already, or its time is over",
            hint="`fencepost proposals` lists those that can be confirmed",
            ids={"proposal": str(confirms.no)},
        )


def _refuse(move: Move | None) -> None:
    if move is not None:
        raise NotOwner(
            "the ledger refused the result, so the step's writes were taken back",
            hint="somebody else owns the run, or the attempt was given up; nothing was applied",
            ids={"run": str(move.run), "generation": str(move.generation)},
        )
