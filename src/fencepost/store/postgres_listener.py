"""Hears what other processes tell with NOTIFY, on a connection of its own, and proves again and again that it hears.

A connection can die without a word: a cable, a firewall, a pooler that never passes anything on. So the listener sends
itself a message every few seconds, which must come back on the same way. While none has, `Heard` looks more often
itself: what is told is a hint, and the ledger is looked at anyway. The same round trip brings the server's clock.

Who tells, and when, is `postgres_commit`'s and `verbs`'s matter; what a worker does with it, the worker's.
"""

from __future__ import annotations

import logging
import select
import socket
import threading
import time
from collections.abc import Callable
from secrets import token_hex

from fencepost.store.postgres_connection import PostgresConnection, PostgresError
from fencepost.store.queries import Row
from fencepost.store.server_clock import boot_time

_log = logging.getLogger(__name__)

PROOF_EVERY = 10.0
"""Seconds between two messages of a listener to itself."""

ANSWER_WITHIN = 5.0
"""Seconds after which a message that has not come back means that nothing does."""

_RETRY_FIRST, _RETRY_MAX = 0.1, 5.0  # seconds between two attempts to connect


class Listener:
    """One process's ear, with a thread that starts with the first `hear`.

    `ask` runs the three statements of an ear on a connection: see `Ear`.
    """

    def __init__(self, connect: Callable[[], PostgresConnection], ear: Ear) -> None:
        self._connect = connect
        self._ear = ear
        self._told: list[Callable[[], None]] = []
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closing = False
        self._waker, self._wakes = socket.socketpair()
        self.hears = False
        """Whether the last message to itself came back."""

    def hear(self, told: Callable[[], None]) -> None:
        """Call `told`, on the listener's thread, whenever something may have changed."""
        with self._lock:
            self._told.append(told)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="fencepost-listener", daemon=True)
                self._thread.start()

    def forget(self, told: Callable[[], None]) -> None:
        """Call it no more."""
        with self._lock:
            self._told.remove(told)

    def close(self) -> None:
        """End the thread and its connection."""
        self._closing = True
        self._waker.send(b"\0")
        if self._thread is not None:
            self._thread.join()
        self._waker.close()
        self._wakes.close()

    # -- on the thread --------------------------------------------------------------------------------------------

    def _run(self) -> None:
        pause = _RETRY_FIRST
        while not self._closing:
            try:
                connection = self._connect()
                try:
                    self._listen(connection)
                finally:
                    connection.close()
                pause = _RETRY_FIRST
            except PostgresError as error:
                _log.warning("this process does not hear of changes, and looks instead: %s", error)
                if self.hears:
                    pause = _RETRY_FIRST
            self.hears = False
            self._sleep(pause)
            pause = min(pause * 2, _RETRY_MAX)

    def _listen(self, connection: PostgresConnection) -> None:
        self._ear.open(connection)
        # Whatever was told while nobody listened.
        self._tell()
        while not self._closing:
            proof = token_hex(8)
            self._ear.prove(connection, proof)
            sent, proved = time.monotonic(), False
            while not self._closing and (now := time.monotonic()) < sent + PROOF_EVERY:
                if not proved and now > sent + ANSWER_WITHIN:
                    self.hears = False
                proved = self._take(connection, proof, proved=proved)
                self.hears = self.hears or proved
                self._wait(connection, sent + (PROOF_EVERY if proved else ANSWER_WITHIN) - now)

    def _take(self, connection: PostgresConnection, proof: str, *, proved: bool) -> bool:
        messages = connection.notices()
        if any(self._ear.is_change(message) for message in messages):
            self._tell()
        return proved or any(self._ear.is_proof(message, proof) for message in messages)

    def _wait(self, connection: PostgresConnection, seconds: float) -> None:
        waiting = select.poll()
        waiting.register(connection.fileno(), select.POLLIN)
        waiting.register(self._wakes, select.POLLIN)
        waiting.poll(max(1.0, seconds * 1000))

    def _sleep(self, seconds: float) -> None:
        waiting = select.poll()
        waiting.register(self._wakes, select.POLLIN)
        waiting.poll(seconds * 1000)

    def _tell(self) -> None:
        with self._lock:
            told = list(self._told)
        for call in told:
            call()


class Ear:
    """The statements of a listener: what is said on its connection, and which messages are what."""

    def __init__(
        self, *, listen: str, tell: str, ask_the_time: str, schema: str, learn: Callable[[Row, int], None]
    ) -> None:
        self._listen = listen
        self._tell_others = tell
        self._ask_the_time = ask_the_time
        self._schema = schema
        self._learn = learn

    def open(self, connection: PostgresConnection) -> None:
        """Begin to listen."""
        connection.execute(self._listen)

    def prove(self, connection: PostgresConnection, proof: str) -> None:
        """Send a message that must come back, and read the clock."""
        before = boot_time()
        message = ("fencepost", f"{self._schema} {proof}")
        found = connection.run([(self._ask_the_time, ()), (self._tell_others, message)], patience=ANSWER_WITHIN)
        self._learn(found[0].rows[0], before)

    def is_change(self, message: str) -> bool:
        """Whether somebody has changed this ledger."""
        return message == self._schema

    def is_proof(self, message: str, proof: str) -> bool:
        """Whether this is the message that was to come back."""
        return message == f"{self._schema} {proof}"


class Heard:
    """`Changes` for a worker, told by a listener; without one, or while it hears nothing, it asks to look itself."""

    pulse = 0.25

    def __init__(self, listener: Listener | None, told: Callable[[], None]) -> None:
        self._listener = listener
        self._told = told
        self._is_told = True
        self._looked_at = 0.0
        if listener is not None:
            listener.hear(self._hear)

    @property
    def pause_max(self) -> float:
        """See `Changes.pause_max`: short while nothing would be heard."""
        return 10.0 if self._listener is not None and self._listener.hears else 1.0

    def look(self) -> bool:
        """See `Changes.look`."""
        now = time.monotonic()
        if not self._is_told and now - self._looked_at < self.pause_max:
            return False
        self._is_told = False
        self._looked_at = now
        return True

    def close(self) -> None:
        """See `Changes.close`."""
        if self._listener is not None:
            self._listener.forget(self._hear)

    def _hear(self) -> None:
        self._is_told = True
        self._told()
