"""Opens a ledger: checks what the file is, brings its schema up to date and proves the connection's settings.

Each pragma that durability rests on is read back, and a connection that does not keep it is refused: a store that
merely asked for `synchronous=FULL` could lose acknowledged intents on a power cut. The tables are `migrate`'s, the
verbs `sqlite`'s; a ledger on a server is opened by `postgres_open`, which is loaded when a url asks for it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

from fencepost.core.errors import ForeignDatabase, Misuse, StoreUnavailable
from fencepost.store import queries
from fencepost.store.api import Store
from fencepost.store.connection import Connect, Connection, SqliteError, connect_standard
from fencepost.store.failures import unavailable
from fencepost.store.faultpoints import Probe
from fencepost.store.migrate import migrate, schema_of
from fencepost.store.postgres_url import SCHEMES
from fencepost.store.sqlite import SqliteStore
from fencepost.store.transaction import Patience, when_free

_FULL = 2  # what `PRAGMA synchronous` answers for FULL


def wall_clock() -> int:
    """Microseconds since the Unix epoch by this machine's clock, which is SQLite's clock too."""
    return time.time_ns() // 1000


def open_store(
    url: str,
    *,
    connect: Connect = connect_standard,
    clock: Callable[[], int] | None = None,
    patience: float = 10.0,
    probe: Probe | None = None,
) -> Store:
    """Open the ledger at `url`; creates it if it is missing.

    `url` is "sqlite:///relative.db", "sqlite:////absolute.db", a path, or "postgresql://host/database". `patience` is
    how many seconds a verb waits for other processes' locks, or for a server that is away. `connect` is the seam for
    tests of SQLite, `clock` returns microseconds in place of the database's, `probe` is called at fault points.

    Raises `ForeignDatabase` for what is not a ledger or is from a newer version, `StoreUnavailable` for one that cannot
    be read and written durably, `Misuse` for a url of another kind.
    """
    if url.startswith(SCHEMES):
        from fencepost.store.postgres_open import open_postgres

        return open_postgres(url, clock=clock, patience=patience, probe=probe)
    return open_file(url, connect=connect, clock=clock or wall_clock, patience=patience, probe=probe)


def open_file(
    url: str,
    *,
    connect: Connect = connect_standard,
    clock: Callable[[], int] = wall_clock,
    patience: float = 10.0,
    probe: Probe | None = None,
) -> SqliteStore:
    """`open_store` for a ledger in an SQLite file."""
    path = path_of(url)
    _check_place(path)
    waiting = Patience(patience)
    try:
        first = _open_connection(path, connect, waiting)
        try:
            when_free(lambda: migrate(first, path, waiting), waiting)
            _refuse_copied(first, path, waiting)
        finally:
            first.close()
        return SqliteStore(
            path, lambda: _open_connection(path, connect, waiting), clock=clock, patience=patience, probe=probe
        )
    except SqliteError as error:
        raise unavailable(error, path) from error


def _refuse_copied(connection: Connection, path: str, patience: Patience) -> None:
    query = queries.load("sqlite")["copied_to"]
    found = when_free(lambda: connection.execute(query.statement), patience)
    if found:
        raise ForeignDatabase(
            f"this ledger was copied to {found[0][0]} and goes on there",
            hint="give the app that url; whatever is sent from here would be sent twice",
            ids={"ledger": path},
        )


def schema_at(url: str, *, patience: float = 10.0) -> int | None:
    """The number of the schema of the ledger at `url`: 0 for one that is empty, None where nothing is.

    Changes nothing. Raises what opening it would raise, such as `ForeignDatabase`.
    """
    if url.startswith(SCHEMES):
        from fencepost.store import postgres_open

        return postgres_open.schema_at(url, patience=patience) or None
    path = path_of(url)
    if not Path(path).exists():
        return None
    try:
        connection = connect_standard(path)
        try:
            return when_free(lambda: schema_of(connection, path), Patience(patience))
        finally:
            connection.close()
    except SqliteError as error:
        raise unavailable(error, path) from error


def name_of(url: str) -> str:
    """What may be shown of a ledger's url: its file, or server and database without a password. Opens nothing."""
    if url.startswith(SCHEMES):
        from fencepost.store.postgres_url import place_of

        return place_of(url).name
    return path_of(url)


def path_of(url: str) -> str:
    """The file that a url names; a plain path names itself."""
    scheme, mark, rest = url.partition("://")
    if not mark:
        rest = url
    elif scheme != "sqlite" or not rest.startswith("/"):
        raise Misuse(
            f"{url!r} does not name a ledger",
            hint='write "sqlite:///file.db" for a file here, "sqlite:////folder/file.db" or "postgresql://host/database"',
        )
    else:
        rest = rest[1:]
    if not rest or rest == ":memory:" or rest.startswith("file:"):
        raise Misuse(
            f"{url!r} names no file; a ledger that is not on disk could not remember an intent",
            hint='write "sqlite:///file.db"',
        )
    return rest


def _check_place(path: str) -> None:
    """Name the plain mistakes, which SQLite reports as "unable to open database file" all alike."""
    file, folder = Path(path), Path(path).absolute().parent
    if file.is_dir():
        problem, hint = "the path is a folder", "name a file in it"
    elif not folder.is_dir():
        problem, hint = "the folder of the ledger does not exist", f"create {folder} or check the path"
    elif file.exists() and not file.is_file():
        problem, hint = "the path is not a plain file", "name a file on a local disk"
    elif file.exists() and not os.access(path, os.R_OK | os.W_OK):
        problem, hint = "the ledger's file is not readable and writable", "give this user the permissions"
    elif not os.access(folder, os.W_OK | os.X_OK):
        problem, hint = "the ledger's folder is not writable", "the write-ahead log is kept beside the file"
    else:
        return
    raise StoreUnavailable(problem, hint=hint, ids={"ledger": path})


def _open_connection(path: str, connect: Connect, patience: Patience) -> Connection:
    connection = connect(path)
    try:
        _set_up(connection, path, patience)
    except BaseException:
        connection.close()
        raise
    return connection


def _set_up(connection: Connection, path: str, patience: Patience) -> None:
    # Busy: for a moment, while another process creates the file, recovers its log or is the last to close it.
    # What the file is comes first, so that a foreign one keeps its journal mode.
    when_free(lambda: schema_of(connection, path), patience)
    mode = when_free(lambda: connection.execute("PRAGMA journal_mode = WAL"), patience)[0][0]
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("PRAGMA foreign_keys = ON")
    # KiB of pages kept in memory.
    connection.execute("PRAGMA cache_size = -16384")
    # Pages of log between checkpoints. A checkpoint writes each hot page once, however often it is in the log.
    connection.execute("PRAGMA wal_autocheckpoint = 4000")
    _require("journal_mode", mode, "wal", path)
    _require("synchronous", connection.execute("PRAGMA synchronous")[0][0], _FULL, path)
    _require("foreign_keys", connection.execute("PRAGMA foreign_keys")[0][0], 1, path)


def _require(pragma: str, found: object, wanted: object, path: str) -> None:
    if found != wanted:
        raise StoreUnavailable(
            f"the connection does not keep {pragma}: it answers {found!r} instead of {wanted!r}",
            hint="a ledger needs a local file system and an SQLite library that can lock, share memory and sync",
            ids={"ledger": path},
        )
