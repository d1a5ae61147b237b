"""A connection that is lost around its COMMIT: the store finds out what became of it; nothing is doubled or lost."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import suppress

import psycopg
import pytest

from fencepost.core.errors import StoreBusy, StoreUnavailable
from fencepost.core.records import Run
from fencepost.core.states import RunState
from fencepost.store.api import Answer
from fencepost.store.journal import Journal
from fencepost.store.open import open_store
from fencepost.store.postgres import PostgresStore
from fencepost.store.ticket import Ticket
from tests.polling import until
from tests.services.fixtures import Place
from tests.services.wire import At, Wire
from tests.store import build

LOST = [At.CUT_BEFORE, At.CUT_AFTER, At.HELD]


class Bench:
    """A store behind a wire, a journal, a running run, and a store that sees what is really there."""

    def __init__(self, place: Place, *, connections: int = 2) -> None:
        self.wire = Wire(place)
        self.there = open_store(place.url(connections=1), clock=lambda: build.NOW)
        store = open_store(self.wire.url(connections=connections), clock=lambda: build.NOW, patience=10.0)
        assert isinstance(store, PostgresStore)
        self.store = store
        self.store.take_lease(build.lease())
        self.run: Run = self.store.start_run(build.new_run(lease="lease-1"))[0]
        self.journal = Journal(self.store, patience=10.0)

    def steps(self) -> list[str]:
        return sorted(operation.step for operation in self.there.load(self.run.no).operations)

    def close(self) -> None:
        self.wire.choose = lambda sent: At.PASSED
        self.journal.close()
        self.store.close()
        self.there.close()
        self.wire.close()


@pytest.fixture
def bench(postgres: Place) -> Iterator[Bench]:
    made = Bench(postgres)
    yield made
    made.close()


def intent(run: Run, step: str = "pay"):
    return build.group(run, build.new_operation(run, step))


@pytest.mark.parametrize("lost", LOST)
def test_a_batch_whose_answer_is_lost_is_committed_once(bench: Bench, lost: At) -> None:
    done = bench.wire.once(b"COMMIT", lost)

    assert bench.journal.commit(intent(bench.run)) is Answer.MOVED
    assert done.is_set()
    bench.wire.release()  # what was held comes when it is void
    assert bench.steps() == ["pay"]
    assert bench.journal.commit(intent(bench.run, "next")) is Answer.MOVED
    assert bench.journal.commit(intent(bench.run, "next")) is Answer.DUPLICATE


@pytest.mark.parametrize("lost", LOST)
def test_what_no_guard_protects_is_not_doubled_either(bench: Bench, lost: At) -> None:
    """An observation has no guard: only the mark of its commit keeps a late one from counting again."""
    bench.journal.commit(intent(bench.run))
    bench.wire.once(b"COMMIT", lost)

    assert bench.journal.commit(build.group(bench.run, seen=[build.seen(bench.run)])) is Answer.MOVED
    bench.wire.release()
    assert len(bench.there.load(bench.run.no).operations[0].observations) == 1


@pytest.mark.parametrize("lost", LOST)
def test_a_batch_that_was_written_group_by_group_is_too(bench: Bench, lost: At) -> None:
    bench.journal.commit(intent(bench.run))
    seen: list[bytes] = []

    def second_commit(sent: bytes) -> At:
        """The first is that of the batch as a whole, which is refused."""
        if b"COMMIT" in sent:
            seen.append(sent)
        return lost if len(seen) == 2 and b"COMMIT" in sent else At.PASSED

    bench.wire.choose = second_commit
    groups = [intent(bench.run), intent(bench.run, "other")]

    assert bench.store.commit(groups, patience=10) == [Answer.DUPLICATE, Answer.MOVED]
    assert len(seen) >= 2
    bench.wire.release()
    assert bench.steps() == ["other", "pay"]


@pytest.mark.parametrize("lost", LOST)
def test_a_start_in_a_batch_says_whether_it_is_new_although_its_answer_was_lost(bench: Bench, lost: At) -> None:
    bench.wire.once(b"COMMIT", lost)

    (started,) = bench.store.commit([build.new_run("another", lease="lease-1")], patience=10)

    assert started.is_new
    assert started.run.state is RunState.RUNNING
    bench.wire.release()
    (again,) = bench.store.commit([build.new_run("another", lease="lease-1", at=build.NOW + 1)], patience=10)
    assert (again.is_new, again.run.no) == (False, started.run.no)


@pytest.mark.parametrize("lost", LOST)
def test_a_verb_whose_answer_is_lost_is_done_once(bench: Bench, lost: At) -> None:
    for number, verb in enumerate(
        [
            lambda: bench.store.audit(build.audit("settle")),
            lambda: bench.store.signal("default", "run-1", build.signal("first")),
            lambda: bench.store.take_lease(build.lease("other")),
        ]
    ):
        done = bench.wire.once(b"COMMIT", lost)
        verb()
        assert done.is_set(), number
        bench.wire.release()

    assert [row.verb for row in bench.there.audits(None, None)] == ["settle"]
    assert [signal.id for signal in bench.there.load(bench.run.no).signals] == ["first"]
    assert {lease.id for lease in bench.there.leases()} == {"lease-1", "other"}


def test_what_a_loop_had_asked_for_when_it_ended_is_committed_and_the_journal_goes_on(postgres: Place) -> None:
    """The batch waits for a lock of somebody else's; the loop's task is cancelled meanwhile, and the loop closed."""
    bench = Bench(postgres, connections=3)
    ticket: list[Ticket[Answer]] = []

    async def cut_short() -> None:
        ticket.append(bench.journal.submit(intent(bench.run)))
        with suppress(TimeoutError):
            async with asyncio.timeout(0.05):
                await ticket[0]

    with psycopg.connect(postgres.server.url()) as other:
        other.execute(f"SELECT no FROM {postgres.schema}.run FOR UPDATE")  # noqa: S608 - our own names
        asyncio.run(cut_short())
        assert not ticket[0].done
    assert bench.journal.submit(intent(bench.run, "next")).wait(10) is Answer.MOVED
    assert ticket[0].result() is Answer.MOVED
    assert bench.steps() == ["next", "pay"]
    bench.close()


def test_while_the_server_is_away_nothing_is_acknowledged_and_afterwards_it_goes_on(bench: Bench) -> None:
    impatient = Journal(bench.store, patience=0.3)
    bench.wire.refuses = True
    bench.wire.once(b"COMMIT", At.CUT_BEFORE)

    with pytest.raises(StoreUnavailable):
        impatient.commit(intent(bench.run))
    assert impatient.failed is None
    bench.wire.refuses = False
    assert impatient.commit(intent(bench.run, "next")) is Answer.MOVED
    impatient.close()
    assert bench.steps() == ["next"]


def test_a_server_that_answers_nobody_is_given_up_and_another_connection_goes_on(postgres: Place) -> None:
    bench = Bench(postgres)
    bench.store.close()
    bench.store = open_store(bench.wire.url(connections=2), clock=lambda: build.NOW, patience=1.0)
    bench.wire.once(b"COMMIT", At.SWALLOWED)

    with pytest.raises((StoreBusy, StoreUnavailable)):
        bench.store.commit([intent(bench.run)], patience=1.0)
    assert bench.store.commit([intent(bench.run, "next")], patience=5.0) == [Answer.MOVED]
    bench.close()


@pytest.mark.parametrize("stops", [1, 3])
def test_a_server_that_crashes_again_and_again_loses_and_doubles_nothing(own_server, stops: int) -> None:
    store = open_store(Place(own_server).url(), clock=lambda: build.NOW, patience=30.0)
    store.take_lease(build.lease())
    run, _ = store.start_run(build.new_run(lease="lease-1"))
    journal = Journal(store, patience=30.0)
    answers: list[Answer] = []
    over = threading.Event()

    def work() -> None:
        while not over.is_set():
            answers.append(journal.commit(intent(run, f"step-{len(answers)}")))

    worker = threading.Thread(target=work)
    worker.start()
    for round_number in range(stops + 1):
        before = len(answers)
        until(lambda seen=before: len(answers) > seen + 20, "commits go on", seconds_max=40)
        if round_number < stops:
            own_server.restart()
    over.set()
    worker.join()

    assert set(answers) == {Answer.MOVED}
    assert len(store.load(run.no).operations) == len(answers)
    journal.close()
    store.close()


def test_marks_do_not_pile_up(postgres: Place) -> None:
    def marks() -> list[tuple[int]]:
        return postgres.server.ask(f"SELECT at FROM {postgres.schema}.mark")  # noqa: S608 - our own names

    for number in range(10):
        store = open_store(postgres.url(), clock=lambda at=number: build.NOW + at)
        store.start_run(build.new_run(f"run-{number}"))
        store.close()
    assert marks() == [(build.NOW + 9,)], "the highest stays"
    store = open_store(postgres.url(), clock=lambda: 0)
    assert store.latest() == build.NOW + 9
    store.close()
