"""A worker: claims runs that are due, lives them in this event loop, and hands them back when it stops.

It sleeps until something it could do appears: a start or signal in this process, a change in the ledger by another, a
timer, or a lease of somebody else that runs out. Taking over a dead worker's runs is the same claim; there is no
recovery process. What is done with a claimed run is `execution`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from fencepost.core.duration import SECOND
from fencepost.core.errors import FencepostError, LeaseLost, LedgerWentBack, StoreFailed, StoreUnavailable, WorkersLost
from fencepost.core.poison import is_poison, is_suspect
from fencepost.core.records import History, Run
from fencepost.core.states import FINAL_RUN_STATES, RunState
from fencepost.effects.concerned import about
from fencepost.effects.deadline import boot_now
from fencepost.effects.failures import for_a_log
from fencepost.runtime import guard
from fencepost.runtime.claiming import Claimed, take_due, take_signalled
from fencepost.runtime.endings import Endings
from fencepost.runtime.execution import Execution
from fencepost.runtime.fate import Fate
from fencepost.runtime.firing import Firings
from fencepost.runtime.lease import LeaseHolder, check_margin_beside
from fencepost.runtime.signalling import audit_what_ends_have_refused
from fencepost.runtime.unlived import hand_back, hold_for_error, ignores_its_time

if TYPE_CHECKING:
    from fencepost.effects.attempting import Attempting
    from fencepost.runtime.host import Host
    from fencepost.store.changes import Changes, Signalled

LOG = logging.getLogger("fencepost.worker")

P = ParamSpec("P")
T = TypeVar("T")

PULSE = 0.05
"""Seconds between two claims while there is more to claim than room."""


RUNS_MAX = 1_000
"""Runs that one worker lives at a time; one that waits costs a row, not a place."""

RELOADS_MAX = 5
"""So many lives in a row that changed nothing because the ledger refused their moves, and a person is asked.

