"""What each refusal of PostgreSQL means: nothing was committed and it may pass, one record is to blame, or a person is.

Codes are SQLSTATEs. Whether a commit happened whose answer was lost is found out in `postgres_commit`; this file only
names and explains.
"""

from __future__ import annotations

from fencepost.core.errors import FencepostError, ForeignDatabase, StoreBusy, StoreUnavailable
from fencepost.store.postgres_connection import PostgresError
from fencepost.store.postgres_servers import NOT_LET_IN, READ_ONLY, UNTRUSTED

GUARD_REFUSED = "FP001"
"""Raised by `all_of`, when a statement has changed fewer rows than it was given."""

UNIQUE, NOT_NULL = "23505", "23502"

# The server ends connections when it is told to, when it crashed and while it starts; one that became a standby takes
# no writes. In each case another connection, maybe to another server, is the way on.
_GONE = ("08", "57P01", "57P02", "57P03", "57P05", READ_ONLY, "25P03", "25P04")
# Serialization failure, deadlock, a lock that was not free in time, a statement that was ended by a limit or by hand.
_PASSING = ("40001", "40P01", "55P03", "57014")
# No room on the disk, no memory: what was refused goes well once there is some.
_OUT_OF_A_RESOURCE = ("53",)
# A pooler gave this transaction a server on which another connection's statements are prepared.
_NOT_PREPARED = ("26000", "42P05")
# Two would have gone on that stand for the same in a queue: tried again, the later one sees the other.
_ONE_GOES_ON = "run_once_in_queue"
_OF_ONE_RECORD = ("22", "23", "54000")

_SAYINGS: tuple[tuple[tuple[str, ...], type[FencepostError], str, str], ...] = (
    (
        _PASSING,
        StoreBusy,
        "the ledger is locked by another connection",
        "look in pg_stat_activity for a session that keeps a transaction open on it, or for a short statement_timeout",
    ),
    (
        ("53100",),
        StoreUnavailable,
        "the disk of the ledger's server is full",
        "free some space; the ledger goes on by itself, and nothing unacknowledged was sent",
    ),
    (
        ("53300",),
        StoreUnavailable,
        "the ledger's server takes no more connections",
        "raise its max_connections, or give this process fewer with ?connections= in the url",
    ),
    (
        _OUT_OF_A_RESOURCE,
        StoreUnavailable,
        "the ledger's server is out of a resource",
        "look at its log; the ledger goes on by itself, and nothing unacknowledged was sent",
    ),
    (
        ("58",),
        StoreUnavailable,
        "the ledger's server cannot read or write its files",
        "look at its log and at its disk; nothing unacknowledged was sent",
    ),
    (
        ("42501",),
        StoreUnavailable,
        "this user may not do that in the ledger",
        "let the ledger's owner create the schema, and grant this user its tables",
    ),
    (
        ("3F000", "42P01"),
        ForeignDatabase,
        "the ledger's tables are not there",
        "somebody has removed them; look at the schema before anything is sent again",
    ),
    (
        ("XX001", "XX002"),
        StoreUnavailable,
        "the ledger is damaged",
        "stop every worker; check what was sent since a backup before using it",
    ),
    (
        (READ_ONLY,),
        StoreUnavailable,
        "the ledger's server takes no writes: it is a standby, or was set to read-only",
        "name the primary; several hosts in the url, with target_session_attrs=read-write, find it after a failover",
    ),
    (
        (UNTRUSTED,),
        StoreUnavailable,
        "the ledger's server is not trusted",
        "check sslrootcert, and that the host in the url is one of the server's certificate; nothing was sent to it",
    ),
    (
        (NOT_LET_IN,),
        StoreUnavailable,
        "the ledger's server does not let this user in",
        "check user, password and database in the url, in PG* variables and ~/.pgpass, and the server's pg_hba.conf",
    ),
    (
        _GONE,
        StoreUnavailable,
        "the ledger's server cannot be reached, or takes no writes",
        "look at the server; workers go on by themselves when it is back, and nothing unacknowledged was sent",
    ),
)


def is_gone(error: PostgresError) -> bool:
    """Whether the connection is over, or of no more use."""
    return error.code.startswith(_GONE)


def is_passing(error: PostgresError) -> bool:
    """Whether the same transaction may end otherwise when it is tried again; nothing of it was committed."""
    if error.code == UNIQUE and _ONE_GOES_ON in str(error):
        return True
    return error.code.startswith((*_PASSING, *_OUT_OF_A_RESOURCE, *_NOT_PREPARED))


def is_not_prepared(error: PostgresError) -> bool:
    """Whether a statement was not prepared where it was prepared before: a pooler stands between."""
    return error.code.startswith(_NOT_PREPARED)


def is_of_one_record(error: PostgresError) -> bool:
    """Whether one record is to blame, and not the server."""
    return error.code.startswith(_OF_ONE_RECORD) or error.code == GUARD_REFUSED


def unavailable(error: PostgresError, ledger: str) -> FencepostError:
    """The error that says what `error` means and what to do; `ledger` names server and database."""
    for codes, kind, message, hint in _SAYINGS:
        if error.code.startswith(codes):
            return kind(f"{message}: {error}", hint=hint, ids={"ledger": ledger})
    return StoreUnavailable(
        f"the ledger refused a statement: {error}",
        hint="report this as a bug of Fencepost",
        ids={"ledger": ledger, "code": error.code},
    )
