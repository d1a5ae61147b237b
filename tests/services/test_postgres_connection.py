"""A connection that the server ends in the middle of its work is lost, whatever the server said before it did."""

import signal
import socket
import threading

import pytest

from fencepost.store.postgres_connection import PostgresConnection, PostgresError
from fencepost.store.postgres_failures import is_gone
from fencepost.store.postgres_open import connection_to
from fencepost.store.postgres_url import place_of
from tests.polling import until
from tests.services.fixtures import Place
from tests.services.postgres import Cluster

ENDINGS = {
    "it is told to end": lambda server: server.kill_connections("victim"),
    "it crashes": lambda server: server.restart(signal.SIGQUIT),
    "it is restarted": lambda server: server.restart(signal.SIGINT),
}
STEPS = [
    [("SELECT pg_sleep(60)", ())],
    [("BEGIN", ()), ("SELECT pg_sleep(60)", ()), ("COMMIT", ())],
    [("SELECT pg_sleep(60)", ()), ("SELECT 1", ()), ("SELECT 2", ())],
]


def connected(place: Place) -> PostgresConnection:
    return connection_to(place_of(place.url(application_name="victim")), 20.0, prepares=False)


@pytest.mark.parametrize("steps", STEPS, ids=["alone", "in a transaction", "with more behind it"])
@pytest.mark.parametrize("ending", ENDINGS)
def test_what_it_was_doing_then_is_not_known(postgres: Place, ending: str, steps: list) -> None:
    connection = connected(postgres)
    server: Cluster = postgres.server
    asleep = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'victim' AND state = 'active'"

    def end() -> None:
        until(lambda: server.ask(asleep)[0][0], "the victim to be at work")
        ENDINGS[ending](server)

    ender = threading.Thread(target=end)
    ender.start()
    with pytest.raises(PostgresError) as lost:
        connection.run(steps)
    ender.join()
    assert is_gone(lost.value)
    assert connection.closed or not connection.in_transaction


class Silent:
    """A libpq connection that gives one error for all that was sent, and then nothing, not even the end of it."""

    socket, nonblocking, transaction_status, status = 0, 0, 0, 1

    def __init__(self) -> None:
        self.results = [Refused()]

    def enter_pipeline_mode(self) -> None: ...

    def send_query_params(self, statement: bytes, parameters: object) -> None: ...

    def pipeline_sync(self) -> None: ...

    def finish(self) -> None: ...

    def flush(self) -> int:
        return 0

    def is_busy(self) -> bool:
        return False

    def get_result(self) -> object:
        return self.results.pop() if self.results else None


class Unfinished(Silent):
    """A libpq connection that has answered everything, and has not said yet that this was all."""

    def __init__(self, end: socket.socket) -> None:
        self.results: list[Refused | None] = [None, Refused()]
        self.socket = end.fileno()

    def is_busy(self) -> bool:
        return not self.results

    def get_result(self) -> object:
        return self.results.pop()


class Refused:
    """What libpq says of a connection that has ended: no code, only words."""

    status, error_message = 7, b"server closed the connection unexpectedly"

    def error_field(self, field: int) -> None:
        return None


def test_an_end_without_the_end_of_the_pipeline_is_a_lost_connection() -> None:
    connection = PostgresConnection(Silent(), patience=5.0, prepares=False)  # type: ignore[arg-type]  # only what is called of it

    with pytest.raises(PostgresError) as lost:
        connection.run([("SELECT 1", ()), ("SELECT 2", ())])
    assert is_gone(lost.value)


def test_it_is_not_quiet_before_the_server_has_said_that_this_was_all() -> None:
    """An error is told as soon as it happens: a batch sent again then would be done twice, and its answers confused."""
    mine, servers = socket.socketpair()
    with mine, servers:
        connection = PostgresConnection(Unfinished(mine), patience=5.0, prepares=False)  # type: ignore[arg-type]  # the same
        connection.send([("COMMIT", ())])

        assert connection.receive(0.0) is None
        assert not connection.is_quiet


def test_statements_stay_prepared_when_a_later_one_is_refused(postgres: Place) -> None:
    connection = connection_to(place_of(postgres.url()), 20.0, prepares=True)
    kept, refused = ("SELECT $1::bigint", (1,)), ("SELECT 1 / $1::bigint", (0,))

    for _ in range(3):
        for steps in ([kept, refused], [refused, kept]):
            with pytest.raises(PostgresError, match="division by zero"):
                connection.run([("BEGIN", ()), *steps, ("COMMIT", ())])
            connection.run([("ROLLBACK", ())])
    assert connection.run([kept])[0].rows == [(1,)]
    connection.close()
