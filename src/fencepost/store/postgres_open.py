"""Opens a ledger on PostgreSQL: checks what is there, brings its schema up to date, and refuses a server that forgets.

With `fsync=off` a crash of the server's machine loses acknowledged intents, so that it is refused; a database or user
whose `synchronous_commit` is off loses the last moments of them, and is warned about. What a url means is
`postgres_url`'s matter, the verbs are `postgres`'s.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import NamedTuple

from fencepost.core.errors import ForeignDatabase, StoreUnavailable
from fencepost.store import queries
from fencepost.store.postgres import PostgresStore
from fencepost.store.postgres_commit import BEGIN, COMMIT
from fencepost.store.postgres_connection import PostgresConnection, PostgresError
from fencepost.store.postgres_failures import unavailable
from fencepost.store.postgres_seen import MARKS_KEPT
from fencepost.store.postgres_servers import Servers
from fencepost.store.postgres_url import Place, place_of
from fencepost.store.queries import Query
from fencepost.store.statements import Probe

_log = logging.getLogger(__name__)

VERSION_MIN = 130_000
"""PostgreSQL 13, as `server_version_num` has it."""


def open_postgres(url: str, *, clock: Callable[[], int] | None, patience: float, probe: Probe | None) -> PostgresStore:
    """Open the ledger at `url`; creates its schema if it is missing. See `open_store`.

    Raises `ForeignDatabase` for a schema that is not a ledger or is from a newer version, `StoreUnavailable` for a
    server that cannot be reached or does not keep what it acknowledges, `Misuse` for a url that cannot be read.
    """
    place = place_of(url)
    named = queries.load("postgres", place.schema)
    try:
        first = connection_to(place, patience, prepares=False)
        try:
            check_settings(first, named, place.name)
            migrate(first, named, place)
            forget = named["forget_marks"]
            first.run([BEGIN, (forget.statement, forget.bind(age=MARKS_KEPT)), COMMIT])
        finally:
            first.close()
    except PostgresError as error:
        raise unavailable(error, place.name) from error
    servers = Servers(place, patience)
    return PostgresStore(
        lambda: servers.connect(prepares=not place.is_pooled),
        named,
        ledger=place.name,
        schema=place.schema,
        connections=place.connections,
        listens=place.connections > 1 and not place.is_pooled,
        clock=clock,
        patience=patience,
        probe=probe,
    )


def connection_to(place: Place, patience: float, *, prepares: bool) -> PostgresConnection:
    """A new connection; raises `PostgresError`."""
    return Servers(place, patience).connect(prepares=prepares)


def settings_of(connection: PostgresConnection, named: Mapping[str, Query]) -> dict[str, str]:
    """What the server says of itself: what durability rests on, its version, its bound for connections."""
    return dict(connection.execute(named["server_settings"].statement))


def check_settings(connection: PostgresConnection, named: Mapping[str, Query], ledger: str) -> None:
    """Raise `StoreUnavailable` for a server that is too old or does not sync, warn of one that syncs too late."""
    settings = settings_of(connection, named)
    if int(settings["server_version_num"]) < VERSION_MIN:
        raise StoreUnavailable(
            f"the ledger's server is PostgreSQL {int(settings['server_version_num']) // 10_000}",
            hint=f"a ledger needs PostgreSQL {VERSION_MIN // 10_000} or newer",
            ids={"ledger": ledger},
        )
    if settings["fsync"] == "off":
        raise StoreUnavailable(
            "the ledger's server runs with fsync=off: it forgets acknowledged intents when its machine stops",
            hint="set fsync = on in postgresql.conf and restart the server",
            ids={"ledger": ledger},
        )
    for name, without in (("synchronous_commit", "the last acknowledged moments"), ("full_page_writes", "whole pages")):
        if settings[name] == "off":
            _log.warning("%s: %s is off: a crash of the server loses %s; set it to on", ledger, name, without)


# -- the schema -------------------------------------------------------------------------------------------------------


def schema_of(connection: PostgresConnection, named: Mapping[str, Query], place: Place) -> int:
    """The number of the ledger's schema, 0 where there is none yet; raises `ForeignDatabase` for anything not ours."""
    tables = connection.execute(named["schema_is_there"].statement, (place.schema,))[0][1]
    if tables == 0:
        return 0
    ids = {"ledger": place.name, "schema": place.schema}
    found: dict[str, str] = {}
    if connection.execute(named["marker_is_there"].statement, (place.schema,))[0][0]:
        found = dict(connection.execute(named["schema_number"].statement))
    if found.get("marker") != "fencepost ledger":
        raise ForeignDatabase(
            f"the schema {place.schema!r} holds tables that are not a Fencepost ledger",
            hint="give the ledger a schema of its own with ?schema= in the url",
            ids=ids,
        )
    version, newest = int(found["schema"]), len(queries.migrations("postgres"))
    if version > newest:
        raise ForeignDatabase(
            f"a newer Fencepost wrote this ledger: its schema is number {version}, this version knows up to {newest}",
            hint="upgrade fencepost here, or open the ledger with the version that wrote it",
            ids=ids,
        )
    return version


