"""Hears what other processes tell with NOTIFY, on a connection of its own, and proves again and again that it hears.

A connection can die without a word: a cable, a firewall, a pooler that passes nothing on. So a message is sent on
another connection every few seconds, and must come in on this one. While none does, `Heard` looks more often itself:
what is told is a hint, and the ledger is looked at anyway.

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

from fencepost.store.changes import Signalled, Told
from fencepost.store.postgres_connection import LOST, PostgresConnection, PostgresError

_log = logging.getLogger(__name__)

PROOF_EVERY = 10.0
"""Seconds between two messages that must be heard."""

ANSWER_WITHIN = 5.0
"""Seconds after which a message that was not heard means that nothing is."""

_RETRY_FIRST, _RETRY_MAX = 0.1, 5.0  # seconds between two attempts to connect


class Listener:
    """One process's ear, with a thread that starts with the first `hear`.

    `listen` is the statement that begins to listen, `change` the message of somebody who has changed this ledger, and
    `say` sends another message on another connection; it raises `FencepostError` when it cannot.
    """

    def __init__(
        self, connect: Callable[[], PostgresConnection], *, listen: str, change: str, say: Callable[[str], None]
    ) -> None:
        self._connect = connect
        self._statement = listen
        self._change = change
        self._of_run = f"{change} run "
        self._say = say
        self._told: list[Told] = []
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._closing = False
        self._waker, self._wakes = socket.socketpair()
        self.hears = False
        """Whether the last proof came in."""

    def hear(self, told: Told) -> None:
        """Call `told`, on the listener's thread, whenever something may have changed."""
        with self._lock:
            self._told.append(told)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="fencepost-listener", daemon=True)
                self._thread.start()

    def forget(self, told: Told) -> None:
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
            has_heard = False
            try:
                connection = self._connect()
                try:
                    has_heard = self._listen(connection)
                finally:
                    connection.close()
            except Exception as error:  # noqa: BLE001 - whatever it is, this process must hear again
                has_heard = self.hears
                if has_heard or pause == _RETRY_FIRST:
                    _log.warning("this process does not hear of changes, and looks for them: %s", error)
            self.hears = False
            pause = _RETRY_FIRST if has_heard else min(pause * 2, _RETRY_MAX)
            self._wait(self._wakes, seconds=pause)

    def _listen(self, connection: PostgresConnection) -> bool:
        """Hear until told to close; raises `PostgresError` or `FencepostError` when nothing is heard any more."""
        connection.execute(self._statement)
        # Whatever was told while nobody listened.
        self._tell(None)
        while not self._closing:
            proof = f"{self._change} proof {token_hex(8)}"
            self._say(proof)
            if not self._hear_until(connection, proof, seconds=ANSWER_WITHIN):
                raise PostgresError(LOST, "a message to ourselves was not passed on")
            self.hears = True
            self._hear_until(connection, None, seconds=PROOF_EVERY)
        return self.hears

    def _hear_until(self, connection: PostgresConnection, proof: str | None, *, seconds: float) -> bool:
        """Pass on what is told, for so many seconds or until the proof has come in, or all is to end: then True."""
        until = time.monotonic() + seconds
        while not self._closing and (left := until - time.monotonic()) > 0:
            messages = connection.notices()
            if news := [one for one in set(messages) if one == self._change or one.startswith(self._of_run)]:
                self._tell(_signalled(news[0].removeprefix(self._of_run)) if len(news) == 1 else None)
            if proof in messages:
                return True
            self._wait(self._wakes, connection, seconds=left)
        return self._closing

    def _wait(self, *ends: socket.socket | PostgresConnection, seconds: float) -> None:
        waiting = select.poll()
        for end in ends:
            waiting.register(end.fileno(), select.POLLIN)
        waiting.poll(seconds * 1000)

    def _tell(self, signalled: Signalled | None) -> None:
        with self._lock:
            told = list(self._told)
        for call in told:
            call(signalled)


def _signalled(words: str) -> Signalled | None:
    """The run that a message is about, of what `tell_of_signal` says of it; None: it is about none."""
    match words.split():
        case [run, generation, state]:
            return Signalled(int(run), int(generation), state)
        case [run] if run.isdecimal():
            return Signalled(int(run))
    return None


class Heard:
    """`Changes` for a worker, told by a listener; without one, or while it hears nothing, it asks to look itself."""

    pulse = 0.25

    def __init__(self, listener: Listener | None, told: Told) -> None:
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

    def _hear(self, signalled: Signalled | None) -> None:
        self._is_told = self._is_told or signalled is None
        self._told(signalled)