One is enough after a cancel or late evidence; the others are for what may come in the same moment.
"""


class Worker:
    """One process's worker. `host.lease` is replaced by a new life when the old one is lost."""

    def __init__(self, host: Host, *, lease_length: int, margin: int, runs_max: int = RUNS_MAX) -> None:
        self.host = host
        self.runs_max = runs_max
        self._lease_length = lease_length
        self._margin = margin
        self._woken = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        """Where it works, once its lease is taken."""
        self._stopping = False
        self._lives: dict[int, Execution] = {}
        self._life_of: dict[int, asyncio.Task[None]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._firings = Firings(host)
        self._suspects: set[int] = set()
        """Runs lived here that may have brought their last workers down."""
        self._changes: Changes = host.store.changes(self._hear)
        self._told = False
        """Whether the ledger has told of a change that was not looked at yet."""
        self._signalled: set[int] = set()
        """Runs that somebody owns, for which signals were told of that were not looked at yet."""
        self._is_woken = False
        self._endings = Endings(host.store, self._lives, self._notice)
        self.claimed = 0
        self.abandoned: set[asyncio.Task[None]] = host.errands.left
        """Lives whose bodies ignore their cancel; they end when those do, and nobody waits for them."""
        host.abandon = self._abandon
        host.wake = self.wake

    # -- for the app ------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Worker]:
        """Work while inside; on the way out finish what is in flight and give everything back."""
        self._begin_life()
        task = asyncio.create_task(self.work())
        try:
            yield self
        finally:
            self.stop()
            await task

    def stop(self) -> None:
        """Begin nothing new; `work` returns when what is in flight has ended."""
        self._stopping = True
        for execution in self._lives.values():
            execution.draining = True
        self._woken.set()

    def wake(self) -> None:
        """Something in this process may be due; from any thread."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._woken.set)

    def _hear(self, signalled: Signalled | None) -> None:
        """Another process has changed the ledger, or kept a signal for this run; from any thread, which claims it.

        So it is awake sooner, by two threads that need not hear of it first.
        """
        if self._loop is None:
            return
        claimed: Claimed = []
        if signalled is not None and signalled.generation is not None:
            if self._stopping or self.host.lease.lost or len(self._lives) >= self.runs_max:
                return
            with suppress(FencepostError):  # whoever claims what is due says more
                claimed = take_signalled(self.host, signalled)
        self._loop.call_soon_threadsafe(self._take_in, signalled, claimed)

    def _take_in(self, signalled: Signalled | None, claimed: Claimed) -> None:
        if signalled is None:
            self._told = True
        elif signalled.generation is None:
            self._signalled.add(signalled.run)
            if signalled.run not in self._life_of:
                return  # somebody else's, or `_begin` comes to it
        elif claimed:
            self._begin_all(claimed)
            return
        self._woken.set()

    def has_room(self) -> bool:
        """Whether a run started now may be lived here at once."""
        return (
            self._loop is asyncio.get_running_loop()  # blocking calls have another loop; they leave it to the claim
            and not self._stopping
            and not self.host.lease.lost
            and len(self._lives) < self.runs_max
        )

    def adopt(self, run: Run) -> None:
        """Live a run that was started under this worker's lease."""
        self._begin(run, History(run))

    # -- the loop ---------------------------------------------------------------------------------------------------

    async def work(self) -> None:
        """Work until `stop`; survives the loss of a lease by beginning a new life."""
        if self._loop is None:
            self._begin_life()
        try:
            while not self._stopping:
                await self._turn()
        except Exception as error:
            # Said now: whoever entered `running` hears of it only on the way out.
            LOG.critical("this worker has ended, and its process sends nothing more: %s", error)
            raise
        finally:
            self.stop()
            await self._until_all_are_left()
            await self.host.errands.all_ended()
            self._changes.close()
            with suppress(StoreUnavailable):
                await self._ask(audit_what_ends_have_refused, self.host.store)
            await asyncio.to_thread(self.host.lease.end)

    def _begin_life(self) -> None:
        """Take the lease under which this worker works; raises `StoreUnavailable` where it is asked to work."""
        guard.install()
        check_margin_beside(self.host.store.leases(), self._margin, self.host.store.now())
        if self.host.lease.is_over:  # of an earlier worker of this process
            self.host.lease = LeaseHolder(self.host.store, length=self._lease_length, margin=self._margin)
        self.host.take_lease(self.host.lease)
        try:
            self._firings.declare()
        except BaseException:
            self.host.lease.end()  # or its thread would renew it for a worker that never begins
            raise
        self._loop = asyncio.get_running_loop()

    async def _turn(self) -> None:
        self.host.lease.tick(self._longest_step())
        try:
            if self.host.lease.lost:
                await self._new_life()
            if not self._firings.are_declared:
                await asyncio.to_thread(self._firings.declare)
            pause = await self._claim()
            pause = min(pause, await self._endings.look_after(self._ask))
            await self.host.containments.look_after(self._ask)
        except LeaseLost as error:
            self.host.lease.give_up(str(error))
            return
        except (StoreFailed, LedgerWentBack):
            raise
        except StoreUnavailable as error:
            LOG.warning("the ledger cannot be reached: %s", error)
            pause = 1.0
        await self._sleep(min(pause, self.host.containments.pause))

    async def _claim(self) -> float:
        """Take what is due; returns how many seconds there is nothing to do unless something changes."""
        store, kinds = self.host.store, list(self.host.workflows)
        room = self.runs_max - len(self._lives)
        if room <= 0:
            return self._changes.pause_max  # the run that leaves wakes us; what is due until then is others' to take
        if not (self._is_woken and store.is_remote):  # a claim asks too, and one question less is sooner awake
            due = await self._next_wake(kinds)
            if due is None or due > store.now():
                return self._pause(due)
        claimed = await asyncio.to_thread(
            take_due, self.host, self._firings, margin=self._margin, room=room, suspects=0 if self._suspects else 1
        )
        self._begin_all(claimed)
        if len(claimed) == room:
            return PULSE
        await asyncio.sleep(0)  # they go on before anything else is asked
        due = await self._next_wake(kinds)
        # What is due already was not to be had: a second suspect waits for its place.
        return self._pause(due) or PULSE

    async def _next_wake(self, kinds: list[tuple[str, int]]) -> int | None:
        return await self._ask(
            self.host.store.next_wake, kinds, namespace=self.host.namespace, margin=self._margin,
            schedules=self._firings.names, queues=self.host.has_queues,
        )  # fmt: skip

    async def _ask(self, verb: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Ask the store: here, or on a thread where the answer takes a network's time, since the loop must go on."""
        if self.host.store.is_remote:
            return await asyncio.to_thread(verb, *args, **kwargs)
        return verb(*args, **kwargs)

    def _pause(self, due: int | None) -> float:
        rest = self._changes.pause_max
        return rest if due is None else min(rest, max(0.0, (due - self.host.store.now()) / SECOND))

    async def _sleep(self, seconds: float) -> None:
        """Sleep until `seconds` are over, this process wakes us, or another process has changed the ledger."""
        until = boot_now() + round(seconds * SECOND)
        self._is_woken = False
        while not self._stopping and (left := (until - boot_now()) / SECOND) > 0:
            self.host.lease.tick(self._longest_step())
            try:
                # First wait, then look: our own commits change the ledger too, and are no reason to look at once.
                await asyncio.wait_for(self._woken.wait(), min(left, self._changes.pulse))
            except TimeoutError:
                if not await self._changed():
                    continue
            else:
                self._is_woken = True
                if self._told or self._signalled:
                    await self._changed()
            break
        self._woken.clear()

    async def _changed(self) -> bool:
        self._told = False
        is_signalled = not self._signalled.isdisjoint(self._life_of)
        self._signalled.clear()
        try:
            if not (self._changes.look() or is_signalled):
                return False
            signalled = await self._ask(self.host.store.signalled, self.host.lease.id) if self._lives else ()
            for run in signalled:
                await self._notice(run)
        except (StoreFailed, LedgerWentBack):
            raise
        except StoreUnavailable as error:
            LOG.warning("the ledger cannot be reached: %s", error)  # the next claim says more
        return True

    async def _notice(self, run: int) -> None:
        """Hand what is new of a run to its life here; what was loaded while the run moved may be older than that."""
        while (execution := self._lives.get(run)) is not None:
            state = execution.state
            loaded = await self._ask(self.host.store.load, run)
            if self._lives.get(run) is execution and execution.state is state:
                execution.notice(loaded)
                return

    async def _new_life(self) -> None:
        """The lease is lost: let what is in flight report as evidence, then begin again under a new lease."""
        await self._until_all_are_left()
        if self.host.lease.went_back:
            raise LedgerWentBack(
                "the ledger is older than what this worker has seen in it: it was restored from a backup",
                hint="run `fencepost restored`, then start the workers again",
            )
        # Given back, or the thread that renews it would keep its runs from everybody.
        await asyncio.to_thread(self.host.lease.end)
        lease = LeaseHolder(self.host.store, length=self._lease_length, margin=self._margin)
        await asyncio.to_thread(self.host.take_lease, lease)

    def _longest_step(self) -> int:
        return max((execution.longest_step() for execution in self._lives.values()), default=SECOND)

    # -- living runs ------------------------------------------------------------------------------------------------

    def _begin_all(self, claimed: Claimed) -> None:
        for run, history in claimed:
            self.claimed += 1
            self._begin(run, history)

    def _begin(self, run: Run, history: History | None) -> None:
        self.host.watchers.here.add(run.no)
        if run.no in self._signalled:
            self._woken.set()
        if is_suspect(run.takeovers):
            self._suspects.add(run.no)
        life = self._life_of[run.no] = asyncio.create_task(self._live(run, history), context=about(run))
        self._await_in_the_end(life)

    def _await_in_the_end(self, task: asyncio.Task[None]) -> None:
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _until_all_are_left(self) -> None:
        """Wait for what is in flight, each for its timeout and the grace of `overdue` at most."""
        while self._tasks:
            await asyncio.wait(self._tasks, timeout=PULSE)

    def _abandon(self, execution: Execution, attempting: Attempting) -> None:
        """Go on without a body that ignores its cancel: its life here is over, and what it still says is evidence."""
        run = execution.history.run
        if self._lives.get(run.no) is not execution:
            return  # abandoned already, for another body
        said = "run %s does not wait for %s, although %s"
        about(run).run(LOG.error, said, run.id, attempting.position, attempting.why_over)
        del self._lives[run.no]
        self._suspects.discard(run.no)
        execution.draining = True
        life = self._life_of.pop(run.no)
        self._tasks.discard(life)
        self.abandoned.add(life)
        life.add_done_callback(self.abandoned.discard)
        self._await_in_the_end(asyncio.create_task(self._go_on_without(execution, attempting), context=about(run)))

    async def _go_on_without(self, execution: Execution, attempting: Attempting) -> None:
        run = execution.history.run
        try:
            await execution.record([], [])  # what its other lanes have brought so far
            if attempting.may_write or attempting.told:
                await asyncio.to_thread(hand_back, self.host.store, run)
            else:
                await asyncio.to_thread(self._hold, run, ignores_its_time(run, attempting))
        except StoreUnavailable as error:
            self._give_up(run, error)
        finally:
            self.host.left(run, None)
            self._woken.set()

    def _give_up(self, run: Run, error: StoreUnavailable) -> None:
        """Nothing more is sent under this lease; whoever claims the run next finds everything in the ledger."""
        LOG.warning("run %s is given up: %s", run.id, error)
        self.host.lease.give_up(f"the ledger failed: {error}")

    async def _live(self, run: Run, history: History | None) -> None:
        left: Run | None = None
        try:
            if is_poison(run.takeovers):
                raise WorkersLost(  # noqa: TRY301 - held below, as everything that cannot be lived is
                    f"{run.takeovers} workers in a row were lost with this run, and nothing of it was answered",
                    hint="see what the step does to its process, mend it, then resume the run",
                    ids={"run": run.id},
                )
            left = await self._live_until_left(run, history)
            if left is not None and left.state is RunState.CONTINUED:
                await self._begin_next_turn(left)
        except StoreUnavailable as error:
            self._give_up(run, error)
        except Exception as error:  # noqa: BLE001 - a run must never be left owned and not lived
            await asyncio.to_thread(self._hold, run, error)
        finally:
            was_full = len(self._lives) >= self.runs_max or run.no in self._suspects
            self._suspects.discard(run.no)
            # And not a later life of it that has begun here meanwhile.
            if (last := self._lives.get(run.no)) is not None and last.owner.generation == run.generation:
                del self._lives[run.no]
            if self._life_of.get(run.no) is asyncio.current_task():
                del self._life_of[run.no]
            self.host.left(run, left)
            self._endings.some_are_there = True
            makes_room = was_full or self._firings.wait_for_runs
            is_looked_for = left is not None and {left.resource, left.parent, left.queue} != {None}
            if makes_room or left is None or left.state not in FINAL_RUN_STATES or is_looked_for:
                self._woken.set()  # the last: the next in its line may begin, or its parent go on

    async def _begin_next_turn(self, left: Run) -> None:
        """Live the turn with which a run goes on, which this worker owns from its first row on."""
        following = await self._ask(self.host.store.find, left.namespace, left.id)
        assert following is not None, "a turn ends in the commit that begins the next one"
        if following.lease == self.host.lease.id:
            self._begin(following, None)

    async def _live_until_left(self, run: Run, history: History | None) -> Run | None:
        """Live the run, loading it again where the ledger says something else; how it is left, None: not by us."""
        owned_since = boot_now()
        in_vain = 0
        while True:
            loaded = history if history is not None else await self._ask(self.host.store.load, run.no)
            history = None
            if loaded.run.lease != self.host.lease.id or loaded.run.generation != run.generation:
                return None
            workflow = self.host.workflows[(run.workflow, run.workflow_version)]
            execution = Execution(self.host, workflow, loaded, owned_since)
            execution.draining = self._stopping
            self._lives[run.no] = execution
            fate = await execution.live()
            if fate is not Fate.RELOAD:
                return execution.history.run if fate is Fate.GIVEN_UP else None
            refused = execution.why_refused()
            in_vain = 0 if refused is None else in_vain + 1
            if refused is not None and in_vain > RELOADS_MAX:
                raise refused

    def _hold(self, run: Run, error: Exception) -> None:
        """Hold a run that could not be lived; whatever of it was in flight is unknown to whoever goes on."""
        LOG.warning("run %s is held: %s", run.id, for_a_log(error))
        try:
            hold_for_error(self.host.store, run, error)
        except FencepostError as refused:
            # Owned and not lived until the lease is over; who claims it then tries again.
            LOG.exception("run %s could not be held", run.id)
            if isinstance(refused, StoreUnavailable):
                self.host.lease.give_up(f"the ledger failed: {refused}")
