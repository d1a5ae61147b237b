"""Chains audit rows by hash, and finds the row at which a chain was broken afterwards, and how.

The hash covers every field of the row and the hash of the row before. It does not protect against somebody who
rewrites the whole chain, or cuts off its end: an *anchor*, the number and hash of the newest row, kept elsewhere, does.
Locking the chain, and the transaction in which a row is appended, are its caller's; reading rows is `walk`'s matter,
and what is said about a break the command line's.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from fencepost.core.errors import Misuse
from fencepost.core.records import Audit

if TYPE_CHECKING:
    from fencepost.store.queries import Row
    from fencepost.store.statements import Statements

_STORED = tuple(field.name for field in fields(Audit) if field.name != "no")
_COVERED = sorted(field.name for field in fields(Audit) if field.name not in ("no", "hash"))


class Break(StrEnum):
    """What was done to a chain."""

    CHANGED = "changed"
    REMOVED = "removed"
    INSERTED = "inserted"
    MOVED = "moved"
    CUT = "cut off"
    REWRITTEN = "rewritten"


@dataclass(frozen=True, slots=True)
class Broken:
    """The first row that does not fit: its number, what was done there, and the two hashes that differ.

    `expected` is what stood there by all that is known, None where nothing could; `found` what stands there now.
    """

    at: int
    how: Break
    says: str
    expected: str | None
    found: str | None


@dataclass(frozen=True, slots=True)
class Anchor:
    """The newest row of a chain, to be kept where nobody who can write to the ledger can write; 0 and "" of none."""

    no: int = 0
    hash: str = ""

    def as_text(self) -> str:
        """One JSON document, for a file."""
        return json.dumps({"audit row": self.no, "hash": self.hash}) + "\n"

    @classmethod
    def from_text(cls, text: str) -> Anchor:
        """The anchor of a file's text. Raises `Misuse` where it is none."""
        try:
            told = json.loads(text)
            return cls(int(told["audit row"]), str(told["hash"]))
        except (ValueError, KeyError, TypeError) as error:
            raise Misuse("this is no anchor", hint="`fencepost audit anchor --file FILE` writes one") from error


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a chain: how many of its rows fit, the last that does, the first that does not, if any.

    `anchored`: an anchor was given, and its row is there as it was.
    """

    rows: int
    last: Anchor
    broken: Broken | None
    anchored: bool


def chained(row: Audit, *, previous: str) -> Audit:
    """The row with the hash of the row before it ("" for the first) and its own."""
    row = replace(row, previous=previous)
    return replace(row, hash=_digest(row))


def chain(added: Iterable[Audit], *, last: list[Row]) -> list[Audit]:
    """Rows to be appended in one go, each chained to the one before; `last` is what `last_audit_hash` has found."""
    found: list[Audit] = []
    previous = last[0][0] if last else ""
    for row in added:
        found.append(chained(row, previous=previous))
        previous = found[-1].hash
    return found


def values_of(row: Audit) -> dict[str, Any]:
    """What `add_audit` takes of a chained row."""
    return {name: getattr(row, name) for name in _STORED}


def append(statements: Statements, row: Audit) -> Audit:
    """Chain the row to the last one and insert it; nobody else may append until the transaction is over."""
    [row] = chain([row], last=statements.execute("last_audit_hash"))
    row.no = statements.execute("add_audit", **values_of(row))[0][0]
    return row


def verify(
    rows: Iterable[Audit], *, anchor: Anchor | None = None, number_of: Callable[[str], int | None] = lambda _: None
) -> Verdict:
    """Read a whole ledger's rows, oldest first, up to the first that does not fit.

    `number_of` finds the number of the row that has this hash: with it, what was put in or moved is told from what was
    taken out. The rows are read once, and none is kept.
    """
    before = last = Anchor()
    count = 0
    anchored = anchor == Anchor()
    for row in rows:
        broken = _content(row, last) or _link(row, before, last, number_of)
        if broken is None and anchor is not None and row.no == anchor.no:
            anchored = row.hash == anchor.hash
            broken = None if anchored else _rewritten(anchor, row.hash)
        if broken is not None:
            return Verdict(count, last, broken, anchored=False)
        count += 1
        before, last = last, Anchor(row.no, row.hash)
    lost = None if anchor is None or anchored else _lost(anchor, last)
    return Verdict(count, last, lost, anchored)


def broken_at(rows: Iterable[Audit]) -> int | None:
    """The number of the first row that does not fit; None if all do."""
    broken = verify(rows).broken
    return None if broken is None else broken.at


def _content(row: Audit, last: Anchor) -> Broken | None:
    digest = _digest(row)
    if row.hash == digest:
        return None
    link_alone = _digest(replace(row, previous=last.hash)) == row.hash
    what = "the hash of the row before it" if link_alone else "what it says, or its hash,"
    return Broken(row.no, Break.CHANGED, f"{what} was changed after it was written", digest, row.hash)


def _link(row: Audit, before: Anchor, last: Anchor, number_of: Callable[[str], int | None]) -> Broken | None:
    if row.previous == last.hash:
        return None
    follows = 0 if not row.previous else number_of(row.previous)
    if follows is None:
        says = f"the row that it follows is not there: after row {last.no} something was taken out"
        return Broken(row.no, Break.REMOVED, says, row.previous, last.hash)
    if follows > row.no:
        says = f"it was written after row {follows}: rows have changed their places"
        return Broken(row.no, Break.MOVED, says, row.previous, last.hash)
    at = last.no if follows == before.no else row.no
    says = f"row {row.no} was written right after row {follows}: what stands between was put in"
    return Broken(at, Break.INSERTED, says, row.previous, last.hash)


def _rewritten(anchor: Anchor, found: str | None) -> Broken:
    says = "the anchor knows this row with another hash: the chain was written anew"
    return Broken(anchor.no, Break.REWRITTEN, says, anchor.hash, found)


def _lost(anchor: Anchor, last: Anchor) -> Broken:
    if last.no > anchor.no:
        return _rewritten(anchor, None)
    says = f"the anchor knows this row, and the chain ends at row {last.no}: its end was cut off"
    return Broken(anchor.no, Break.CUT, says, anchor.hash, None)


def _digest(row: Audit) -> str:
    facts = {name: getattr(row, name) for name in _COVERED}
    text = json.dumps(facts, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("ascii")).hexdigest()
