"""Looks at every row of a ledger past the store, as somebody with the database file or a dump would."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

from fencepost.store.postgres_url import is_postgres, place_of


@contextmanager
def _inside(url: str) -> Iterator[tuple[Any, str]]:
    if not is_postgres(url):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as file:
            yield file, "SELECT name FROM sqlite_master WHERE type = 'table'"
        return
    import psycopg

    place = place_of(url)
    with psycopg.connect(place.conninfo.decode(), autocommit=True) as server:
        server.execute(f"SET search_path = {place.schema}")
        yield server, "SELECT table_name FROM information_schema.tables WHERE table_schema = current_schema()"


def answer_of(url: str, statement: str) -> list[tuple[Any, ...]]:
    """What a statement that only reads yields."""
    with _inside(url) as (connection, _):
        return connection.execute(statement).fetchall()


def rows_of(url: str) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every table of the ledger at `url`, by table."""
    with _inside(url) as (connection, tables):
        names = [name for (name,) in connection.execute(tables).fetchall()]
        return {name: connection.execute(f'SELECT * FROM "{name}"').fetchall() for name in names}  # noqa: S608 - a table's
