"""Empty ledgers for random histories, one after the other and cheaply: two stores on each, under one clock.

A new file is copied from a blank one; a schema is emptied behind the ledger's back. Neither syncs, which takes most of
a history's time and which no history can see; `images` looks at syncs. What is played is `oracle_histories`'s matter.
"""

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from fencepost.store.api import Store
from fencepost.store.connection import StandardConnection
from fencepost.store.open import open_store
from tests.services.fixtures import Place
from tests.store import build

TABLES = (
    "bulk_run", "bulk",
    "mark", "token", "epoch", "audit", "observation", "signal", "attempt", "operation", "step", "schedule_carrier",
    "schedule", "proposal", "permission", "run", "lease",
)  # fmt: skip


class Clock:
    """What both stores of a history read."""

    def __init__(self) -> None:
        self.now = build.NOW

    def __call__(self) -> int:
        return self.now


class Unsynced(StandardConnection):
    """Leaves out the sync."""

    def execute(self, statement: str, parameters: Sequence[Any] = (), /) -> list[tuple[Any, ...]]:
        if statement == "PRAGMA synchronous = FULL":
            statement = "PRAGMA synchronous = OFF"
        found = super().execute(statement, parameters)
        return [(2,)] if statement == "PRAGMA synchronous" else found


class Blanks:
    """Where empty ledgers come from."""

    def opened(self) -> Any:
        """A context: two stores on an empty ledger, and their clock."""
        raise NotImplementedError

    def close(self) -> None:
        """Give back what is held."""


class BlankFiles(Blanks):
    def __init__(self, folder: Path) -> None:
        self._blank, self._path = folder / "blank.db", folder / "ledger.db"
        open_store(str(self._blank)).close()

    @contextmanager
    def opened(self) -> Iterator[tuple[list[Store], Clock]]:
        shutil.copyfile(self._blank, self._path)
        clock = Clock()
        stores = [open_store(str(self._path), connect=Unsynced, clock=clock) for _ in range(2)]
        try:
            yield stores, clock
        finally:
            for store in stores:
                store.close()


class BlankSchemas(Blanks):
    """One schema, and stores that stay open: planning their statements takes longer than a history."""

    def __init__(self, place: Place) -> None:
        self._clock = Clock()
        url = place.url(options="-c%20synchronous_commit%3Doff", connections=1)
        self._stores: list[Store] = [open_store(url, clock=self._clock) for _ in range(2)]
        self._behind = psycopg.connect(place.server.url(), autocommit=True)
        self._behind.execute("SET session_replication_role = replica")  # the triggers that refuse it are asleep
        deletions = "; ".join(f"DELETE FROM {place.schema}.{table}" for table in TABLES)  # noqa: S608 - our own names
        number = f"SELECT setval(pg_get_serial_sequence('{place.schema}.run', 'no'), 1, false)"
        self._empty = f"BEGIN; {deletions}; {number}; COMMIT"

    @contextmanager
    def opened(self) -> Iterator[tuple[list[Store], Clock]]:
        self._behind.execute(self._empty)
        self._clock.now = build.NOW
        yield self._stores, self._clock

    def close(self) -> None:
        self._behind.close()
        for store in self._stores:
            store.close()


MakeBlanks = Callable[[], Blanks]
