"""What the ledger can be asked to do: moves for the journal, verbs for everything rarer.

The journal commits the moves of one run as an all-or-nothing *group*; a *verb* is one transaction of its own. Each
database implements the same names. What a move is says `moves`; which one to make is decided in `core`, never here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple, Protocol, TypeVar

from fencepost.core.bulk import Tick
from fencepost.core.callback import HandedOut
from fencepost.core.epoch import Epoch
from fencepost.core.errors import ValueRefused
from fencepost.core.proposals import Closing
from fencepost.core.records import Audit, History, Lease, Run, Signal
from fencepost.core.schedule import Firing, Plan
from fencepost.store.bulk_port import KeepsBulks
from fencepost.store.changes import Changes, Signalled, Told
from fencepost.store.governing import Governing
from fencepost.store.moves import Move, Observe, Piece

R = TypeVar("R")


class Answer(StrEnum):
    """What became of a group.

    `stale`: another generation owns the run. `illegal`: a row was not in the expected state. `duplicate`: the row
    to insert exists. In all three nothing of the group was changed, only its observations were appended.
    """

    MOVED = "moved"
    STALE = "stale"
    ILLEGAL = "illegal"
    DUPLICATE = "duplicate"


@dataclass(slots=True)
class Group:
    """The moves of one run that stand or fall together, in the order in which they were decided.

    Every move names this group's run. `generation` is that of the run before the group.

    `observations` are appended whatever becomes of the moves. When the moves are refused, `if_refused` is appended too,
    and the evidence of every attempt that they settle, as an observation that is not current: a stale owner's report
    is kept although its authority is gone. `audits` are appended with the moves, or not at all: what their owner has
    refused.
    """

    run: int
    generation: int
    moves: list[Move] = field(default_factory=list)
    observations: list[Observe] = field(default_factory=list)
    if_refused: list[Observe] = field(default_factory=list)
    audits: Sequence[Audit] = ()
    wakes: int | None = None
    """The number of the parent that this group wakes by ending its run: locked along, and told of."""
    frees_slot: bool = False
    """Whether it gives up a run of a queue, for which another one may go on: told of."""


class NewRun(NamedTuple):
    """A run to be started; with `lease` it is owned and `running` from its first row on.

    With a `resource` it keeps its place in line: it is not claimed before every earlier one of it has ended. With a
    `queue` it is claimed under the limits of that; of several there with one `dedup` one counts until it has ended.
    `pieces` are those of an input that is kept apart.
    """

    namespace: str
    id: str
    workflow: str
    workflow_version: int
    principal: str | None
    input: str
    fingerprint: str
    parent: int | None
    lease: str | None
    wake_at: int
    at: int
    resource: str | None = None
    parent_step: str | None = None
    queue: str | None = None
    queue_key: str | None = None
    priority: int = 0
    dedup: str | None = None
    pieces: tuple[Piece, ...] = ()

    @property
    def row(self) -> dict[str, Any]:
        """The columns of its row."""
        values = self._asdict()
        del values["pieces"]
        return values


class Started(NamedTuple):
    """A run that was to be started: as it stands now, and whether this start made it."""

    run: Run
    is_new: bool


class RunFilter(NamedTuple):
    """Which runs a list shows; None means any. Pages go by `after` (a run's number), newest first."""

    namespace: str
    state: str | None = None
    workflow: str | None = None
    prefix: str | None = None
    after: int | None = None
    limit: int = 50


class Prepared(Protocol):
    """Groups that are written, or ready to be sent, and not yet committed."""

    def commit(self, *, patience: float) -> list[Answer | Started | ValueRefused]:
        """Make them durable, on any thread; see `Store.commit`. Raises `StoreBusy` to be called again."""

    def watched(self) -> int | None:
        """After `StoreBusy`: the file descriptor on which the answer will come; None: only patience helps."""


Audited = Callable[[Run, Signal], Audit | None]
"""The audit row of a signal, as it was stored for its run; None: it needs none."""


class Changed(NamedTuple):
    """What a verb makes of a schedule: None removes it; with `start` a run is started for its `last_at`."""

    plan: Plan | None
    audit: Audit
    start: NewRun | None = None


Change = Callable[[Plan, int], Changed]

Declaration = Callable[[list[Plan], int], list[Plan]]

Redeclared = Callable[[Plan, Plan], Audit | None]
"""The audit row of a schedule that code declares otherwise than it was; None: nothing that a person has to see."""

Decision = Callable[[History, int], tuple[Sequence[Move], Sequence[Observe], Sequence[Audit]]]


class Store(Governing, KeepsBulks, Protocol):
    """One ledger. Each verb is one transaction; every call may raise `StoreUnavailable`."""

    probe: Callable[[str], None] | None
    """Called at fault points; see `faultpoints`."""

    @property
    def is_remote(self) -> bool:
        """Whether a call waits for a network: then an event loop leaves it to a thread."""

    def now(self) -> int:
        """The database's clock, microseconds since the Unix epoch; settable in tests."""

    def latest(self) -> int:
        """The later of `now` and the highest time stored, so that a clock set back cannot reopen a key's window."""

    def take_lease(self, lease: Lease) -> None:
        """Insert a live lease."""

    def renew_lease(self, lease: str, *, now: int, expires_at: int, seen: int = 0, carries: str | None = None) -> bool:
        """Extend a live lease; False when it is expired or ended: nothing can undo that. None keeps what it carries.

        False too when its last renewal is older than `seen`, the one that its owner remembers.
        """

    def has_gone_back(self, lease: str, seen: int) -> bool:
        """Whether the ledger no longer knows of this lease's renewal at `seen`: it was restored from a backup."""

    def epoch(self) -> Epoch | None:
        """The epoch that the ledger is in; None if it was never restored."""

    def begin_epoch(self, audit: Callable[[Epoch], Audit]) -> Epoch:
        """Begin the next epoch after a restore: every generation, token and lease of before is void.

        The audit row that `audit` makes is appended in the same commit.
        """

    def close_lost_span(self, audit: Callable[[Epoch], Audit]) -> Epoch | None:
        """Note that nothing more will turn up from the time lost with a restore; None: there is no open span."""

    def end_lease(self, lease: str, *, now: int) -> bool:
        """Give a live lease back. Its runs can be claimed at once."""

    def start_run(self, new: NewRun) -> Started:
        """Insert a run, or return the one that has this id, with whether it is new. Comparing is the caller's."""

    async def start_within(self, connection: Any, new: NewRun) -> Started:
        """`start_run` on a caller's own connection, within its transaction: the row is there when that commits.

        Waits only where the connection belongs to the event loop. Raises `Misuse` for one that is not known, in
        autocommit mode, or to another database, and `StoreUnavailable` when the database refuses.
        """

    def claim(
        self, lease: str, workflows: Sequence[tuple[str, int]], *, namespace: str, now: int, margin: int, limit: int,
        suspects: int | None = None, asks: bool = True, queues: bool = False,
    ) -> list[Run]:  # fmt: skip
        """Take due runs: expire overdue leases, raise generations, turn what was in flight into unknown; one commit.

        Due: ready, waiting, cancelling or compensating with `wake_at` passed and no owner; or owned by a lease that
        is expired or ended. A lease is overdue when `expires_at + margin <= now`, with the larger of its own margin and
        the claimer's. At most so many of them are `suspects` (`core.poison`). It `asks` first whether anything is due,
        so that whoever has nothing to do queues for no lock; not after somebody has said so. Raises `LeaseLost` when
        the claimer's own lease is over, in the commit that found it overdue if it was. Runs of queues are claimed with
        `queues`, under their limits.
        """

    def next_wake(
        self, workflows: Sequence[tuple[str, int]], *, namespace: str, margin: int, schedules: Sequence[str] = (),
        queues: bool = False,
    ) -> int | None:  # fmt: skip
        """When the earliest unowned run, lease that owns such runs, or schedule of these names falls due.

        Past if it has; None: never. A schedule that waits for a run is due when that run ends.
        """

    def schedules(self, namespace: str) -> list[Plan]:
        """Every schedule of a namespace, by name."""

    def due_schedules(self, namespace: str, names: Sequence[str], now: int) -> list[Plan]:
        """The schedules of these names, present or former, whose next instant has come and waits for no run."""

    def declare_schedules(
        self, namespace: str, lease: str, declaration: Declaration, audit: Redeclared | None = None
    ) -> list[Plan]:
        """Write what a worker that begins makes of the schedules that there are; they as they are then.

        Each plan that `declaration` returns is inserted (number 0) or written, and noted as declared by this lease.
        What `audit` makes of one that was there before is appended in the same commit.
        """

    def fire_schedule(self, firing: Firing, starts: Sequence[NewRun]) -> list[Started] | None:
        """Start runs and move their schedule, in one commit; None: somebody else has moved it, nothing is started.

        The last of `starts` becomes the schedule's last run, with the last of the firing's instants.
        """

    def change_schedule(self, namespace: str, name: str, change: Change) -> Plan | None:
        """Let a person's verb change a schedule under the write lock, with its audit row; as it is then.

        `change` may raise; then nothing is changed. None: it has removed the schedule. Raises `Misuse` if there is
        none.
        """

    def load(self, run: int) -> History:
        """Everything of one run."""

    def load_all(self, runs: Sequence[int]) -> list[History]:
        """Everything of some runs, in their order."""

    def find(self, namespace: str, run_id: str) -> Run | None:
        """The run with this id; of one that has continued, its last turn."""

    def find_settled(self, namespace: str, run_id: str) -> Run | None:
        """As `find`, after whoever is writing to that run has committed: an end that is on its way is seen."""

    def ended_by_hand(self, runs: Iterable[int]) -> list[int]:
        """The numbers of those of these runs that a person has ended."""

    def turn(self, namespace: str, run_id: str, turn: int) -> Run | None:
        """An earlier turn of a run that has continued."""

    def turns_with_effects(self, run: Run) -> list[int]:
        """The numbers of a run's earlier turns in which something was sent or a child started, the last one first."""

    def children(self, run: int) -> list[Run]:
        """The runs that a run has started, attached and detached; of each its last turn."""

    def unknown_below(self, run: int) -> list[str]:
        """Some operations that are unknown in the run's attached children and in theirs, as "run id: step"."""

    def kept_apart(self, namespace: str, run_id: str, digest: str) -> str:
        """The text of a value of a run that was too large for its row. Raises `StoreUnavailable` if it is damaged."""

    def pinned(self, namespace: str) -> list[tuple[str, int, int, str]]:
        """The workflows and versions to which runs are pinned that go on by themselves: how many, and one run's id."""

    def ahead_of(self, run: Run) -> tuple[str, str] | None:
        """Id and state of the run that stands first in the line of this one's resource; None: it does itself."""

    def runs(self, wanted: RunFilter) -> list[Run]:
        """A page of runs, newest first."""

    def issue_token(self, run: int, generation: int, resource: str) -> int | None:
        """The next token of a resource, above all that were issued; None when another generation owns the run."""

    def heard_by(self, namespace: str, run_id: str, name: str, id: str = "") -> History | None:
        """Of a run, only its open waits of this name, and its signals of this name or this id; None: there is none."""

    def signal_at_once(self, namespace: str, run_id: str, signal: Signal, *, takes: str | None = None) -> Signal | None:
        """`signal` in one trip; None, and nothing is kept: there is more to say of it. `takes`: what its waits must."""

    def signal(self, namespace: str, run_id: str, signal: Signal, audit: Audited | None = None) -> Signal:
        """Store a signal and wake its run if it waits, or return the one that has this id already.

        A run that has ended, or whose one wait of this name is over (no `"many": true` in its detail), refuses it: the
        stored signal says so. What `audit` makes of a new one is appended in the same commit. Raises `RunNotFound`.
        """

    def claim_signalled(
        self, woken: Signalled, lease: str, workflows: Sequence[tuple[str, int]], *, namespace: str, now: int
    ) -> History | None:
        """Claim this run if it is as it was told of, and load it; None: it is not, so `claim` what is due."""

    def audit_left(self, audit: Audited) -> int:
        """Append the audit rows of some signals that the ends of their runs have refused; how many there were.

        A run may end before its owner has heard of a signal, which is refused in the same write, without a row.
        """

    def handed_out(self, digest: str) -> HandedOut | None:
        """For which job the token with this digest was handed out; None: nobody has."""

    def beat(self, namespace: str, run_id: str, name: str, progress: str | None) -> bool:
        """Note that the job of an open wait is alive, with what it says of its progress (JSON); False: none is open."""

    def waits_named(self, namespace: str, name: str, limit: int) -> list[tuple[str, bool]]:
        """The ids of some runs that have waited under this name, each with whether it does now; those that do first."""

    def taken_event(self, namespace: str, name: str, event: str) -> str | None:
        """The run that has taken the signal with this id under this name, or keeps it; None: none that has waited."""

    def count_stranger(self, namespace: str) -> None:
        """Count a token that nobody has handed out."""

    def strangers(self, namespace: str) -> int:
        """How many tokens came that nobody has handed out."""

    def signalled(self, lease: str) -> list[int]:
        """Runs owned by this lease to look at: a kept signal for an open wait, or a cancel without a position yet."""

    def decide(
        self, run: int, decision: Decision, *, confirms: Closing | None = None, ticks: Tick | None = None
    ) -> History:
        """Load a run under the write lock, let `decision` choose moves, apply them with its audit rows, reload.

        What operators' verbs and late evidence use. Moves are made in their own order. The decision may raise; then
        nothing is changed; audit rows that record a refusal are written by `audit`. Raises `IllegalTransition` when a
        move does not fit the history that was handed in. `confirms` closes a proposal in the same commit; raises
        `VerbRefused` where it is closed already, or over. `ticks` ticks off a run of a job; may raise `NotToBeDone`.
        """

    def leases(self) -> list[Lease]:
        """Every lease that is live or still owns a run, newest first."""

    def changes(self, told: Told) -> Changes:
        """Listen for what other processes write; `told` may be called at any time, from any thread. See `changes`."""

    def transact(self, run: int, work: Callable[[Any], tuple[R, Sequence[Move]]], *, patience: float) -> R:
        """Let `work` write through the database's own connection, then make its moves, all of `run`; one commit.

        `patience` is for how many seconds it may wait for a connection or the write lock; `StoreBusy` then.

        Raises what the work raises, and `NotOwner` when a move is refused; then nothing is changed. Raises
        `StoreFailed` when it is not known whether the commit is on disk.
        """

    def commit(self, entries: Sequence[Group | NewRun], *, patience: float) -> list[Answer | Started | ValueRefused]:
        """Commit groups in one transaction; what became of each, or why the database cannot hold it.

        Raises `StoreBusy` when the write lock is not free within `patience` seconds, `StoreFailed` when it is not
        known whether the commit is on disk: from then on every write raises that.
        """

    def prepare(self, entries: Sequence[Group | NewRun], *, patience: float) -> Prepared:
        """Do what `commit` does up to the commit itself. A write lock is held until `Prepared.commit`."""

    def close(self) -> None:
        """Close every connection."""
