"""On a server several write at a time: whoever contains something waits for the dispatches that have not seen it."""

import threading

import psycopg

from fencepost.core.containment import Containment, Kind, mark
from fencepost.store import queries
from fencepost.store.open import open_store
from tests.services.fixtures import Place
from tests.store import build


def test_a_containment_waits_for_the_batches_that_are_under_way(postgres: Place) -> None:
    store = open_store(postgres.url(connections=2))
    lock = queries.load("postgres", postgres.schema)["lock_runs"].statement.replace("$1", "%s")
    done = threading.Event()

    def contain() -> None:
        one = Containment(mark("default", Kind.TARGET, "bank"), "default", Kind.TARGET, "bank", "ann", "x", build.NOW)
        store.contain(one, build.audit("contain"))
        done.set()

    with psycopg.connect(postgres.server.url()) as batch:
        batch.execute(lock, ["{1}"])  # a batch has locked its runs, and may have looked what is contained
        thread = threading.Thread(target=contain)
        thread.start()
        assert not done.wait(0.3)
        batch.commit()
        assert done.wait(10)
    thread.join()
    assert [one.name for one in store.contained("default")] == ["bank"]
    store.close()
