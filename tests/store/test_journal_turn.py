"""The journal's turn: a loop that hands its slow sync to the writer never waits for a writer that waits for the turn.

A store made for it does something else in the middle of `prepare`, while the loop has the turn. What else a journal
promises is in test_journal.
"""

import asyncio
import threading

from fencepost.store.api import Answer, Group
from fencepost.store.journal import SLOW_SYNC, Journal

LONG_ENOUGH = 0.1
"""Seconds in which a writer that was woken has come as far as it gets."""


class InterruptedStore:
    """Answers every group; the first `prepare` does `meanwhile` before it returns."""

    probe = None

    def __init__(self):
        self.meanwhile = None

    def prepare(self, entries, *, patience):
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            meanwhile()
        return Written(len(entries))


class Written:
    def __init__(self, count):
        self._count = count

    def commit(self, *, patience):
        return [Answer.MOVED] * self._count


def test_a_writer_woken_while_a_loop_has_the_turn_still_takes_over_the_loops_slow_sync():
    store = InterruptedStore()
    journal = Journal(store)
    journal._sync_seconds = 2 * SLOW_SYNC
    answers = []
    thread = threading.Thread(target=lambda: answers.append(journal.submit(Group(1, 1)).wait(10)))

    def wake_the_writer():
        thread.start()
        threading.Event().wait(LONG_ENOUGH)

    async def from_a_loop():
        async with asyncio.timeout(10):
            answers.append(await journal.submit(Group(2, 1)))

    store.meanwhile = wake_the_writer
    asyncio.run(from_a_loop())
    thread.join()
    journal.close()
    assert answers == [Answer.MOVED, Answer.MOVED]