def migrate(connection: PostgresConnection, named: Mapping[str, Query], place: Place) -> int:
    """Apply what is missing, all of it or nothing, one process at a time; the schema's number afterwards.

    Those who work on the ledger meanwhile are not stopped: a migration only adds what an older version can do without.
    """
    newest = len(queries.migrations("postgres"))
    if schema_of(connection, named, place) == newest:
        return newest
    lock = (named["lock_migrations"].statement, (place.schema,))
    connection.run([BEGIN, lock])
    # Read again: of several processes that find nothing, one creates the tables and the others look on.
    version = schema_of(connection, named, place)
    if version == 0 and not connection.execute(named["schema_is_there"].statement, (place.schema,))[0][0]:
        connection.execute(named["create_schema"].statement)
    for number, _, script in queries.migrations("postgres", place.schema):
        if number > version:
            connection.run_script(script)
    connection.run([COMMIT])
    return newest


def schema_at(url: str, *, patience: float) -> int:
    """The number of the schema of the ledger at `url`, 0 where there is none; found out without changing anything.

    Raises what opening it would raise.
    """
    place = place_of(url)
    named = queries.load("postgres", place.schema)
    try:
        connection = connection_to(place, patience, prepares=False)
        try:
            return schema_of(connection, named, place)
        finally:
            connection.close()
    except PostgresError as error:
        raise unavailable(error, place.name) from error


class ServerFacts(NamedTuple):
    """What a person wants to know of a ledger's server; `round_trip` and `ahead` are microseconds."""

    settings: dict[str, str]
    is_encrypted: bool
    is_pooled: bool
    connections: int
    in_use: int
    oldest_idle_transaction: int
    """Seconds."""
    round_trip: int
    ahead: int
    """How much later it is by the server's clock than by this machine's."""


def facts_at(url: str, *, patience: float = 10.0) -> ServerFacts:
    """Ask the server of the ledger at `url`; changes nothing. Raises what opening it would raise."""
    place = place_of(url)
    named = queries.load("postgres", place.schema)
    try:
        connection = connection_to(place, patience, prepares=False)
        try:
            settings = settings_of(connection, named)
            in_use, _, oldest = connection.execute(named["server_use"].statement)[0]
            asked = [_timed(connection, named["latest_time"].statement) for _ in range(5)]
            round_trip, ahead = min(asked)
            return ServerFacts(
                settings, connection.is_encrypted, place.is_pooled, place.connections, in_use, oldest, round_trip, ahead
            )
        finally:
            connection.close()
    except PostgresError as error:
        raise unavailable(error, place.name) from error


def _timed(connection: PostgresConnection, ask_the_time: str) -> tuple[int, int]:
    """How long a round trip takes, and how far ahead the server's clock is."""
    before = time.time_ns() // 1000
    server = int(connection.execute(ask_the_time)[0][0])
    after = time.time_ns() // 1000
    return after - before, server - (before + after) // 2
