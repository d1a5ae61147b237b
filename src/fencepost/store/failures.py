"""What each refusal of SQLite means for a caller: busy, full, read-only, damaged or not ours, with what to do next.

Only names and explains. Whether a transaction may have reached the disk in spite of the error is judged where it was
committed, in `transaction`.
"""

from __future__ import annotations

from fencepost.core.errors import FencepostError, ForeignDatabase, StoreBusy, StoreUnavailable
from fencepost.store.connection import SqliteError

BUSY, LOCKED, READONLY, INTERRUPT, IOERR, CORRUPT, FULL, CANTOPEN, CONSTRAINT, NOTADB = (
    5,
    6,
    8,
    9,
    10,
    11,
    13,
    14,
    19,
    26,
)

CONSTRAINT_NOTNULL, CONSTRAINT_PRIMARYKEY, CONSTRAINT_UNIQUE, CONSTRAINT_ROWID = 1299, 1555, 2067, 2579

_SAYINGS: dict[int, tuple[type[FencepostError], str, str]] = {
    BUSY: (
        StoreBusy,
        "the ledger is locked by another process",
        "look for a process that keeps a transaction open on it, such as a shell or a backup",
    ),
    LOCKED: (StoreBusy, "the ledger is locked by another connection", "try again"),
    READONLY: (
        StoreUnavailable,
        "the ledger cannot be written: the file, its folder or the file system is read-only",
        "give this user write permission on the file and on its folder, which also holds the write-ahead log",
    ),
    IOERR: (
        StoreUnavailable,
        "reading or writing the ledger failed",
        "look at the disk and the kernel's log; nothing unacknowledged was sent",
    ),
    CORRUPT: (
        StoreUnavailable,
        "the ledger is damaged",
        "stop every worker and copy the file and its -wal; check what was sent since a backup before using it",
    ),
    FULL: (
        StoreUnavailable,
        "the disk that holds the ledger is full",
        "free some space; the ledger goes on by itself, and nothing unacknowledged was sent",
    ),
    CANTOPEN: (
        StoreUnavailable,
        "the ledger cannot be opened",
        "check that the path names a file in a folder that exists and that this user may write to",
    ),
    NOTADB: (
        ForeignDatabase,
        "the file is not an SQLite database, or is damaged in its first page",
        "give the path of a Fencepost ledger, or of a file that does not exist yet",
    ),
}


def unavailable(error: SqliteError, path: str) -> FencepostError:
    """The error that says what `error` means and what to do; `path` is the ledger's file."""
    kind, message, hint = _SAYINGS.get(
        error.primary, (StoreUnavailable, "the ledger refused a statement", "report this as a bug of Fencepost")
    )
    return kind(f"{message}: {error}", hint=hint, ids={"ledger": path})
