"""One connection to PostgreSQL, over libpq as psycopg wraps it: statements go out together and answers come back.

Everything is sent in libpq's pipeline mode: several statements make one round trip, and when one is refused the server
skips the rest. While the server works, this thread waits in `poll` without the interpreter lock, no longer than the
connection's patience: a server that has gone without a word is a lost connection too. psycopg's own layer of cursors
and adaptation is left out: the ledger knows integers and text, and the journal counts microseconds. How a connection
comes about is `postgres_servers`' matter, who uses it `postgres_pool`'s, what an error means `postgres_failures`'s.
"""

from __future__ import annotations

import select
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from secrets import token_hex
from typing import TYPE_CHECKING, Any

from fencepost.store.lending import lent_psycopg
from fencepost.store.queries import Row

if TYPE_CHECKING:
    from psycopg.pq.abc import PGconn, PGresult

Step = tuple[str, Sequence[Any]]
"""A statement with `$n` placeholders, and its parameters."""

Encoded = tuple[str, Sequence[bytes | None]]
"""The same, with the parameters as the server takes them."""

LOST = "08000"
"""What this module says for a connection that ended without a word of the server's: PostgreSQL's code for it."""

UNENCODABLE = "22P05"
"""PostgreSQL's code for a text that it cannot hold."""

# A statement that was prepared is not there, or is there although nobody prepared it here.
_NOT_PREPARED = frozenset({"26000", "42P05"})

_INTEGERS = frozenset({20, 21, 23})  # the types int8, int2 and int4
_BOOLEAN = 16
# After so many round trips statements are planned anew, and again after so many times as many.
_PLAN_AGAIN_FIRST, _PLAN_AGAIN_TIMES = 64, 4

_COMMAND_OK, _TUPLES_OK, _PIPELINE_SYNC, _PIPELINE_ABORTED = 1, 2, 10, 11
_IDLE, _IN_ERROR = 0, 3


@dataclass(slots=True)
class Mark:
    """How a connection numbers its commits: `number` is the last that is known to have happened, `at` its time."""

    id: str = field(default_factory=lambda: token_hex(8))
    number: int = 0
    at: int = 0


