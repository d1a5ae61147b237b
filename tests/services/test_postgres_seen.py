"""A ledger that has forgotten what it acknowledged to this process is noticed as soon as it connects again.

A failover that really loses commits is in test_failover; here the marks are removed as one would have lost them.
"""

from collections.abc import Iterator

import pytest

from fencepost.core.duration import DAY
from fencepost.core.errors import LedgerWentBack
from fencepost.store.api import Store
from fencepost.store.open import open_store
from tests.services.fixtures import Place
from tests.store import build


@pytest.fixture
def store(postgres: Place) -> Iterator[Store]:
    """A store that has started a run."""
    store = open_store(postgres.url(application_name="sees"), clock=lambda: build.NOW)
    store.start_run(build.new_run("first"))
    yield store
    store.close()


def connect_anew(place: Place) -> None:
    assert place.server.kill_connections("sees")


def lose_commits(place: Place) -> None:
    place.server.ask(f"DELETE FROM {place.schema}.mark")  # noqa: S608 - our own names
    connect_anew(place)


def test_lost_commits_are_noticed_before_anything_is_read_or_written(postgres: Place, store: Store) -> None:
    lose_commits(postgres)

    for verb in (
        lambda: store.find("default", "first"),
        lambda: store.start_run(build.new_run("second")),
        lambda: store.renew_lease("lease-1", now=build.NOW, expires_at=build.NOW + 1),
    ):
        with pytest.raises(LedgerWentBack, match="fencepost restored"):
            verb()
    assert postgres.server.ask(f"SELECT id FROM {postgres.schema}.run") == [("first",)]  # noqa: S608 - the same


def test_one_lost_commit_of_many_is_enough(postgres: Place, store: Store) -> None:
    store.start_run(build.new_run("second"))
    postgres.server.ask(f"UPDATE {postgres.schema}.mark SET number = number - 1")  # noqa: S608 - the same
    connect_anew(postgres)

    with pytest.raises(LedgerWentBack):
        store.find("default", "first")


def test_once_somebody_has_begun_an_epoch_this_process_goes_on(postgres: Place, store: Store) -> None:
    lose_commits(postgres)
    other = open_store(postgres.url())
    other.begin_epoch(lambda epoch: build.audit("restored"))
    other.close()

    assert store.start_run(build.new_run("second")).is_new
    # Once more, from the same backup: it does not know of that epoch.
    postgres.server.ask(f"DELETE FROM {postgres.schema}.epoch")  # noqa: S608 - the same
    lose_commits(postgres)
    with pytest.raises(LedgerWentBack):
        store.start_run(build.new_run("third"))


def test_a_connection_that_was_lost_and_nothing_with_it_is_made_anew(postgres: Place, store: Store) -> None:
    for number in range(3):
        connect_anew(postgres)
        assert store.start_run(build.new_run(f"more-{number}")).is_new


def test_marks_that_were_removed_because_of_their_age_are_not_missed(postgres: Place, store: Store) -> None:
    for clock in (build.NOW + 2 * DAY, build.NOW + 2 * DAY):  # the second one removes what is old beside the first's
        later = open_store(postgres.url(), clock=lambda at=clock: at)
        later.start_run(build.new_run(f"at-{clock}"))
        later.close()
    connect_anew(postgres)

    assert store.find("default", "first") is not None
