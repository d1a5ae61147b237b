"""Whoever looks whether another run has ended waits for whoever is just ending it: no end falls between two looks."""

from concurrent.futures import ThreadPoolExecutor

import psycopg

from fencepost.core.states import RunState
from fencepost.store.open import open_store
from fencepost.store.postgres_url import place_of
from tests.polling import until
from tests.services.fixtures import Place
from tests.store import build

WAITS = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
ENDS = """
UPDATE run SET state = 'terminated', lease = NULL, wake_at = NULL, ended_at = 1, version = version + 1
WHERE id = %s
"""


def test_an_end_that_is_not_committed_yet_is_waited_for_and_seen(postgres: Place) -> None:
    store = open_store(postgres.url(), clock=lambda: build.NOW)
    place = place_of(postgres.url())
    where, path = place.conninfo.decode(), f"-c search_path={place.schema}"
    run = store.start_run(build.new_run())[0]
    with ThreadPoolExecutor(1) as threads, psycopg.connect(where, options=path) as ending:
        try:
            with psycopg.connect(where, autocommit=True) as watching:
                ending.execute(ENDS, [run.id])
                looking = threads.submit(store.find_settled, run.namespace, run.id)
                until(lambda: looking.done() or watching.execute(WAITS).fetchone() != (0,), "the look to wait")
                assert not looking.done()
                ending.commit()
                found = looking.result(20)
                assert found is not None
                assert found.state is RunState.TERMINATED
        finally:
            store.close()
