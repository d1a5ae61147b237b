"""A batch that refuses for many runs writes as a batch does, its audit rows included, and stands or falls by run."""

from collections.abc import Iterator
from dataclasses import replace

import pytest

from fencepost.store.api import Answer
from fencepost.store.chain import broken_at
from fencepost.store.open import open_store
from fencepost.store.postgres import PostgresStore
from fencepost.store.postgres_connection import PostgresConnection
from tests.services.fixtures import Place
from tests.store import build

MANY = 40


@pytest.fixture
def store(postgres: Place) -> Iterator[PostgresStore]:
    opened = open_store(postgres.url(), clock=lambda: build.NOW)
    assert isinstance(opened, PostgresStore)
    opened.take_lease(build.lease())
    yield opened
    opened.close()


def audited(store: PostgresStore) -> list:
    """A group for each of many runs: what it has done, and what it has refused."""
    groups = []
    for number in range(MANY):
        run, _ = store.start_run(build.new_run(f"r{number}", lease="lease-1"))
        group = build.group(run, build.new_operation(run))
        group.audits = [replace(build.audit(), run_id=run.id, reason=f"refused {n}") for n in range(2)]
        groups.append(group)
    return groups


def test_many_refusals_take_as_many_round_trips_as_one(store, monkeypatch):
    groups, trips = audited(store), []
    sent = PostgresConnection.send
    monkeypatch.setattr(PostgresConnection, "send", lambda self, steps: (trips.append(len(steps)), sent(self, steps)))
    assert store.commit(groups, patience=10) == [Answer.MOVED] * MANY
    assert len(trips) == 4  # the moves, the end of the chain, the rows, the commit
    rows = store.audits(None, None)
    assert [(row.run_id, row.reason) for row in rows] == [
        (f"r{n}", f"refused {m}") for n in range(MANY) for m in (0, 1)
    ]
    assert broken_at(rows) is None


def test_one_stale_run_among_many_keeps_its_rows_out_and_no_others(store):
    groups = audited(store)
    groups[7].generation = 99
    groups[7].moves = [groups[7].moves[0]._replace(generation=99)]
    answers = store.commit(groups, patience=10)
    assert [place for place, answer in enumerate(answers) if answer is not Answer.MOVED] == [7]
    rows = store.audits(None, None)
    assert {row.run_id for row in rows} == {f"r{n}" for n in range(MANY) if n != 7}
    assert broken_at(rows) is None
