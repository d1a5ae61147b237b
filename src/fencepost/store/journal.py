"""Commits whatever is waiting in one transaction, and tells each group what became of it.

One sync serves every group that waits. An event loop that submits several groups in one turn of the loop commits
them together, in place, on its own thread: handing one transition to another thread costs more than it saves. Two
things are handed over to the writer thread: a batch that finds the write lock taken, and the sync alone when syncs
are slow, so that the loop goes on while the disk works (statement by statement, another thread would wait for the
interpreter lock each time). Threads that commit take turns, and whoever has the turn commits for all that wait.

A loop that waits for a server's answer keeps the turn and goes on with other things until it hears it. It may end
before: then whoever wants the turn next finishes its batch first.

What a batch writes, and in what order, is the store's matter (`batch`). The journal stops for good after a commit of
unknown result; it decides nothing about runs. What lets a loop go on meanwhile is in `handover`.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Protocol

from fencepost.core.errors import FencepostError, StoreBusy, StoreFailed, StoreUnavailable, ValueRefused
from fencepost.store.api import Answer, Group, NewRun, Started
from fencepost.store.handover import LOOK_AGAIN, Sent, WriterThread, running_loop
from fencepost.store.pace import Pace
from fencepost.store.ticket import A, Ticket, tell

if TYPE_CHECKING:
    from fencepost.store.faultpoints import Probe
    from fencepost.store.groups import Outcome

# Syncs slower than this, in seconds, go to the writer thread. Measured: a hand-over costs about 0.1 ms, and a loop
# that is busy gets the interpreter back to the writer only after a switch interval, up to 5 ms.
SLOW_SYNC = 0.001

# So many slow syncs are handed over before one is done in place, to see whether the disk has become fast again.
_REMEASURE_EVERY = 64

# Batches of fewer groups than twice this are answered at once: two commits cost more than the wait for one.
HALF_MIN = 8

# So many groups at most share a commit: a bound for how long the write lock is kept, some 20 ms.
GROUPS_MAX = 1_000


class PreparedCommit(Protocol):
    """A batch that its store has prepared: written under the write lock, or ready to be sent."""

    def commit(self, *, patience: float) -> list[Outcome]:
        """Make it durable. Raises `StoreBusy` when it takes longer than `patience` seconds; call it again then."""

    def watched(self) -> int | None:
        """After `StoreBusy`: the file descriptor on which the answer will come; None: only patience helps."""


class JournaledStore(Protocol):
    """What the journal needs of a store."""

    probe: Probe | None

    @property
    def is_remote(self) -> bool:
        """Whether a commit is a server's answer, for which it waits no longer than it may, and no sync."""

    def prepare(self, entries: Sequence[Group | NewRun], *, patience: float) -> PreparedCommit:
        """Write groups and starts without committing them.

        Raises `StoreBusy` when the write lock is not free within `patience` seconds.
        """


