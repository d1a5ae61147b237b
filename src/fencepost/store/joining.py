"""The statements that start a run inside a caller's own transaction: its row is there when the caller commits.

They are the ones that every start uses, with two more in front: that the connection leads to this very ledger, since a
row in another database would never be found; and, where the run keeps a place in line, a lock on that line, so that the
order of its numbers is the order of the commits. Running them is `callers`'s matter, and committing the caller's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from fencepost.core.errors import Misuse
from fencepost.store import rows
from fencepost.store.api import NewRun, Started
from fencepost.store.callers import Steps
from fencepost.store.queries import Query, Row

_HERE = "a row in another database would not be found by the workers of this ledger"


def on_sqlite(queries: Mapping[str, Query], path: str, new: NewRun) -> Steps[Started]:
    """Start a run in the ledger's file at `path`. Writers of a file take turns, which keeps each line's order too.

    Raises:
        Misuse: the connection has another file open as its main one.
    """
    found = yield queries["where_we_are"], {}
    file = found.rows[0][0] if found.rows else ""
    if not file or not Path(file).samefile(path):
        raise Misuse(
            f"the connection is to {file or 'a database in memory'}, and the ledger is in {path}",
            hint=f"keep your tables in the ledger's file (ATTACH does not do: files commit one by one); {_HERE}",
        )
    for piece in new.pieces:
        yield queries["keep_piece_of_start"], piece._asdict()
    made = yield queries["start_run"], new.row
    return (yield from _found(queries, new, is_new=made.changed == 1))


def on_postgres(
    queries: Mapping[str, Query], told: Mapping[str, str], here: Callable[[], Row], new: NewRun
) -> Steps[Started]:
    """Start a run on PostgreSQL; `told` is what workers listen for, and is passed on with the caller's commit.

    `here` is what the ledger's own connections answer to `where_we_are`.

    Raises:
        Misuse: the connection leads to another database, or to another server.
    """
    found = yield queries["where_we_are"], {}
    if found.rows != [here()]:
        raise Misuse(
            f"the connection to database {found.rows[0][0]!r} does not lead to the ledger's database",
            hint=f"connect to the same database of the same server; {_HERE}",
        )
    if new.resource is not None:
        yield queries["lock_line"], {"namespace": new.namespace, "resource": new.resource}
    for piece in new.pieces:
        yield queries["keep_piece_of_start"], {name: [value] for name, value in piece._asdict().items()}
    made = yield queries["start_run"], {name: [value] for name, value in new.row.items()}
    if made.rows:
        yield queries["tell_others"], told
    return (yield from _found(queries, new, is_new=bool(made.rows)))


def _found(queries: Mapping[str, Query], new: NewRun, *, is_new: bool) -> Steps[Started]:
    found = yield queries["find_run"], {"namespace": new.namespace, "id": new.id}
    if not found.rows:
        found = yield queries["find_duplicate"], {"namespace": new.namespace, "queue": new.queue, "dedup": new.dedup}
    return Started(rows.run(found.rows[0]), is_new)
