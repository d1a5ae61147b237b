"""The atomic rung on SQLite: a step's own writes and the moves that record its result, in one transaction.

The step's body writes through a connection of its own; it cannot end the transaction, and cannot write to the ledger's
tables. The moves are the last statements: where the ledger refuses them, nothing of the body stays. Running the body,
and which moves these are, is `effects.atomic`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from fencepost.core.errors import NotOwner
from fencepost.store.batch import Writer
from fencepost.store.connection import Connection
from fencepost.store.moves import Move
from fencepost.store.queries import Query
from fencepost.store.transaction import Patience, begin, roll_back

R = TypeVar("R")

Announce = Callable[[Sequence[Move]], None]
"""Hears of the moves right before they are made."""

Work = Callable[[Any], tuple[R, Sequence[Move]]]
"""What writes through the database's own connection, and returns its value and the moves that record it."""

_OWN_TABLES = frozenset(
    {"run", "step", "operation", "attempt", "observation", "signal", "lease", "audit", "epoch", "token", "meta"}
)
_WRITES = frozenset({sqlite3.SQLITE_INSERT, sqlite3.SQLITE_UPDATE, sqlite3.SQLITE_DELETE, sqlite3.SQLITE_DROP_TABLE})


def write(
    connection: Connection, queries: Mapping[str, Query], patience: Patience, work: Work[R], announce: Announce
) -> R:
    """Do the work and make its moves in a transaction that the caller commits.

    Raises what the work raises, and `NotOwner` when a move is refused; then nothing is changed.
    """
    begin(connection, patience)
    try:
        connection.raw.set_authorizer(_allows)
        try:
            value, moves = work(connection.raw)
        finally:
            connection.raw.set_authorizer(None)
        announce(moves)
        _refuse(Writer(connection, queries).write(moves))
    except BaseException:
        roll_back(connection)
        raise
    return value


def _refuse(move: Move | None) -> None:
    if move is not None:
        raise NotOwner(
            "the ledger refused the result, so the step's writes were taken back",
            hint="somebody else owns the run, or the attempt was given up; nothing was applied",
            ids={"run": str(move.run), "generation": str(move.generation)},
        )


def _allows(action: int, first: str | None, second: str | None, database: str | None, inner: str | None) -> int:
    del second, database, inner
    if action == sqlite3.SQLITE_TRANSACTION or (action in _WRITES and first in _OWN_TABLES):
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK
