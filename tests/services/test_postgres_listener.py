"""Changes are heard at once, also after the listening connection has died, with a word or without one."""

import asyncio
import threading
import time
from collections.abc import Iterator

import pytest

from fencepost.runtime.app import App
from fencepost.runtime.handle import Handle
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from fencepost.store import postgres_listener
from fencepost.store.api import Store
from fencepost.store.changes import Signalled
from fencepost.store.open import open_store
from fencepost.store.postgres import PostgresStore
from tests.polling import until
from tests.services.fixtures import Place
from tests.services.wire import At, Wire
from tests.store import build


class Ear:
    """A store that listens, and how often it was told."""

    def __init__(self, url: str) -> None:
        store = open_store(url)
        assert isinstance(store, PostgresStore)
        self.store = store
        self.told = 0
        self.signalled: list[Signalled] = []
        self.changes = store.changes(self._tell)
        until(lambda: self.hears, "the listener to hear itself")

    def _tell(self, signalled: Signalled | None) -> None:
        self.told += 1
        self.signalled += [] if signalled is None else [signalled]

    @property
    def hears(self) -> bool:
        assert self.store._listener is not None
        return self.store._listener.hears

    def hears_a_start(self, elsewhere: Store, name: str) -> None:
        before = self.told
        elsewhere.start_run(build.new_run(name))
        until(lambda: self.told > before, "the start to be told")
        assert self.changes.look()

    def close(self) -> None:
        self.changes.close()
        self.store.close()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_listener, "PROOF_EVERY", 0.3)
    monkeypatch.setattr(postgres_listener, "ANSWER_WITHIN", 0.3)


@pytest.fixture
def elsewhere(postgres: Place) -> Iterator[Store]:
    store = open_store(postgres.url(connections=1))
    yield store
    store.close()


def test_what_others_write_is_told_and_what_they_do_to_another_ledger_is_not(postgres: Place, elsewhere: Store) -> None:
    ear = Ear(postgres.url())
    other = open_store(Place(postgres.server).url(connections=1))
    before = ear.told
    other.start_run(build.new_run())
    ear.hears_a_start(elsewhere, "run-1")
    assert ear.told == before + 1

    other.close()
    ear.close()


def test_a_signal_is_told_of_with_the_run_that_it_is_for_and_whether_it_can_be_claimed(
    postgres: Place, elsewhere: Store
) -> None:
    ear, other = Ear(postgres.url()), Ear(Place(postgres.server).url())
    elsewhere.take_lease(build.lease(at=elsewhere.now()))
    run, _ = elsewhere.start_run(build.new_run(lease="lease-1"))
    elsewhere.signal("default", "run-1", build.signal("early", "other"))
    until(lambda: ear.signalled == [(run.no, None, "")], "its owner to be told of")
    elsewhere.commit([build.group(run, build.open_step(run), build.move_run(run, "wait", "waiting"))], patience=1)

    elsewhere.signal_at_once("default", "run-1", build.signal())

    until(lambda: ear.signalled[1:] == [(run.no, run.generation, "waiting")], "the run to be told of")
    assert other.signalled == []
    other.close()
    ear.close()


def test_a_step_of_a_run_disturbs_nobody(postgres: Place, elsewhere: Store) -> None:
    ear = Ear(postgres.url())
    elsewhere.take_lease(build.lease(at=elsewhere.now()))
    run, _ = elsewhere.start_run(build.new_run(lease="lease-1"))
    before = ear.told
    elsewhere.commit([build.group(run, build.new_operation(run))], patience=1)
    elsewhere.commit([build.group(run, build.succeed(run))], patience=1)

    ear.hears_a_start(elsewhere, "run-2")
    assert ear.told == before + 1
    ear.close()


def test_a_listening_connection_that_the_server_ends_is_made_anew(postgres: Place, elsewhere: Store) -> None:
    ear = Ear(postgres.url(application_name=postgres.schema))
    before = ear.told
    assert postgres.server.kill_connections(postgres.schema) >= 1

    # Whatever was told in between was not heard, so that it looks once.
    until(lambda: ear.told > before, "the listener to come back")
    until(lambda: ear.hears, "the listener to hear itself again")
    ear.hears_a_start(elsewhere, "run-1")
    ear.close()


@pytest.mark.usefixtures("impatient")
def test_a_listening_connection_that_dies_without_a_word_is_noticed(postgres: Place, elsewhere: Store) -> None:
    wire = Wire(postgres)
    ear = Ear(wire.url())
    wire.choose = lambda sent: At.SWALLOWED
    until(lambda: not ear.hears, "the silence to be noticed")
    assert ear.changes.pause_max == 1.0, "who hears nothing looks more often"

    wire.choose = lambda sent: At.PASSED
    until(lambda: ear.hears, "another connection to hear")
    assert ear.changes.pause_max > 1.0
    ear.hears_a_start(elsewhere, "run-1")
    ear.close()
    wire.close()


@pytest.mark.usefixtures("impatient")
def test_where_messages_are_not_passed_on_the_listener_knows_that_it_hears_nothing(
    postgres: Place, pooler, elsewhere: Store
) -> None:
    store = open_store(pooler.url(postgres.schema))
    changes = store.changes(lambda signalled: None)
    seen = [changes.pause_max]
    until(lambda: seen.append(changes.pause_max) or len(seen) > 50, "a while", seconds_between=0.02)

    assert set(seen) == {1.0}
    changes.close()
    store.close()


@workflow()
async def greeted(run: Run) -> float:
    return await run.wait("name", float)


async def reaches(handle: Handle[float], state: str) -> None:
    while (await handle.state()) != state:  # noqa: ASYNC110 - it is another process's doing
        await asyncio.sleep(0.001)


async def woken(elsewhere: App, name: str) -> float:
    """Seconds from a signal until another process has ended the run that waited for it."""
    handle = await elsewhere.start(greeted, id=name)
    await reaches(handle, "waiting")
    sent = time.perf_counter()
    await elsewhere.signal(handle.id, "name", 1.0)
    await reaches(handle, "succeeded")
    return time.perf_counter() - sent


def test_a_signal_wakes_a_run_in_another_process_at_once(postgres: Place) -> None:
    async def story() -> list[float]:
        elsewhere, app = (App(postgres.url(), workflows=[greeted]) for _ in range(2))
        async with elsewhere, app, app.worker():
            return [await woken(elsewhere, f"run-{number}") for number in range(10)]

    took = sorted(asyncio.run(story()))
    assert took[len(took) // 2] < 0.1, took


def test_closing_ends_the_thread(postgres: Place) -> None:
    Ear(postgres.url()).close()

    assert not [thread for thread in threading.enumerate() if thread.name == "fencepost-listener"]