class Journal:
    """The one way by which moves reach the ledger. Safe to use from any thread and any event loop.

    `patience` is how many seconds a batch waits for other processes' write locks before its groups are told
    `StoreBusy`; none of them is changed then. `probe` is handed to the store: see `faultpoints`.
    """

    def __init__(self, store: JournaledStore, *, probe: Probe | None = None, patience: float = 30.0) -> None:
        self._store = store
        self._patience = patience
        if probe is not None:
            store.probe = probe
        self._waiting: deque[Ticket[Any]] = deque()
        # Held while a batch is taken and committed, so that a run's groups are committed in the order of submission.
        self._turn = threading.Lock()
        self._flush_due: set[asyncio.AbstractEventLoop] = set()
        self._syncing: asyncio.AbstractEventLoop | None = None
        self._sent: Sent | None = None
        self._claiming = threading.Lock()
        self._sync_seconds = 0.0
        self._slow_syncs = 0
        self._failed: FencepostError | None = None
        self._closed = False
        self._starting = threading.Lock()
        self._writer: WriterThread | None = None
        self.commits = 0
        self.pace = Pace()

    # -- what callers do ------------------------------------------------------------------------------------------

    def submit(self, group: Group, when_done: Callable[[Ticket[Answer]], None] | None = None) -> Ticket[Answer]:
        """Hand in a group; it is committed with everything else that waits.

        On an event loop the ticket is awaited, or `when_done` is called on the loop's thread. From a plain thread the
        writer thread commits it, `when_done` is called there, and the caller may `wait()`. Raises `StoreFailed` after
        a commit of unknown result.
        """
        return self._submit(group, when_done)

    def start(self, new: NewRun) -> Ticket[Started]:
        """Hand in a run to be started, as `submit` does a group; it is committed with everything else that waits."""
        return self._submit(new, None)

    def _submit(self, entry: Group | NewRun, when_done: Callable[[Ticket[A]], None] | None) -> Ticket[A]:
        self._refuse_when_over()
        loop = running_loop()
        ticket = Ticket(entry, loop, when_done)
        self._waiting.append(ticket)
        if loop is None:
            self._hand_over()
        else:
            self._flush_soon(loop)
        return ticket

    def commit(self, group: Group) -> Answer:
        """Commit a group and block until it is durable; whoever waits meanwhile is committed along.

        For threads. On an event loop it blocks the loop; use `submit` there.
        """
        self._refuse_when_over()
        ticket: Ticket[Answer] = Ticket(group, None, None)
        self._waiting.append(ticket)
        self._wait_for_turn()
        try:
            while not ticket.done:
                self._commit_batch(self._take())
        finally:
            self._give_back()
        return ticket.result()

    def flush(self) -> None:
        """Commit everything that waits, on this thread."""
        self._wait_for_turn()
        try:
            while batch := self._take():
                self._commit_batch(batch)
        finally:
            self._give_back()

    def close(self) -> None:
        """Commit what waits, stop the writer thread and refuse everything that comes later."""
        self._closed = True
        self.flush()
        if self._writer is not None:
            self._writer.stop()

    @property
    def failed(self) -> FencepostError | None:
        """Why the journal refuses everything, or None: a process whose journal failed stops dispatching."""
        return self._failed

    def _refuse_when_over(self) -> None:
        if self._failed is not None:
            raise self._failed
        if self._closed:
            raise StoreUnavailable("the journal is closed", hint="open the store and a journal again")

    # -- on an event loop -----------------------------------------------------------------------------------------

    def _flush_soon(self, loop: asyncio.AbstractEventLoop) -> None:
        if loop not in self._flush_due:
            self._flush_due.add(loop)
            loop.call_soon(self._flush_on, loop)

    def _flush_on(self, loop: asyncio.AbstractEventLoop) -> None:
        """Commit on the loop's thread what waits, unless somebody else is committing or the lock is taken."""
        self._flush_due.discard(loop)
        if not self._waiting:
            return
        if not self._turn.acquire(blocking=False):
            # After a sync of its own that was handed over, the loop is called back and flushes then.
            if self._syncing is not loop:
                self._hand_over()
            return
        batch = self._take()
        is_under_way = False
        try:
            is_under_way = self._begin(batch, loop)
        except BaseException as error:
            self._reject(batch, error, loop)
            raise
        finally:
            if not is_under_way:
                self._give_back()

    def _begin(self, batch: list[Ticket[Any]], loop: asyncio.AbstractEventLoop) -> bool:
        """Commit a batch on the loop's thread; True when it is still under way, and keeps the turn until its end."""
        prepared = self._prepare(batch, loop, patience=0.0)
        if prepared is None:
            return False
        if self._is_slow():
            self._finish_elsewhere(loop, batch, prepared)
            return True
        if self._finish(batch, prepared, loop, patience=0.0):
            return False
        self._watch(loop, batch, prepared)
        return True

    def _watch(self, loop: asyncio.AbstractEventLoop, batch: list[Ticket[Any]], prepared: PreparedCommit) -> None:
        """Let the loop go on until the answer comes, if it can hear it; else the writer thread waits for it.

        The answer must be for this loop alone. It may end at any moment, and others would wait for what it never hears.
        """
        is_for_others = any(ticket.loop is not loop for ticket in batch)
        if is_for_others or not self._listen(loop, batch, prepared):
            self._finish_elsewhere(loop, batch, prepared)

    def _listen(self, loop: asyncio.AbstractEventLoop, batch: list[Ticket[Any]], prepared: PreparedCommit) -> bool:
        try:
            descriptor = prepared.watched()
            if descriptor is None:
                return False
            sent = Sent(loop, batch, prepared, descriptor)
            loop.add_reader(descriptor, self._hear, sent)
        except Exception:  # noqa: BLE001 - such as a connection lost this moment: whoever commits it finds out
            return False
        sent.silence = loop.call_later(self._patience, self._hear_nothing, sent)
        self._syncing = loop
        self._sent = sent
        return True

    def _hear(self, sent: Sent) -> None:
        """The answer has come, or a part of it."""
        if not self._claim(sent):
            return
        sent.stop_listening()
        try:
            is_finished = self._finish(sent.batch, sent.prepared, sent.loop, patience=0.0, in_halves=True)
        except BaseException:
            self._syncing = None
            self._give_back()
            raise
        if not is_finished:
            self._watch(sent.loop, sent.batch, sent.prepared)
            return
        self._syncing = None
        self._turn.release()
        # Sent before those who were told go on, so that the server works meanwhile.
        self._flush_on(sent.loop)

    def _hear_nothing(self, sent: Sent) -> None:
        """No answer has come for too long."""
        if self._claim(sent):
            sent.stop_listening()
            self._finish_elsewhere(sent.loop, sent.batch, sent.prepared)

    def _finish_unheard(self) -> bool:
        """Finish the batch of a loop that will not hear of its answer, and end its turn; False: there is none."""
        sent = self._sent
        if sent is None or sent.will_be_heard or not self._claim(sent):
            return False
        sent.stop_listening()
        self._finish_for(sent.loop, sent.batch, sent.prepared)
        return True

    def _claim(self, sent: Sent) -> bool:
        """Become the one who finishes this batch: the loop that hears the answer, or whoever finds that it does not."""
        with self._claiming:
            is_free = self._sent is sent
            if is_free:
                self._sent = None
            return is_free

    def _finish_elsewhere(
        self, loop: asyncio.AbstractEventLoop, batch: list[Ticket[Any]], prepared: PreparedCommit
    ) -> None:
        self._syncing = loop
        self._writer_thread().finish(lambda: self._finish_for(loop, batch, prepared))

    def _is_slow(self) -> bool:
        # A server's answer is listened for, however long it takes.
        if self._sync_seconds < SLOW_SYNC or self._store.is_remote:
            return False
        self._slow_syncs += 1
        return self._slow_syncs % _REMEASURE_EVERY != 0

    def _finish_for(self, loop: asyncio.AbstractEventLoop, batch: list[Ticket[Any]], prepared: PreparedCommit) -> None:
        """On another thread: sync what the loop wrote, and call the loop back once for the whole batch."""
        try:
            self._finish(batch, prepared, None)
        finally:
            self._turn.release()
            # On a closed loop nobody waits any more.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self._after_sync, loop)

    def _after_sync(self, loop: asyncio.AbstractEventLoop) -> None:
        self._syncing = None
        # Not at once: what the answers set going submits first, and shares the commit.
        if self._waiting:
            self._flush_soon(loop)

    # -- on any thread --------------------------------------------------------------------------------------------

    def _wait_for_turn(self) -> None:
        """Block until this thread has the turn."""
        while not self._turn.acquire(blocking=False):
            if not self._finish_unheard() and self._turn.acquire(timeout=LOOK_AGAIN):
                return

    def _give_back(self) -> None:
        self._turn.release()
        if self._waiting:
            self._hand_over()

    def _flush_rest(self) -> bool:
        """What the writer thread does when it is woken: commit until nothing waits; True: somebody else has the turn.

        It never waits for the turn: a loop that has it may be handing its sync over to this very thread. Whoever gives
        the turn back looks whether something waits, and wakes the writer again; a loop that has ended does not, so that
        the writer looks again while something waits.
        """
        while self._waiting:
            if not self._turn.acquire(blocking=False):
                if not self._finish_unheard():
                    return True
                continue
            try:
                if batch := self._take():
                    self._commit_batch(batch)
            finally:
                self._turn.release()
        return False

    def _take(self) -> list[Ticket[Any]]:
        """The next batch, in the order of submission; with the turn held."""
        waiting = self._waiting
        return [waiting.popleft() for _ in range(min(len(waiting), GROUPS_MAX))]

    def _commit_batch(self, batch: list[Ticket[Any]]) -> None:
        prepared = self._prepare(batch, None, patience=None)
        if prepared is not None:
            self._finish(batch, prepared, None)

    def _prepare(
        self, batch: list[Ticket[Any]], loop: asyncio.AbstractEventLoop | None, *, patience: float | None
    ) -> PreparedCommit | None:
        """Write a batch; None when it was told why not, or put back for the writer because the lock is taken."""
        if self._failed is not None:
            self._reject(batch, self._failed, loop)
            return None
        seconds = self._patience if patience is None else patience
        try:
            return self._store.prepare([ticket.entry for ticket in batch], patience=seconds)
        except StoreBusy as error:
            if patience is None:
                self._reject(batch, error, loop)
            else:
                self._waiting.extendleft(reversed(batch))
        except Exception as error:  # noqa: BLE001 - whatever it is, nobody may wait for ever
            self._reject(batch, error, loop)
        except BaseException as error:
            self._reject(batch, error, loop)
            raise
        return None

    def _finish(
        self,
        batch: list[Ticket[Any]],
        prepared: PreparedCommit,
        loop: asyncio.AbstractEventLoop | None,
        *,
        patience: float | None = None,
        in_halves: bool = False,
    ) -> bool:
        """Commit a batch and tell; False when that takes longer than `patience` seconds, so that another goes on.

        `in_halves`: tell the second half after the first one has handed in what it does next, so that from then on the
        server works for one half while the loop works for the other.
        """
        began = time.perf_counter()
        try:
            answers = prepared.commit(patience=self._patience if patience is None else patience)
            assert len(answers) == len(batch), "a store answers each"
        except StoreBusy as error:
            if patience is not None:
                return False
            self._reject(batch, error, loop)
            return True
        except Exception as error:  # noqa: BLE001 - the same
            self._reject(batch, error, loop)
            return True
        except BaseException as error:
            self._reject(batch, error, loop)
            raise
        seconds = time.perf_counter() - began
        self._sync_seconds += 0.2 * (seconds - self._sync_seconds)
        self.commits += 1
        self.pace.committed(len(batch), seconds)
        for ticket, answer in zip(batch, answers, strict=True):
            if isinstance(answer, ValueRefused):
                ticket.error = answer
            else:
                ticket.answer = answer
        half = len(batch) // 2
        if loop is not None and in_halves and half >= HALF_MIN and not self._waiting:
            tell(batch[:half], loop)
            loop.call_soon(loop.call_soon, tell, batch[half:], loop)
        else:
            tell(batch, loop)
        return True

    def _reject(self, batch: list[Ticket[Any]], error: BaseException, loop: asyncio.AbstractEventLoop | None) -> None:
        told = error if isinstance(error, FencepostError) else _unforeseen(error)
        if isinstance(told, StoreFailed):
            self._failed = told
        waiting = [ticket for ticket in batch if not ticket.done]
        for ticket in waiting:
            ticket.error = told
        tell(waiting, loop)

    # -- the writer thread ----------------------------------------------------------------------------------------

    def _hand_over(self) -> None:
        self._writer_thread().wake()

    def _writer_thread(self) -> WriterThread:
        with self._starting:
            if self._writer is None:
                self._writer = WriterThread(self._flush_rest)
            return self._writer


def _unforeseen(error: BaseException) -> StoreUnavailable:
    """What callers are told of an error that no store should raise."""
    told = StoreUnavailable(
        f"the store failed in a way that was not foreseen, so what it has written is not known: {error!r}",
        hint="read back what the ledger holds before writing again, as a worker does by itself; report the cause",
    )
    told.__cause__ = error
    return told
