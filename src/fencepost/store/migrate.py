"""Brings a database file to the schema that this version knows, and refuses files that are not a ledger.

Three marks say what a file is: SQLite's application_id, its user_version (the schema's number) and the meta table.
A file that already holds something else is left as it was found. Which pragmas a connection needs is `open`'s matter.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from fencepost.core.errors import ForeignDatabase
from fencepost.store import queries
from fencepost.store.connection import Connection
from fencepost.store.transaction import Patience, begin, roll_back

# "FNCP": what `file` and SQLite's own tools show of a ledger; the first migration writes it.
APPLICATION_ID = 0x464E4350


def schema_of(connection: Connection, path: str) -> int:
    """The number of the file's schema, 0 for an empty file; raises `ForeignDatabase` for anything not ours.

    Reads only, so that a foreign file keeps its journal mode and its bytes.
    """
    # One statement, so one moment: another process may be creating the tables.
    mark, version, tables = connection.execute(
        "SELECT (SELECT application_id FROM pragma_application_id), (SELECT user_version FROM pragma_user_version),"
        " (SELECT count(*) FROM sqlite_master)"
    )[0]
    if mark == 0 and version == 0 and tables == 0:
        return 0
    if mark != APPLICATION_ID:
        raise ForeignDatabase(
            "the file is an SQLite database, but not a Fencepost ledger",
            hint="give the path of a ledger, or of a file that does not exist yet",
            ids={"ledger": path},
        )
    newest = len(queries.migrations("sqlite"))
    if version > newest:
        raise ForeignDatabase(
            f"a newer Fencepost wrote this ledger: its schema is number {version}, this version knows up to {newest}",
            hint="upgrade fencepost here, or open the ledger with the version that wrote it",
            ids={"ledger": path},
        )
    return int(version)


def migrate(connection: Connection, path: str, patience: Patience) -> int:
    """Apply what is missing under the write lock, all of it or nothing; the schema's number afterwards."""
    if schema_of(connection, path) == len(queries.migrations("sqlite")):
        return len(queries.migrations("sqlite"))
    begin(connection, patience)
    try:
        # Read again: of several processes that find an empty file, one creates the tables and the others look on.
        version = schema_of(connection, path)
        for number, _, script in queries.migrations("sqlite"):
            if number > version:
                _apply(connection, number, script)
        connection.execute("COMMIT")
    except BaseException:
        roll_back(connection)
        raise
    return len(queries.migrations("sqlite"))


def _apply(connection: Connection, number: int, script: str) -> None:
    for statement in _statements(script):
        connection.execute(statement)
    marked = connection.execute("PRAGMA user_version")[0][0]
    assert marked == number, f"migration {number} marks the file with its own number"


def _statements(script: str) -> Iterator[str]:
    """The statements of a script; SQLite itself says where a trigger ends."""
    pending = ""
    for line in script.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            yield pending
            pending = ""
    assert not pending.strip(), "a migration ends with a complete statement"