class PostgresError(Exception):
    """PostgreSQL refused, or the connection is lost; `code` is the SQLSTATE, `column` that of a refused value."""

    def __init__(self, code: str, message: str, *, column: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.column = column


class Result:
    """What one statement answered; read when it is looked at, which most answers of a commit never are."""

    __slots__ = ("_inner",)

    def __init__(self, inner: PGresult) -> None:
        self._inner = inner

    @property
    def rows(self) -> list[Row]:
        """Its rows, read anew each time."""
        inner = self._inner
        get = inner.get_value
        columns = [(column, _reader(inner.ftype(column))) for column in range(inner.nfields)]
        # A list is made faster than a generator is asked, and a page of runs has 1,500 values.
        return [
            tuple([None if (value := get(row, column)) is None else read(value) for column, read in columns])
            for row in range(inner.ntuples)
        ]

    @property
    def changed(self) -> int:
        """How many rows it changed."""
        return self._inner.command_tuples or 0


class PostgresConnection:
    """One connection, used by one thread at a time, in autocommit mode until BEGIN.

    `patience` is how many seconds the server may take to answer. With `prepares` statements are planned once per
    connection; without, nothing is left behind on the server between transactions.
    """

    def __init__(self, inner: PGconn, *, patience: float, prepares: bool) -> None:
        self.patience = patience
        self.prepares = prepares
        self.mark = Mark()
        self.round_trips = 0
        self._plan_again_at = _PLAN_AGAIN_FIRST
        self._inner = inner
        self._prepared: dict[str, bytes] = {}
        self._preparing: set[str] = set()
        """What was sent to be prepared, and is not known to have been."""
        self._sent = deque[str | None]()
        """What each answer that is still to come is to: the statement that is prepared with it, None for a run."""
        self._is_awaited = False
        """Whether the end of a round trip is still to come, which may be later than its last answer."""
        self._results: list[Result] = []
        self._refusal: PostgresError | None = None
        self._poll = select.poll()
        self._poll.register(inner.socket, select.POLLIN)
        inner.nonblocking = 1
        inner.enter_pipeline_mode()

    # -- what the store calls -------------------------------------------------------------------------------------

    def execute(self, statement: str, parameters: Sequence[Any] = (), /) -> list[Row]:
        """Run one statement; all its rows."""
        return self.run([(statement, parameters)])[0].rows

    def change(self, statement: str, parameters: Sequence[Any] = (), /) -> int:
        """Run one statement that writes; how many rows it changed."""
        return self.run([(statement, parameters)])[0].changed

    def run(self, steps: Sequence[Step], *, patience: float | None = None) -> list[Result]:
        """Run statements in one round trip; what each answered.

        Raises `PostgresError` for the first that was refused: those behind it were not run, and a transaction that was
        open can only be ended. After a lost connection it is not known what was run.
        """
        return self.run_encoded([encoded(step) for step in steps], patience=patience)

    def run_encoded(self, steps: Sequence[Encoded], *, patience: float | None = None) -> list[Result]:
        """`run` for parameters that are encoded already."""
        seconds = self.patience if patience is None else patience
        self.send(steps)
        results = self.receive(seconds)
        if results is None:
            self.close()
            raise PostgresError(LOST, f"the server has not answered within {seconds:g} s")
        return results

    def send(self, steps: Sequence[Encoded]) -> None:
        """Begin what `run_encoded` does; `receive` ends it."""
        from psycopg import OperationalError

        assert not self._is_awaited, "one round trip at a time"
        self.round_trips += 1
        self._is_awaited = True
        try:
            self._queue(steps)
            self._inner.flush()
        except OperationalError as error:
            raise self._lost(error) from error

    def receive(self, seconds: float) -> list[Result] | None:
        """The answers to what was sent, or None when they are not there within `seconds`: then call it again."""
        from psycopg import OperationalError

        until = time.monotonic() + seconds
        try:
            return self._receive(until)
        except OperationalError as error:
            raise self._lost(error) from error

    def plan_again(self) -> None:
        """Let statements be planned anew if that is due: they were planned for the tables of then, at first empty ones.

        In an empty table every index is as good as another, and the one chosen may later be read from end to end. Only
        between transactions.
        """
        if self.prepares and self.round_trips >= self._plan_again_at:
            self._plan_again_at *= _PLAN_AGAIN_TIMES
            self.run_encoded([("DISCARD PLANS", ())])

    def forget_prepared(self, code: str) -> None:
        """Prepare nothing any more if that is what was refused: a pooler gives each transaction another server."""
        if code in _NOT_PREPARED:
            self.prepares = False

    def run_script(self, script: str) -> None:
        """Run several statements as one text, which takes no parameters; within the transaction that is open."""
        from psycopg import OperationalError

        try:
            self._inner.exit_pipeline_mode()
            self._inner.nonblocking = 0
            result = self._inner.exec_(script.encode())
            self._inner.nonblocking = 1
            self._inner.enter_pipeline_mode()
        except OperationalError as error:
            raise self._lost(error) from error
        if result.status not in (_COMMAND_OK, _TUPLES_OK):
            raise _refusal(result)

    def notices(self) -> list[str]:
        """The messages that others have told since the last call; does not wait."""
        from psycopg import OperationalError

        try:
            self._inner.consume_input()
        except OperationalError as error:
            raise self._lost(error) from error
        found = []
        while (told := self._inner.notifies()) is not None:
            found.append(told.extra.decode())
        return found

    def fileno(self) -> int:
        """What to wait for with `select`."""
        return self._inner.socket

    @property
    def in_transaction(self) -> bool:
        """Whether a transaction is open, also one that can only be ended."""
        return not self.closed and self._inner.transaction_status != _IDLE

    @property
    def is_sent(self) -> bool:
        """Whether everything that was to be sent has left this process."""
        return self._inner.flush() == 0

    @property
    def is_quiet(self) -> bool:
        """Whether it waits for no answer."""
        return not self._is_awaited

    @property
    def closed(self) -> bool:
        """Whether it is closed, by either side as far as is known."""
        return self._inner.status != 0

    @property
    def server(self) -> str:
        """Which server and database this is, without what is secret."""
        inner = self._inner
        place = inner.host.decode() or "localhost"
        port = "" if place.startswith("/") else f":{inner.port.decode()}"
        return f"postgresql://{inner.user.decode()}@{place}{port}/{inner.db.decode()}"

    @property
    def is_encrypted(self) -> bool:
        """Whether TLS protects it."""
        return bool(self._inner.ssl_in_use)

    def close(self) -> None:
        """End it; a second call does nothing."""
        self._inner.finish()

    @contextmanager
    def lent(self) -> Iterator[Any]:
        """A psycopg connection over this one, within the transaction that is open."""
        self._inner.exit_pipeline_mode()
        try:
            yield lent_psycopg(self._inner)
        finally:
            if not self.closed:
                self._inner.enter_pipeline_mode()

    # -- the protocol ---------------------------------------------------------------------------------------------

    def _lost(self, error: Exception) -> PostgresError:
        """Libpq itself gave up: the socket is gone, or the protocol broke."""
        self.close()
        return PostgresError(LOST, str(error))

    def _queue(self, steps: Sequence[Encoded]) -> None:
        """Queue the statements, and note to which each answer will be: to a preparation, or to a statement."""
        inner, sent = self._inner, self._sent
        for statement, parameters in steps:
            if not self.prepares or not parameters:
                inner.send_query_params(statement.encode(), parameters)
                sent.append(None)
                continue
            name = self._prepared.get(statement)
            if name is None:
                # By its content: whatever stands between, no name ever means another statement.
                name = b"fencepost_%s" % blake2b(statement.encode(), digest_size=12).hexdigest().encode()
                inner.send_prepare(name, statement.encode())
                self._prepared[statement] = name
                self._preparing.add(statement)
                sent.append(statement)
            inner.send_query_prepared(name, parameters)
            sent.append(None)
        inner.pipeline_sync()

    def _receive(self, until: float) -> list[Result] | None:
        inner = self._inner
        while inner.flush():
            # Read meanwhile what the server answers, or each would wait for the other.
            if not self._wait(until, select.POLLIN | select.POLLOUT):
                return None
            inner.consume_input()
        while True:
            while inner.is_busy():
                if not self._wait(until, select.POLLIN):
                    return None
                inner.consume_input()
            result = inner.get_result()
            if result is not None and result.status == _PIPELINE_SYNC:
                return self._answers()
            self._take(result)

    def _take(self, result: PGresult | None) -> None:
        if result is None:
            if not self._sent:
                # The server said why it ends the connection, and nothing after it: what it has done is not known.
                raise self._lost(self._refusal or ConnectionError("the server ended the connection"))
            self._sent.popleft()  # the end of one statement's answers
        elif result.status in (_COMMAND_OK, _TUPLES_OK):
            prepared = self._sent[0]
            if prepared is None:
                self._results.append(Result(result))
            else:
                self._preparing.discard(prepared)
        elif result.status != _PIPELINE_ABORTED:
            self._refusal = self._refusal or _refusal(result)

    def _answers(self) -> list[Result]:
        results, self._results = self._results, []
        refusal, self._refusal = self._refusal, None
        self._sent.clear()
        self._is_awaited = False
        if refusal is not None:
            # What was to be prepared behind the refused statement was not; what was before it stays, whatever it did.
            for statement in self._preparing:
                del self._prepared[statement]
            self._preparing.clear()
            raise refusal
        return results

    def _wait(self, until: float, events: int) -> bool:
        self._poll.modify(self._inner.socket, events)
        return bool(self._poll.poll(max(0.0, until - time.monotonic()) * 1000))


# -- values -----------------------------------------------------------------------------------------------------------


def encoded(step: Step) -> Encoded:
    """A step as the server takes it. Raises `PostgresError` for a value that it cannot hold."""
    statement, parameters = step
    return statement, [_encoded(value) for value in parameters]


def _encoded(value: object) -> bytes | None:
    if value is None:
        return None
    if type(value) is int:
        return b"%d" % value
    if isinstance(value, str):
        return encoded_text(value)
    raise PostgresError(UNENCODABLE, f"{type(value).__name__} is neither text nor a number")


def encoded_text(text: str) -> bytes:
    """Text for the server. Raises `PostgresError` for what it cannot hold: NUL, and halves of surrogate pairs."""
    try:
        encoded = str.encode(text)  # what is no text at all is a TypeError
    except UnicodeEncodeError as error:
        raise PostgresError(UNENCODABLE, str(error)) from error
    if b"\0" in encoded:
        raise PostgresError(UNENCODABLE, "PostgreSQL's text cannot hold the character NUL")
    return encoded


def _text(value: bytes) -> str:
    return value.decode()


def _truth(value: bytes) -> bool:
    return value == b"t"


def _reader(type_: int) -> Callable[[bytes], Any]:
    if type_ in _INTEGERS:
        return int
    return _truth if type_ == _BOOLEAN else _text


def _refusal(result: PGresult) -> PostgresError:
    from psycopg import pq

    def told(field: int) -> str | None:
        found = result.error_field(field)
        return None if found is None else found.decode(errors="replace")

    message = told(pq.DiagnosticField.MESSAGE_PRIMARY) or result.error_message.decode(errors="replace").strip()
    code = told(pq.DiagnosticField.SQLSTATE) or LOST
    return PostgresError(code, message, column=told(pq.DiagnosticField.COLUMN_NAME))
