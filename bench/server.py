"""Runs the PostgreSQL server that a benchmark is measured on: a cluster of its own with fsync on, and empty databases.

It listens on a Unix socket alone. `pg_stat_statements` counts statements where it is installed; without it those
figures are missing. What is read from the statistics stands in `counters`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from tests.services.postgres import Cluster, NotHere

SETTINGS = ("max_connections=400", "shared_buffers=512MB", "max_wal_size=8GB", "checkpoint_timeout=30min")
"""Beside the defaults: room for a peer's threads, and no checkpoint in the middle of somebody's figure."""
_COUNTING = ("shared_preload_libraries=pg_stat_statements", "pg_stat_statements.track_planning=off")
_DURABLE = ("fsync", "synchronous_commit", "full_page_writes", "wal_sync_method")


class Server:
    """A running cluster that lends empty databases."""

    def __init__(self) -> None:
        self._cluster = _started()
        self._numbers = count(1)

    @property
    def folder(self) -> Path:
        """Where its files are."""
        return self._cluster.folder

    def says(self) -> str:
        """Its version, and what it does to keep what it acknowledges."""
        version, *_ = str(self._ask("server_version")).split()
        return f"PostgreSQL {version} ({', '.join(f'{name}={self._ask(name)}' for name in _DURABLE)})"

    def _ask(self, setting: str) -> object:
        return self._cluster.ask(f"SHOW {setting}")[0][0]

    @contextmanager
    def database(self) -> Iterator[str]:
        """The url of an empty database, which is dropped afterwards."""
        name = f"bench_{next(self._numbers)}"
        self._cluster.ask(f"CREATE DATABASE {name}")
        url = self._cluster.url(name)
        # What the one before has left to write is not this one's.
        self._cluster.ask("CHECKPOINT")
        try:
            yield url
        finally:
            self._cluster.ask(f"DROP DATABASE {name} WITH (FORCE)")

    def stop(self) -> None:
        """Stop it and remove its files."""
        self._cluster.remove()


def _started() -> Cluster:
    try:
        cluster = Cluster([*SETTINGS, *_COUNTING])
    except NotHere:
        return Cluster(SETTINGS)
    cluster.ask("CREATE EXTENSION pg_stat_statements")
    return cluster


@contextmanager
def running() -> Iterator[Server]:
    """A server for as long as one measures. Raises `NotHere` with what is missing on this machine."""
    server = Server()
    try:
        yield server
    finally:
        server.stop()
