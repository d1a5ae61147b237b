"""The few connections of one process: lent to one thread at a time, made when needed, never more than agreed.

The last one given back is lent first, so that a quiet process uses one, whose statements are planned. What is done with
a connection, and when a transaction is tried again, is `postgres`'s matter.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from fencepost.core.errors import StoreBusy, StoreUnavailable
from fencepost.store.postgres_connection import PostgresConnection, PostgresError

Connect = Callable[[], PostgresConnection]


class Pool:
    """At most `size` connections at a time."""

    def __init__(self, connect: Connect, *, size: int, ledger: str) -> None:
        self.size = size
        self._connect = connect
        self._ledger = ledger
        self._free: list[PostgresConnection] = []
        self._lent = 0
        self._changed = threading.Condition()
        self._is_closed = False

    def take(self, patience: float) -> PostgresConnection:
        """A connection that nobody else uses.

        Raises `StoreBusy` when none is free within `patience` seconds, and `PostgresError` when a new one cannot be
        made. Without any patience none is made.
        """
        until = time.monotonic() + patience
        with self._changed:
            while not self._free and (self._lent >= self.size or patience <= 0):
                self._refuse_closed()
                left = until - time.monotonic()
                if left <= 0 or not self._changed.wait(left):
                    raise StoreBusy(
                        f"all {self.size} connections of this process are in use",
                        hint="try again, or allow more with ?connections= in the url",
                        ids={"ledger": self._ledger},
                    )
            self._refuse_closed()
            self._lent += 1
            if self._free:
                return self._free.pop()
        try:
            return self._connect()
        except BaseException:
            self._returned(None)
            raise

    def give(self, connection: PostgresConnection) -> None:
        """Give a connection back. One that is closed, or in the middle of a transaction, is not lent again."""
        if not (connection.closed or connection.in_transaction):
            try:
                connection.plan_again()
            except PostgresError:
                connection.close()
        if connection.closed or connection.in_transaction:
            connection.close()
            # Whatever ended it has mostly ended those that nobody uses too; they are found out as cheaply as made.
            self.drop_free()
            self._returned(None)
        else:
            self._returned(connection)

    def drop_free(self, farewell: Callable[[PostgresConnection], None] | None = None) -> None:
        """Close those that nobody uses."""
        with self._changed:
            free, self._free = self._free, []
        for connection in free:
            if farewell is not None:
                farewell(connection)
            connection.close()

    def close(self, farewell: Callable[[PostgresConnection], None]) -> None:
        """Close those that nobody uses now, after a last word, and the others when they are given back."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self.drop_free(farewell)

    def _returned(self, connection: PostgresConnection | None) -> None:
        with self._changed:
            self._lent -= 1
            if connection is not None and not self._is_closed:
                self._free.append(connection)
                connection = None
            self._changed.notify()
        if connection is not None:
            connection.close()

    def _refuse_closed(self) -> None:
        if self._is_closed:
            raise StoreUnavailable("the store is closed", hint="open it again", ids={"ledger": self._ledger})
