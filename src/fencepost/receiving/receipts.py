"""The receiver's memory: one row for each key of each caller, on SQLite or PostgreSQL, with a unique constraint.

Every change is one statement that names the state, and mostly the owner, that it expects: of two that would begin the
same request one does, and whoever has lost a key can write nothing more. Which change is due is decided by `desk`; a
row in the handler's own transaction is written by `receipt`. The ledger is another thing: a receiver needs none.
"""

from __future__ import annotations

import json
import secrets
import sqlite3
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from importlib.resources import files
from typing import Any, NamedTuple, Self

from fencepost.core.duration import SECOND, microseconds
from fencepost.core.errors import Misuse, StoreBusy, StoreUnavailable, VerbRefused
from fencepost.core.states import ReceiptState
from fencepost.receiving.answer import Answer
from fencepost.receiving.request import Request
from fencepost.receiving.terms import Terms
from fencepost.store import queries
from fencepost.store.callers import Caller, Done, PsycopgCaller, SqliteCaller
from fencepost.store.open import path_of, wall_clock
from fencepost.store.postgres_url import Place, is_postgres, place_of
from fencepost.store.transaction import Patience

SCHEMA = "fencepost_receipts"
"""The schema of the table on PostgreSQL, unless the url names one."""

FORGOTTEN_AT_ONCE = 1_000


class Key(NamedTuple):
    """What identifies an operation at this receiver."""

    caller: str
    key: str


class Known(NamedTuple):
    """What is known of a key. Times are microseconds; `now` is when it was read."""

    fingerprint: str
    state: ReceiptState
    owner: str
    begun_at: int
    due_at: int
    answer: Answer | None
    now: int

    @property
    def is_overdue(self) -> bool:
        """Whether nobody can be at work on it any more."""
        return self.due_at <= self.now


class Unsettled(NamedTuple):
    """A key of which it is not known what it did. `begun_at` is in microseconds since the epoch."""

    caller: str
    key: str
    begun_at: int


