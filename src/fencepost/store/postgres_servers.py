"""Connects to the one of a url's hosts that takes writes, whatever the others do: refuse, lag behind, or keep silent.

Each host has its own part of the time, which libpq does not give where the caller waits for the socket: a primary that
was stopped, or cut off, accepts connections and never answers. The host that answered last is asked first, so that it
costs others nothing. What a url means is `postgres_url`'s matter, what an error does, `postgres_failures`'s.
"""

from __future__ import annotations

import select
import time

from fencepost.store.postgres_connection import LOST, PostgresConnection, PostgresError
from fencepost.store.postgres_url import Place

UNTRUSTED, NOT_LET_IN, READ_ONLY = "08FP1", "08FP2", "25006"
"""What is said for a server that TLS does not accept, and for one that does not accept us; and what PostgreSQL says for
one that takes no writes."""

# Of a connection that did not come about libpq gives no code, only words: of the first kind that is found among them.
_WORDS = {
    UNTRUSTED: ("certificate", "does not support SSL"),
    NOT_LET_IN: ("authentication failed", "no pg_hba.conf entry", "no password supplied", "does not exist"),
    READ_ONLY: ("session is read-only", "server is in hot standby mode"),
}

_HOST_WITHIN = 5.0  # seconds


class Servers:
    """The hosts of one url. Safe to use from any thread.

    `patience` is how many seconds a server may take to answer; in all of them together one is found, or none.
    """

    def __init__(self, place: Place, patience: float) -> None:
        self._hosts = place.hosts
        self._patience = patience

    def connect(self, *, prepares: bool) -> PostgresConnection:
        """A new connection; raises `PostgresError`, whose message holds no password."""
        hosts = self._hosts
        seconds = min(_HOST_WITHIN, self._patience / len(hosts))
        refusals: list[PostgresError] = []
        for host in hosts:
            try:
                connection = _connect(host, seconds=seconds, patience=self._patience, prepares=prepares)
            except PostgresError as error:
                refusals.append(error)
            else:
                self._hosts = (host, *(other for other in hosts if other != host))
                return connection
        # A server that is there says more of what to do than one that is not.
        code = next((error.code for error in refusals if error.code != LOST), LOST)
        raise PostgresError(code, "; ".join(map(str, refusals)))


def _connect(conninfo: bytes, *, seconds: float, patience: float, prepares: bool) -> PostgresConnection:
    from psycopg import OperationalError, pq

    until = time.monotonic() + seconds
    try:
        inner = pq.PGconn.connect_start(conninfo)
        while (state := inner.connect_poll()) not in (pq.PollingStatus.OK, pq.PollingStatus.FAILED):
            ready = select.poll()
            ready.register(inner.socket, select.POLLIN if state == pq.PollingStatus.READING else select.POLLOUT)
            left = until - time.monotonic()
            if left <= 0 or not ready.poll(left * 1000):
                host = inner.host.decode()
                inner.finish()
                raise PostgresError(LOST, f"the server at {host} did not answer within {seconds:g} s")
        if state == pq.PollingStatus.FAILED:
            message = inner.get_error_message().strip()
            inner.finish()
            raise PostgresError(_why(message), message)
        return PostgresConnection(inner, patience=patience, prepares=prepares)
    except OperationalError as error:
        raise PostgresError(LOST, str(error)) from error


def _why(message: str) -> str:
    for code, words in _WORDS.items():
        if any(word in message for word in words):
            return code
    return LOST
