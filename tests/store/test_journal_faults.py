"""The journal on a file that is locked, full, slow or broken: no loop stands still, nothing is acknowledged early."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from fencepost.core.errors import StoreBusy, StoreFailed, StoreUnavailable
from fencepost.store.api import Answer
from fencepost.store.journal import SLOW_SYNC, Journal
from fencepost.store.open import open_store
from tests.store import build
from tests.store.faulty import FULL, IOERR_FSYNC, Faults
from tests.store.journaled import Bench, intent


class FaultyBench(Bench):
    """On a connection that can be made to fail."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.faults = Faults()
        super().__init__(open_store(path, connect=self.faults.connect, clock=lambda: build.NOW, patience=5.0))


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[FaultyBench]:
    made = FaultyBench(str(tmp_path / "ledger.db"))
    yield made
    made.faults.refuse.clear()
    made.faults.before.clear()
    made.close()


def test_the_loop_goes_on_while_another_process_has_the_write_lock(bench: FaultyBench) -> None:
    other = Faults().connect(bench.path)
    other.execute("BEGIN IMMEDIATE")

    async def work() -> Answer:
        ticket = bench.journal.submit(intent(bench.runs[0]))
        for _ in range(100):
            await asyncio.sleep(0)
        assert not ticket.done
        other.execute("COMMIT")
        return await ticket

    assert asyncio.run(work()) is Answer.MOVED
    other.close()


def test_the_loop_goes_on_during_a_slow_sync_and_the_next_batch_waits_for_it(bench: FaultyBench) -> None:
    syncing, disk = threading.Event(), threading.Event()
    on_threads: list[int] = []

    def slow() -> None:
        on_threads.append(threading.get_ident())
        syncing.set()
        assert disk.wait(10)

    bench.journal._sync_seconds = 100 * SLOW_SYNC
    bench.faults.before["COMMIT"] = slow

    async def work() -> list[Answer]:
        first = bench.journal.submit(intent(bench.runs[0]))
        await asyncio.to_thread(syncing.wait, 10)
        rest = [bench.journal.submit(intent(run)) for run in bench.runs[1:]]
        for _ in range(100):
            await asyncio.sleep(0)
        assert not first.done
        disk.set()
        return [await ticket for ticket in (first, *rest)]

    assert asyncio.run(work()) == [Answer.MOVED] * 20
    assert bench.journal.commits == 2
    assert threading.get_ident() not in on_threads


def test_a_full_disk_acknowledges_nothing_and_is_over_when_there_is_space(bench: FaultyBench) -> None:
    bench.faults.refuse["COMMIT"] = FULL

    async def work() -> None:
        ticket = bench.journal.submit(intent(bench.runs[0]))
        with pytest.raises(StoreUnavailable, match="full") as refusal:
            await ticket
        assert not isinstance(refusal.value, StoreFailed)
        assert bench.states()[0] == []
        bench.faults.refuse.clear()
        assert await bench.journal.submit(intent(bench.runs[0])) is Answer.MOVED

    asyncio.run(work())
    assert bench.journal.failed is None


def test_after_a_commit_of_unknown_result_nothing_is_written_any_more(bench: FaultyBench) -> None:
    bench.faults.refuse["COMMIT"] = IOERR_FSYNC

    async def work() -> None:
        tickets = [bench.journal.submit(intent(run)) for run in bench.runs]
        for ticket in tickets:
            with pytest.raises(StoreFailed):
                await ticket
        bench.faults.refuse.clear()
        with pytest.raises(StoreFailed):
            bench.journal.submit(intent(bench.runs[0]))

    asyncio.run(work())
    assert isinstance(bench.journal.failed, StoreFailed)
    with pytest.raises(StoreFailed):
        bench.journal.commit(intent(bench.runs[0]))
    with pytest.raises(StoreFailed):
        bench.store.start_run(build.new_run("another"))
    assert bench.store.find("default", "run-0") is not None


def test_a_verb_whose_commit_has_an_unknown_result_stops_the_journal_too(bench: FaultyBench) -> None:
    bench.faults.refuse["COMMIT"] = IOERR_FSYNC
    with pytest.raises(StoreFailed):
        bench.store.start_run(build.new_run("another"))
    bench.faults.refuse.clear()

    with pytest.raises(StoreFailed):
        bench.journal.commit(intent(bench.runs[0]))


def test_a_lock_that_is_never_given_back_is_told_and_nothing_is_changed(bench: FaultyBench) -> None:
    impatient = Journal(bench.store, patience=0.05)
    other = Faults().connect(bench.path)
    other.execute("BEGIN IMMEDIATE")

    with pytest.raises(StoreBusy):
        impatient.commit(intent(bench.runs[0]))
    other.close()
    assert impatient.commit(intent(bench.runs[0])) is Answer.MOVED
    impatient.close()
