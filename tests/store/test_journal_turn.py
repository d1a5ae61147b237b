"""The journal's turn is never kept by nobody: not by a loop that has ended, by a store that fails, or by two in a ring.

The stores here are made for it: one does something else in the middle of `prepare`, one answers when it is told to, one
fails in ways that no store should. What else a journal promises is in test_journal.
"""

import asyncio
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from fencepost.core.errors import StoreBusy, StoreFailed, StoreUnavailable
from fencepost.store import journal as journal_module
from fencepost.store.api import Answer, Group
from fencepost.store.journal import SLOW_SYNC, Journal
from fencepost.store.ticket import Ticket
from tests.polling import until

LONG_ENOUGH = 0.1
"""Seconds in which a writer that was woken has come as far as it gets."""

FIRST, SECOND, THIRD = Group(1, 1), Group(2, 1), Group(3, 1)


class InterruptedStore:
    """Answers every group; the first `prepare` does `meanwhile` before it returns."""

    probe = None
    is_remote = False

    def __init__(self) -> None:
        self.meanwhile: Callable[[], None] | None = None

    def prepare(self, entries: Sequence[Any], *, patience: float) -> "Written":
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile()
        return Written(len(entries))


class Written:
    def __init__(self, count: int) -> None:
        self._count = count

    def commit(self, *, patience: float) -> list[Any]:
        return [Answer.MOVED] * self._count

    def watched(self) -> None:
        """It answers at once."""


class Server:
    """Answers when it is told to; a loop can listen for that."""

    probe = None
    is_remote = True

    def __init__(self) -> None:
        self.asked: list[list[Group]] = []
        self.answered: list[Group] = []
        self.ear, self._mouth = socket.socketpair()
        self._answers = threading.Semaphore(0)
        self.watched: Callable[[], int] = self.ear.fileno

    def prepare(self, entries: Sequence[Any], *, patience: float) -> "Asked":
        self.asked.append([*entries])
        return Asked(self, self.asked[-1])

    async def was_asked(self, *, times: int = 1) -> None:
        while len(self.asked) < times:  # noqa: ASYNC110 - the very loop that turns here is what is looked at
            await asyncio.sleep(0)

    def answer(self) -> None:
        self._answers.release()
        self._mouth.send(b"!")

    def wait(self, seconds: float) -> bool:
        has_come = self._answers.acquire(timeout=seconds)
        if has_come:
            self.ear.recv(1)
        return has_come


class Asked:
    def __init__(self, server: Server, groups: list[Group]) -> None:
        self._server = server
        self._groups = groups

    def commit(self, *, patience: float) -> list[Any]:
        if not self._server.wait(patience):
            raise StoreBusy("no answer yet")
        self._server.answered += self._groups
        return [Answer.MOVED] * len(self._groups)

    def watched(self) -> int:
        return self._server.watched()


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.ear.close()
    made._mouth.close()


def in_time(work: Callable[[], Any]) -> Any:
    """What it returns, on a thread of its own; a failure when it goes on for ever."""
    came: list[Any] = []
    thread = threading.Thread(target=lambda: came.append(work()), daemon=True)
    thread.start()
    thread.join(10)
    assert came, "it waits for ever, or has raised"
    return came[0]


def ends_before_it_hears(journal: Journal, server: Server, group: Group = FIRST) -> None:
    """A loop hands in a group and ends when it was sent: its task was cancelled."""

    async def cut_short() -> None:
        task = asyncio.ensure_future(_wait_for(journal.submit(group)))
        await server.was_asked()
        task.cancel()

    asyncio.run(cut_short())


async def _wait_for(ticket: Ticket[Any]) -> Any:
    return await ticket


def on_a_loop(journal: Journal) -> Answer:
    return asyncio.run(_submitted(journal))


async def _submitted(journal: Journal) -> Answer:
    return await journal.submit(SECOND)


def test_a_writer_woken_while_a_loop_has_the_turn_still_takes_over_the_loops_slow_sync() -> None:
    store = InterruptedStore()
    journal = Journal(store)
    journal._sync_seconds = 2 * SLOW_SYNC
    answers: list[Answer] = []
    thread = threading.Thread(target=lambda: answers.append(journal.submit(Group(1, 1)).wait(10)))

    def wake_the_writer() -> None:
        thread.start()
        threading.Event().wait(LONG_ENOUGH)

    async def from_a_loop() -> None:
        async with asyncio.timeout(10):
            answers.append(await journal.submit(Group(2, 1)))

    store.meanwhile = wake_the_writer
    asyncio.run(from_a_loop())
    thread.join()
    journal.close()
    assert answers == [Answer.MOVED, Answer.MOVED]


