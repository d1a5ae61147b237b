"""Changes a ledger behind Fencepost's back, as anybody with the database's own tools could; for the tests of checks."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from fencepost.store.postgres_url import is_postgres, place_of

_COPY = (
    "CREATE TABLE copied AS SELECT * FROM {table} ORDER BY rowid",
    "DROP TABLE {table}",
    "ALTER TABLE copied RENAME TO {table}",
)

_CHECKS = """
DO $$ DECLARE one record; BEGIN
    FOR one IN
        SELECT conrelid::regclass AS held_by, conname FROM pg_constraint
        WHERE connamespace = current_schema()::regnamespace AND contype IN ('c', 'u')
    LOOP
        EXECUTE format('ALTER TABLE %s DROP CONSTRAINT %I', one.held_by, one.conname);
    END LOOP;
END $$
"""


class Tampering:
    """An open connection; `?` stands for a value in both dialects."""

    def __init__(self, connection: Any, mark: str) -> None:
        self._connection = connection
        self._mark = mark

    def do(self, statement: str, *values: Any) -> int:
        """Run one statement; how many rows it changed."""
        return int(self._connection.execute(statement.replace("?", self._mark), values).rowcount)

    def allow_twins(self) -> None:
        """Let two operations have one key, and two runs one turn: a file's table is copied for that, without rules."""
        if self._mark == "?":
            for table in ("operation", "run"):
                for statement in _COPY:
                    self._connection.execute(statement.format(table=table))

    def rows(self, statement: str, *values: Any) -> list[Any]:
        """What a statement yields."""
        return list(self._connection.execute(statement.replace("?", self._mark), values).fetchall())


@contextmanager
def tampering(url: str) -> Iterator[Tampering]:
    """A connection on which no CHECK, trigger or foreign key refuses anything; committed on the way out."""
    if not is_postgres(url):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"), isolation_level=None)) as file:
            file.execute("PRAGMA ignore_check_constraints = ON")
            file.execute("PRAGMA foreign_keys = OFF")
            for (name,) in file.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
                file.execute(f"DROP TRIGGER {name}")
            yield Tampering(file, "?")
        return
    import psycopg

    place = place_of(url)
    with psycopg.connect(place.conninfo.decode(), autocommit=True) as server:
        server.execute(f"SET search_path = {place.schema}")
        server.execute("SET session_replication_role = replica")
        server.execute(_CHECKS)
        yield Tampering(server, "%s")
