"""Describes the rows that one step leaves in a ledger, so that plain SQL can write the like of them.

`STEP` follows Fencepost's own tables; `python -m bench.floor insert --shape JSON` takes any other. The rows are only
alike in number, keys and size: what stands in them, and in what order, is the journal's business.
"""

import json
from typing import Any, NamedTuple

KEY = ("run", "step", "number")
"""The primary key of each table; the column after it holds the token."""


class Table(NamedTuple):
    """One table and what a step does to it."""

    name: str
    columns: int
    """All columns: three of the key and the token, the rest (two or more) TEXT."""
    size: int
    """Bytes in those TEXT columns of one row together; the key and the token come on top."""
    rows: int = 1
    """Rows that one step inserts."""
    updates: int = 0
    """Rows of the step that the commit after its insertion updates."""
    unique: bool = False
    """Whether the token is a digest of 64 digits that a second index keeps unique; otherwise it is short."""
    rowid: bool = False
    """Whether the rows stand in the order of their insertion, and the primary key is an index beside them."""


STEP = (Table("operation", columns=38, size=290, updates=1, unique=True, rowid=True),)
"""One effect step that succeeds at once: an operation with its attempt, ended by the commit that follows."""


def read(text: str) -> tuple[Table, ...]:
    """The tables in a JSON list of objects with the fields of `Table`; raises ValueError naming what is wrong."""
    try:
        tables = tuple(Table(**entry) for entry in _entries(text))
    except TypeError as problem:
        raise ValueError(f"a table has the fields {', '.join(Table._fields)}: {problem}") from None
    for table in tables:
        if not table.name.isidentifier() or table.columns < len(KEY) + 3 or not 0 <= table.updates <= table.rows:
            raise ValueError(f"{table}: a plain name, at least {len(KEY) + 3} columns, no more updates than rows")
    return tables


def _entries(text: str) -> list[dict[str, Any]]:
    entries = json.loads(text)
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ValueError("a shape is a JSON list of objects, one for each table")
    return entries
