"""A worker killed around an atomic effect's transaction: its row is there once with its result, or neither is yet.

Counted in the user's own table, on each database: right after the kill, and when another worker has finished the run.
A row never stands without its result, so it is never written twice, and what is gone with the kill is done again. What
becomes of a COMMIT that is on its way to a server is in tests/services/test_atomic_commits.
"""

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from fencepost.core.states import OperationState, Outcome, RunState
from tests.processes.booking import IN_BODY, TABLE, books, books_apart, database
from tests.processes.stage import Stage
from tests.services.fixtures import Place

DONE, DONE_AGAIN = [Outcome.APPLIED], [Outcome.NOT_APPLIED, Outcome.APPLIED]


@dataclass(frozen=True)
class Moment:
    """When a worker is killed, how many rows there are then, and what its attempts come to in the end."""

    name: str
    point: str
    rows: int
    outcomes: list[Outcome]

    def __str__(self) -> str:
        return self.name


MOMENTS = [
    Moment("before the body", "after:operation:nothing:dispatch", 0, DONE_AGAIN),
    Moment("in the body, after its row", IN_BODY, 0, DONE_AGAIN),
    Moment("between the body and the commit", "before:operation:dispatched:apply", 0, DONE_AGAIN),
    Moment("after the commit, before the run hears of it", "after:operation:dispatched:apply", 1, DONE),
]


@pytest.fixture
def ledgers(request: pytest.FixtureRequest, dialect: str) -> Callable[[], str]:
    """Gives the url of another ledger each time; "" for a file."""
    if dialect == "sqlite":
        return str
    server = request.getfixturevalue("postgres_server")
    with database(server.url()) as connection:
        connection.execute(TABLE)  # one for all, since no two may make it at a time
    return lambda: Place(server).url()


def prepare(stage: Stage) -> None:
    """Make the user's table beside the ledger's, unless it is there."""
    assert stage.app.store
    with database(stage.ledger) as connection:
        connection.execute(TABLE)


def rows(stage: Stage, run: str) -> int:
    with database(stage.ledger) as connection:
        return [name for (name,) in connection.execute("SELECT run FROM booking").fetchall()].count(run)


def finished_by_another(stage: Stage, run: str, outcomes: list[Outcome]) -> None:
    stage.worker()
    end = stage.end(run)
    assert (end.state, rows(stage, run)) == (RunState.SUCCEEDED, 1)
    (booked,) = end.history.operations
    assert (booked.state, booked.reference) == (OperationState.SUCCEEDED, run)
    assert [attempt.outcome for attempt in booked.attempts] == outcomes
    assert booked.lookups == 0
    assert end.held == []


def test_a_worker_killed_around_its_transaction_leaves_the_row_with_its_result_or_neither(table, ledgers):
    def scene(stage, moment, run):
        prepare(stage)
        stage.child((books.name, run), kill_at=moment.point).died()
        assert rows(stage, run) == moment.rows
        finished_by_another(stage, run, moment.outcomes)

    table.play(MOMENTS, scene, ledger=ledgers)


def test_an_heir_that_is_killed_too_changes_nothing(table, ledgers):
    """Killed at the same point twice; then a third worker finishes."""

    def scene(stage, moment, run):
        prepare(stage)
        stage.child((books.name, run), kill_at=moment.point).died()
        stage.child(kill_at=moment.point).died()
        assert rows(stage, run) == 0
        finished_by_another(stage, run, [Outcome.NOT_APPLIED, *moment.outcomes])

    table.play([moment for moment in MOMENTS if moment.point in (IN_BODY, MOMENTS[2].point)], scene, ledger=ledgers)


def test_control_who_commits_its_row_by_itself_writes_it_twice(table, ledgers):
    def scene(stage, moment, run):
        prepare(stage)
        stage.child((books_apart.name, run), kill_at=moment.point).died()
        assert rows(stage, run) == 1
        stage.worker()
        stage.end(run)
        assert rows(stage, run) == 2

    table.play([moment for moment in MOMENTS if moment.point == IN_BODY], scene, ledger=ledgers)
