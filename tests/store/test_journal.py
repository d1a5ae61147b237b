"""The journal, on every database: one commit for all that wait, an answer for each, and a full stop at its end.

What a loop does while a file is locked or a sync is slow, and what a failed sync means, is in test_journal_faults.
"""

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import replace

import pytest

from fencepost.core.errors import StoreUnavailable, ValueRefused
from fencepost.core.records import Run
from fencepost.store.api import Answer
from fencepost.store.journal import Journal
from fencepost.store.open import open_store
from fencepost.store.ticket import Ticket
from tests.polling import until
from tests.store import build
from tests.store.journaled import Bench, intent


@pytest.fixture
def bench(url: str) -> Iterator[Bench]:
    made = Bench(open_store(url, clock=lambda: build.NOW, patience=5.0))
    yield made
    made.close()


def test_everything_submitted_in_one_turn_of_the_loop_is_one_commit(bench: Bench) -> None:
    async def work() -> list[Answer]:
        return list(await asyncio.gather(*(submit(run) for run in bench.runs)))

    async def submit(run: Run) -> Answer:
        return await bench.journal.submit(intent(run))

    assert asyncio.run(work()) == [Answer.MOVED] * 20
    assert bench.journal.commits == 1
    assert bench.states() == [["dispatched"]] * 20


def test_each_group_has_its_own_answer(bench: Bench) -> None:
    former = replace(bench.runs[1], generation=0)
    groups = (intent(bench.runs[0]), intent(former), intent(bench.runs[2]))

    async def work() -> list[Ticket]:
        tickets = [bench.journal.submit(group) for group in groups]
        bad = bench.journal.submit(build.group(bench.runs[3], build.new_operation(bench.runs[3], request=object())))
        with pytest.raises(ValueRefused):
            await bad
        return tickets

    assert [ticket.result() for ticket in asyncio.run(work())] == [Answer.MOVED, Answer.STALE, Answer.MOVED]


def test_a_ticket_may_be_awaited_after_it_is_done_and_its_callback_runs_on_the_loop(bench: Bench) -> None:
    told: list[tuple[Answer, int]] = []

    async def work() -> None:
        ticket = bench.journal.submit(
            intent(bench.runs[0]), lambda done: told.append((done.result(), threading.get_ident()))
        )
        assert not ticket.done
        assert await ticket is Answer.MOVED
        assert await ticket is Answer.MOVED

    asyncio.run(work())
    assert told == [(Answer.MOVED, threading.get_ident())]


def test_a_callback_that_raises_keeps_no_other_from_its_answer(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    async def work() -> Answer:
        bench.journal.submit(intent(bench.runs[0]), lambda done: 1 / 0)
        return await bench.journal.submit(intent(bench.runs[1]))

    assert asyncio.run(work()) is Answer.MOVED
    assert "ZeroDivisionError" in caplog.text


def test_a_task_that_stops_waiting_takes_nothing_back(bench: Bench) -> None:
    async def work() -> None:
        async def wait() -> None:
            await bench.journal.submit(intent(bench.runs[0]))

        task = asyncio.create_task(wait())
        await asyncio.sleep(0)
        task.cancel()
        await bench.journal.submit(intent(bench.runs[1]))

    asyncio.run(work())
    assert bench.states()[:2] == [["dispatched"], ["dispatched"]]


def test_threads_that_commit_at_once_are_all_answered(bench: Bench) -> None:
    answers: list[Answer] = []

    def work(run: Run) -> None:
        answers.extend(bench.journal.commit(intent(run, f"step-{number}")) for number in range(10))

    threads = [threading.Thread(target=work, args=(run,)) for run in bench.runs[:8]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert answers == [Answer.MOVED] * 80
    assert bench.journal.commits <= 80
    assert [len(states) for states in bench.states()[:8]] == [10] * 8


def test_threads_and_loops_share_one_journal(bench: Bench) -> None:
    answers: list[Answer] = []

    async def on_loop(runs: list[Run]) -> None:
        for number in range(10):
            tickets = [bench.journal.submit(intent(run, f"step-{number}")) for run in runs]
            answers.extend([await ticket for ticket in tickets])

    def on_thread(run: Run) -> None:
        answers.extend(bench.journal.submit(intent(run, f"step-{number}")).wait(10) for number in range(10))

    threads = [
        threading.Thread(target=lambda: asyncio.run(on_loop(bench.runs[:5]))),
        threading.Thread(target=lambda: asyncio.run(on_loop(bench.runs[5:10]))),
        threading.Thread(target=on_thread, args=(bench.runs[10],)),
        threading.Thread(target=on_thread, args=(bench.runs[11],)),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert answers == [Answer.MOVED] * 120


def test_closing_commits_what_waits_and_refuses_what_comes_later(bench: Bench) -> None:
    async def work() -> None:
        ticket = bench.journal.submit(intent(bench.runs[0]))
        bench.journal.close()
        assert await ticket is Answer.MOVED
        with pytest.raises(StoreUnavailable):
            bench.journal.submit(intent(bench.runs[1]))

    asyncio.run(work())
    bench.journal.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "fencepost-journal"]


def test_a_thread_that_does_not_wait_is_served_by_the_writer(bench: Bench) -> None:
    ticket = bench.journal.submit(intent(bench.runs[0]))

    until(lambda: ticket.done, "the writer thread")
    assert ticket.wait() is Answer.MOVED


def test_fault_points_are_named_before_and_after_each_commit(bench: Bench) -> None:
    seen: list[str] = []
    run = bench.runs[0]
    journal = Journal(bench.store, probe=seen.append)
    journal.commit(intent(run))
    journal.commit(build.group(run, build.applied(run), build.settle(run), build.move_run(run, "succeed", "succeeded")))
    journal.close()

    begun = ["operation:nothing:dispatch"]
    ended = ["operation:dispatched:apply", "attempt:unresolved:applied", "run:running:succeed"]
    assert seen == [f"{when}:{point}" for points in (begun, ended) for when in ("before", "after") for point in points]


def test_verbs_name_their_fault_points_too(bench: Bench) -> None:
    run = bench.runs[0]
    bench.journal.commit(intent(run))
    seen: list[str] = []
    bench.store.probe = seen.append

    bench.store.start_run(build.new_run("another"))
    bench.store.renew_lease("lease-1", now=build.NOW, expires_at=build.NOW + 1)
    bench.store.take_lease(build.lease("heir", at=build.NOW + 5))
    bench.store.claim("heir", build.WORKFLOWS, namespace="default", now=build.NOW + 5, margin=0, limit=1)

    claimed = ["lease:live:expire", "run:running:take over", "operation:dispatched:take over"]
    expected = [["run:nothing:release"], ["lease:live:renew"], claimed]
    assert seen == [f"{when}:{point}" for points in expected for when in ("before", "after") for point in points]