# -- a loop that ends before it hears the answer ----------------------------------------------------------------------


@pytest.mark.parametrize(
    "wants",
    [
        lambda journal: journal.commit(SECOND),
        lambda journal: journal.submit(SECOND).wait(10),
        on_a_loop,
    ],
    ids=["a thread that commits", "the writer thread", "another loop"],
)
def test_whoever_wants_the_turn_next_finishes_the_batch_of_a_loop_that_has_ended(server: Server, wants: Any) -> None:
    journal = Journal(server, patience=10)
    ends_before_it_hears(journal, server)
    server.answer()
    server.answer()

    assert in_time(lambda: wants(journal)) is Answer.MOVED
    assert server.answered == [FIRST, SECOND]
    in_time(lambda: journal.close() or "closed")


@pytest.mark.parametrize("end", [Journal.flush, Journal.close])
def test_a_journal_can_be_flushed_and_closed_after_a_loop_has_ended(server: Server, end: Any) -> None:
    journal = Journal(server, patience=10)
    ends_before_it_hears(journal, server)
    server.answer()

    in_time(lambda: end(journal) or "done")
    assert server.answered == [FIRST]


@pytest.mark.parametrize("waits", [lambda journal: journal.submit(SECOND).wait(10), on_a_loop], ids=["thread", "loop"])
def test_who_waits_for_the_turn_already_gets_it_when_the_loop_ends(server: Server, waits: Any) -> None:
    journal = Journal(server, patience=10)
    sent, over = threading.Event(), threading.Event()

    async def first() -> None:
        task = asyncio.ensure_future(_wait_for(journal.submit(FIRST)))
        await server.was_asked()
        sent.set()
        while not over.is_set():  # noqa: ASYNC110 - a thread sets it
            await asyncio.sleep(0.005)
        task.cancel()

    loop = threading.Thread(target=lambda: asyncio.run(first()), daemon=True)
    loop.start()
    assert sent.wait(10)
    came: list[Answer] = []
    waiting = threading.Thread(target=lambda: came.append(waits(journal)), daemon=True)
    waiting.start()
    until(lambda: journal._waiting, "the second to wait")
    threading.Event().wait(LONG_ENOUGH)
    over.set()
    loop.join(10)
    server.answer()
    server.answer()
    waiting.join(10)

    assert came == [Answer.MOVED]
    assert server.answered == [FIRST, SECOND]
    journal.close()


def test_an_answer_that_others_wait_for_too_does_not_depend_on_the_loop_that_asked(server: Server) -> None:
    journal = Journal(server, patience=10)
    others: list[Ticket[Answer]] = []

    async def asks_for_both() -> None:
        mine = journal.submit(FIRST)
        await server.was_asked()
        others.append(await asyncio.to_thread(journal.submit, SECOND))
        late = asyncio.ensure_future(_wait_for(journal.submit(THIRD)))
        server.answer()
        await mine
        await server.was_asked(times=2)
        late.cancel()

    asyncio.run(asks_for_both())
    assert server.asked == [[FIRST], [SECOND, THIRD]]
    server.answer()
    assert others[0].wait(10) is Answer.MOVED
    journal.close()


def test_a_loop_that_was_stopped_and_goes_on_hears_what_another_has_finished_for_it(server: Server) -> None:
    journal = Journal(server, patience=10)
    loop = asyncio.new_event_loop()

    async def ask() -> Ticket[Answer]:
        ticket = journal.submit(FIRST)
        await server.was_asked()
        return ticket

    ticket = loop.run_until_complete(ask())
    server.answer()
    journal.flush()
    assert loop.run_until_complete(_wait_for(ticket)) is Answer.MOVED
    server.answer()
    assert loop.run_until_complete(_submitted(journal)) is Answer.MOVED
    loop.close()
    journal.close()


def test_a_loop_that_blocks_itself_does_not_wait_for_its_own_answer(server: Server) -> None:
    journal = Journal(server, patience=10)

    async def blocks() -> Answer:
        ticket = journal.submit(FIRST)
        await server.was_asked()
        server.answer()
        server.answer()
        assert journal.commit(SECOND) is Answer.MOVED
        return await ticket

    assert in_time(lambda: asyncio.run(blocks())) is Answer.MOVED
    assert server.answered == [FIRST, SECOND]
    journal.close()


def test_a_connection_lost_while_its_answer_is_to_be_watched_is_found_out_by_the_writer(server: Server) -> None:
    def lost() -> int:
        raise OSError("the connection is gone")

    journal = Journal(server, patience=10)
    server.watched = lost

    async def work() -> Answer:
        ticket = journal.submit(SECOND)
        await server.was_asked()
        server.answer()
        return await ticket

    assert in_time(lambda: asyncio.run(work())) is Answer.MOVED
    journal.close()


