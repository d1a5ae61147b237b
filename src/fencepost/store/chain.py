"""Chains audit rows by hash, so that one that was changed or taken out afterwards shows.

The hash covers every field of the row and the hash of the row before. It does not protect against somebody who
rewrites the whole chain; whoever needs that keeps the last hash elsewhere. Locking the chain, and the transaction in
which a row is appended, are its caller's.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, fields, replace
from typing import TYPE_CHECKING

from fencepost.core.records import Audit

if TYPE_CHECKING:
    from fencepost.store.statements import Statements

_STORED = tuple(field.name for field in fields(Audit) if field.name != "no")


def chained(row: Audit, *, previous: str) -> Audit:
    """The row with the hash of the row before it ("" for the first) and its own."""
    row = replace(row, previous=previous)
    return replace(row, hash=_digest(row))


def append(statements: Statements, row: Audit) -> Audit:
    """Chain the row to the last one and insert it; nobody else may append until the transaction is over."""
    last = statements.execute("last_audit_hash")
    row = chained(row, previous=last[0][0] if last else "")
    row.no = statements.execute("add_audit", **{name: getattr(row, name) for name in _STORED})[0][0]
    return row


def broken_at(rows: Iterable[Audit]) -> int | None:
    """The number of the first row of a whole ledger, oldest first, that does not fit the one before; None if all do."""
    previous = ""
    for row in rows:
        if row.previous != previous or row.hash != _digest(row):
            return row.no
        previous = row.hash
    return None


def _digest(row: Audit) -> str:
    facts = {name: value for name, value in asdict(row).items() if name not in ("no", "hash")}
    text = json.dumps(facts, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()
