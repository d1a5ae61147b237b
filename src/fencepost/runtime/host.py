"""What a running process offers its runs: store, journal, lease, the outside, threads, and draws.

One `Host` per worker or ledger. It only holds things together; owning runs is `worker`, the lease's own rules are in
`lease`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from fencepost.core.containment import toward_effect
from fencepost.core.epoch import Epoch
from fencepost.core.identity import canonical
from fencepost.core.permissions import Permissions
from fencepost.core.proposals import Proposal
from fencepost.core.records import Run
from fencepost.core.recovery import Moment
from fencepost.effects.deadline import boot_now
from fencepost.effects.declare import Bound, Effect
from fencepost.effects.outside import Outside
from fencepost.effects.overdue import Overdue
from fencepost.runtime.breakers import Breakers
from fencepost.runtime.counts import Counts
from fencepost.runtime.errands import Errands
from fencepost.runtime.handle import Watchers
from fencepost.runtime.heard import Containments
from fencepost.runtime.tracing import Tracing, configured
from fencepost.store.api import Store
from fencepost.store.journal import Journal

if TYPE_CHECKING:
    from fencepost.effects.attempting import Attempting
    from fencepost.runtime.execution import Execution
    from fencepost.runtime.lease import LeaseHolder
    from fencepost.runtime.queues import Queues
    from fencepost.runtime.schedule import Schedule
    from fencepost.runtime.workflow import Workflow


def _wait_for_it(execution: Execution, attempting: Attempting) -> None:
    """Without a worker nobody else goes on with the run, so its life lasts as long as the body."""


def _nobody_sleeps() -> None:
    """Without a worker nobody waits to be woken."""


@dataclass
class Host:
    """The surroundings of every run in this process, and the clock by which its operations are led."""

    namespace: str
    store: Store
    journal: Journal
    lease: LeaseHolder
    outside: Outside
    executor: Executor
    workflows: Mapping[tuple[str, int], Workflow[..., Any]]
    schedules: Mapping[str, Schedule] = field(default_factory=dict)
    queues: Queues | None = None
    overdue: Overdue = field(default_factory=Overdue)
    errands: Errands = field(default_factory=Errands)
    draw: Callable[[], float] = random.random
    watchers: Watchers = field(default_factory=Watchers)
    abandon: Callable[[Execution, Attempting], None] = _wait_for_it
    """What is done about a body that ignores its cancel; whoever lives runs sets it."""
    wake: Callable[[], None] = _nobody_sleeps
    """Have this process look at once for what is due; whoever sleeps sets it. From any thread."""
    lives_are_brief: bool = False
    """Whether a run leaves memory after each answer, and is replayed from its history for the next; for tests."""
    lost_time: Epoch | None = None
    """The epoch of a restored ledger, until a person says that nothing more turns up from the time lost with it."""

    counts: Counts = field(default_factory=Counts)
    tracing: Tracing | None = None
    """What tells this process's tracer provider what runs do; None while it has none."""
    login: str | None = None
    seconded: Proposal | None = None
    """Nobody's: what is done through a host is done by a run, and not by a person."""

    def policy(self) -> Permissions | None:
        """Nobody's: a parent may cancel and compensate its children whoever may do so by hand."""
        return None

    def __post_init__(self) -> None:
        # Asked several times per step: as functions of their own, and not through three methods.
        self.now = self.store.now
        self.boot_now = boot_now
        self.containments = Containments(self.store, self.namespace)
        self.may_be_contained = self.containments.may_stop
        self.breakers = Breakers(self.store, self.namespace, self.containments)

    def take_lease(self, lease: LeaseHolder) -> None:
        """Begin a life under this lease, and learn whether the ledger has forgotten something."""
        self.tracing = configured()
        self.counts.leases_lost += self.lease.lost
        lease.carries = self.carried
        if self.queues is not None:
            self.queues.write()
        lease.take()
        try:
            self.lost_time = self.open_epoch()
        except BaseException:
            lease.end()  # or its thread would renew it for a life that never begins
            raise
        self.lease = lease  # from here on something may be sent under it

    def left(self, run: Run, how: Run | None) -> None:
        """A life of a run is over here, which was `run` when it began; `how` it was left, None: not by us."""
        self.watchers.run_left(run.no, how)
        if self.tracing is not None:
            self.errands.begin(self.tracing.tell_life(self.store, run))

    def carried(self) -> str:
        """The workflows that this process knows, for everybody to see beside its lease."""
        return canonical([[self.namespace, name, version] for name, version in sorted(self.workflows)])

    @property
    def has_queues(self) -> bool:
        """Whether runs of queues are looked for too: this process declares some, or has heard of others."""
        return self.containments.has_queues or bool(self.queues is not None and self.queues.declared)

    def open_epoch(self) -> Epoch | None:
        """The epoch whose lost time a person has not closed, read from the ledger."""
        epoch = self.store.epoch()
        return epoch if epoch is not None and epoch.is_open else None

    def moment(self, owned_since: int, scope: str) -> Moment:
        """Now, for decisions; see `effects.ports.Clock`."""
        return Moment(self.store.latest(), boot_now() - owned_since, scope)

    def scope_of(self, effect: Effect[..., Any]) -> str:
        """Where a key of this effect is valid now."""
        return self.outside.scope(effect.declared.scope, effect.declared.target)

    def toward(self, bound: Bound[Any], scope: str, *, minds_below: bool) -> str:
        """The marks that an effect adds to those of its run; `minds_below`: unless it may go whatever is below."""
        contract, fence = bound.effect.contract, bound.effect.declared.fence
        return toward_effect(
            self.namespace, bound.effect.declared.target, scope,
            None if fence is None else fence.resource_of(bound.args, bound.kwargs),
            minds_below=minds_below and not (contract.repeatable or contract.independent),
        )  # fmt: skip