def test_slow_answers_are_listened_for_however_slow_commits_were(server: Server) -> None:
    journal = Journal(server, patience=10)
    journal._sync_seconds = 100 * SLOW_SYNC

    async def work() -> Answer:
        ticket = journal.submit(SECOND)
        await server.was_asked()
        assert journal._sent is not None
        server.answer()
        return await ticket

    assert in_time(lambda: asyncio.run(work())) is Answer.MOVED
    assert journal._writer is None
    journal.close()


# -- a store that fails in a way that was not foreseen ----------------------------------------------------------------


class Broken:
    """Fails once, where it is told to; then it answers."""

    probe = None
    is_remote = False

    def __init__(self, where: str, error: BaseException | None) -> None:
        self._where = where
        self._error = error
        self.fails = True

    def prepare(self, entries: Sequence[Any], *, patience: float) -> "Broken":
        self._fail("prepare")
        self._count = len(entries)
        return self

    def commit(self, *, patience: float) -> list[Any]:
        self._fail("commit")
        is_short, self.fails = self.fails, False
        return [Answer.MOVED] * (self._count - is_short)

    def watched(self) -> None:
        """It answers at once."""

    def _fail(self, where: str) -> None:
        if self.fails and self._error is not None and where == self._where:
            self.fails = False
            raise self._error


FAILURES = [("prepare", RuntimeError("a fault")), ("commit", KeyError("a fault")), ("answers", None)]


@pytest.mark.parametrize("way", ["loop", "slow loop", "writer", "thread"])
@pytest.mark.parametrize(("where", "error"), FAILURES, ids=[where for where, _ in FAILURES])
def test_an_error_that_is_none_of_ours_is_told_to_all_that_wait_and_the_next_batch_goes_through(
    way: str, where: str, error: Exception | None
) -> None:
    journal = Journal(Broken(where, error))
    if way == "slow loop":
        journal._sync_seconds = 2 * SLOW_SYNC
    for refused in in_time(lambda: _handed_in(journal, way)):
        assert isinstance(refused, StoreUnavailable)
        assert not isinstance(refused, StoreFailed)
        assert refused.hint
        assert refused.__cause__ is error if error is not None else isinstance(refused.__cause__, AssertionError)
    assert in_time(lambda: journal.commit(THIRD)) is Answer.MOVED
    assert in_time(lambda: on_a_loop(journal)) is Answer.MOVED
    journal.close()


def _handed_in(journal: Journal, way: str) -> list[BaseException]:
    async def work() -> list[BaseException]:
        tickets = [journal.submit(group) for group in (FIRST, SECOND, THIRD)]
        return [await _refusal(ticket) for ticket in tickets]

    if "loop" in way:
        return asyncio.run(work())
    on_thread = journal.commit if way == "thread" else lambda group: journal.submit(group).wait(10)
    with pytest.raises(StoreUnavailable) as told:
        on_thread(FIRST)
    return [told.value]


async def _refusal(ticket: Ticket[Answer]) -> BaseException:
    with pytest.raises(StoreUnavailable) as told:
        await ticket
    return told.value


def test_who_waits_is_told_when_no_thread_can_be_started_for_a_slow_sync(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(flush: object) -> None:
        raise RuntimeError("can't start new thread")

    journal = Journal(InterruptedStore())
    journal._sync_seconds = 2 * SLOW_SYNC
    with monkeypatch.context() as patch:
        patch.setattr(journal_module, "WriterThread", none_left)
        refused = in_time(lambda: asyncio.run(_refused(journal)))
    assert isinstance(refused.__cause__, RuntimeError)
    assert in_time(lambda: journal.commit(SECOND)) is Answer.MOVED
    journal.close()


async def _refused(journal: Journal) -> BaseException:
    return await _refusal(journal.submit(FIRST))


@pytest.mark.parametrize("where", ["prepare", "commit"])
def test_a_process_that_is_interrupted_in_a_commit_leaves_nobody_waiting(where: str) -> None:
    journal = Journal(Broken(where, KeyboardInterrupt()))
    loop = asyncio.new_event_loop()
    tickets: list[Ticket[Answer]] = []

    async def hand_in() -> None:
        tickets.append(journal.submit(FIRST))
        await asyncio.sleep(0)

    with pytest.raises(KeyboardInterrupt):
        loop.run_until_complete(hand_in())
    assert loop.run_until_complete(_refusal(tickets[0])).__cause__.__class__ is KeyboardInterrupt
    assert in_time(lambda: journal.commit(SECOND)) is Answer.MOVED
    loop.close()
    journal.close()