class Receipts:
    """Opens at the first use, and makes its table. Safe to use from any thread; `close` it, or use it in a `with`.

    Args:
        url: `sqlite:///file.db` or `postgresql://host/database`: with atomic endpoints the database of their tables.
        patience: how long to wait for other writers of a file, or for a server.
        clock: microseconds in place of the database's clock; for tests.
    """

    def __init__(self, url: str, *, patience: str | timedelta = "5s", clock: Callable[[], int] | None = None) -> None:
        self._patience = microseconds(patience, what="patience") / SECOND
        self._place: Place | None = place_of(url) if is_postgres(url) else None
        self._path = "" if self._place is not None else path_of(url)
        self.dialect = "sqlite" if self._place is None else "postgres"
        self.name = self._path if self._place is None else self._place.name
        self._schema = SCHEMA if self._place is None or self._place.schema == queries.SCHEMA else self._place.schema
        self.queries = _queries(self.dialect, self._schema)
        self._clock = wall_clock if clock is None and self._place is None else clock
        self._free: deque[Any] = deque()
        self._opening = threading.Lock()
        self._is_open = False

    # -- what a desk does ---------------------------------------------------------------------------------------------

    def now(self) -> int | None:
        """The time for statements; None: the server's."""
        return None if self._clock is None else self._clock()

    def find(self, key: Key) -> Known | None:
        """What is known of a key; None: nothing, or nothing any more."""
        found = self._run("find_receipt", **key._asdict()).rows
        return known(found[0]) if found else None

    def begin(self, key: Key, request: Request, terms: Terms, owner: str) -> bool:
        """Take the key for this request: whether it was to be had."""
        values = {**key._asdict(), "fingerprint": request.fingerprint, "owner": owner, "within": terms.within}
        return self._run("begin_receipt", **values).changed == 1

    def answer(self, key: Key, owner: str, answer: Answer, terms: Terms) -> bool:
        """Keep the first result: whether this owner still had the key."""
        return self._run("answer_receipt", **key._asdict(), owner=owner, **answered(answer, terms)).changed == 1

    def release(self, key: Key, owner: str, terms: Terms) -> bool:
        """Say that nothing was done."""
        return self._run("release_receipt", **key._asdict(), owner=owner, kept=terms.kept).changed == 1

    def lose(self, key: Key, owner: str) -> bool:
        """Say that it is not known what was done."""
        return self._run("lose_receipt", **key._asdict(), owner=owner).changed == 1

    def ask(self, key: Key, previous: str, owner: str, terms: Terms) -> bool:
        """Take over a key that is unknown or overdue, in order to ask: whether nobody else did."""
        values = {**key._asdict(), "previous": previous, "owner": owner, "within": terms.within}
        return self._run("ask_receipt", **values).changed == 1

    def begin_again(self, key: Key, owner: str, terms: Terms) -> bool:
        """Run the request after all."""
        return self._run("begin_again", **key._asdict(), owner=owner, within=terms.within).changed == 1

    # -- what a person does -------------------------------------------------------------------------------------------

    def unsettled(self, *, limit: int = 100) -> list[Unsettled]:
        """Keys of which it is not known what was done, the oldest first."""
        return [Unsettled(*row[:3]) for row in self._run("unsettled_receipts", limit=limit).rows]

    def settle(
        self, caller: str, key: str, answer: Answer | None, *, by: str, reason: str, kept: str | timedelta = "25h"
    ) -> None:
        """Say what became of an unsettled request.

        Args:
            caller: whose key it is.
            key: as the sender gave it.
            answer: what the sender must get from now on; None: nothing was done, and the same request may run.
            by: who says so.
            reason: how they know; both are kept with the row.
            kept: for how long the key is kept from now on.

        Raises:
            VerbRefused: the key is not unsettled.
            Misuse: it does not say who, or why.
        """
        if not by.strip() or not reason.strip():
            raise Misuse(
                "settling needs who does it and why",
                hint="both are kept with the row, and are all that proves it",
                ids={"caller": caller, "key": key},
            )
        values = {
            "caller": caller,
            "key": key,
            "owner": secrets.token_hex(16),
            "kept": microseconds(kept, what="kept"),
            "note": json.dumps({"by": by, "reason": reason}),
        }
        if answer is None:
            done = self._run("settle_free", **values)
        else:
            done = self._run("settle_answered", **values, **columns(answer))
        if done.changed != 1:
            raise VerbRefused(
                f"key {key!r} of {caller!r} is not unsettled",
                hint="`unsettled()` lists those that are; one in progress is so when its time is over",
                ids={"caller": caller, "key": key},
            )

    def forget(self) -> int:
        """Remove keys whose window is over, some at a time: how many. Do it now and then."""
        return self._run("forget_receipts", limit=FORGOTTEN_AT_ONCE).changed

    # -- connections --------------------------------------------------------------------------------------------------

    def _run(self, name: str, **values: Any) -> Done:
        """One statement, committed. Done again where a connection turns out to be dead: each may be repeated."""
        query = self.queries[name]
        bound = values | ({"now": self.now()} if "now" in query.parameters else {})
        self._open()
        was_kept = bool(self._free)
        try:
            with self._lent() as caller:
                return caller.run(query, bound)
        except StoreUnavailable:
            if not (was_kept and self.dialect == "postgres"):
                raise
        self.close()
        with self._lent() as caller:
            return caller.run(query, bound)

    @contextmanager
    def _lent(self) -> Iterator[Caller]:
        """A connection that commits each statement by itself."""
        connection = self._kept_connection() or self._connect()
        caller: Caller = SqliteCaller(connection) if self.dialect == "sqlite" else PsycopgCaller(connection)
        try:
            yield caller
        except BaseException as error:
            connection.close()
            told = caller.explain(error, self.name) if isinstance(error, Exception) else None
            if told is None:
                raise
            ids = {"receipts": self.name}
            raise type(told)(f"the receipts cannot be used: {error}", hint=told.hint, ids=ids) from error
        self._free.append(connection)

    def _kept_connection(self) -> Any:
        try:
            return self._free.popleft()
        except IndexError:
            return None

    def _connect(self) -> Any:
        try:
            return self._connect_file() if self._place is None else self._connect_server(self._place)
        except Exception as error:
            raise StoreUnavailable(
                "the receipts cannot be reached", hint=str(error).strip(), ids={"receipts": self.name}
            ) from error

    def _connect_file(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, timeout=self._patience, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA synchronous = FULL")
        return connection

    def _connect_server(self, place: Place) -> Any:
        import psycopg

        seconds = max(1, round(self._patience))
        return psycopg.connect(place.conninfo.decode(), autocommit=True, connect_timeout=seconds)

    def _open(self) -> None:
        """Make the table, at the first use, where it is not there."""
        if not self._is_open:
            with self._opening:
                self._make_what_is_missing()

    def _make_what_is_missing(self) -> None:
        pauses = Patience(self._patience).pauses()
        while not self._is_open:
            try:
                with self._lent() as caller:
                    self._make(caller)
                self._is_open = True
            except StoreBusy:  # SQLite lets nobody wait who changes the mode of a file that somebody else has
                if not pauses.wait():
                    raise

    def _make(self, caller: Caller) -> None:
        if caller.run(self.queries["receipt_is_there"], {"schema": self._schema}).rows:
            return
        if self.dialect == "postgres":
            before, after = ["begin_making", "lock_making", "create_schema", "create_clock"], ["commit_making"]
        else:
            # Readers and a writer side by side; a file that holds something already keeps what it has.
            before, after = [] if caller.run(self.queries["anything_is_there"], {}).rows else ["write_ahead"], []
        for name in (*before, "create_receipt", "index_receipt", *after):
            caller.run(self.queries[name], {})

    def close(self) -> None:
        """Close its connections. Used again, it opens new ones."""
        while self._free:
            self._free.popleft().close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


# -- rows -------------------------------------------------------------------------------------------------------------


def known(row: tuple[Any, ...]) -> Known:
    """A row of `find_receipt`."""
    fingerprint, state, owner, begun_at, due_at, status, headers, body, now = row
    answer = None
    if status is not None:
        answer = Answer(status, tuple((name, value) for name, value in json.loads(headers)), body)
    return Known(fingerprint, ReceiptState(state), owner, begun_at, due_at, answer, now)


def columns(answer: Answer) -> dict[str, Any]:
    """An answer as columns."""
    return {"status": answer.status, "headers": json.dumps(answer.headers), "body": answer.body}


def answered(answer: Answer, terms: Terms) -> dict[str, Any]:
    """An answer as columns, kept as the terms say."""
    return {**columns(terms.kept_answer(answer)), "kept": terms.kept}


def _queries(dialect: str, schema: str) -> Mapping[str, queries.Query]:
    text = files("fencepost.receiving").joinpath("sql", dialect, "receipts.sql").read_text("utf-8")
    return queries.read(queries.in_schema(text, schema), numbered=dialect == "postgres")
