"""Judges the demo: it proves something only if one side is right, the other wrong, and both were really struck.

Pure. Numbers come from `tally`; the exit code and the sentence go to whoever ran the demo.
"""

from collections.abc import Iterator
from dataclasses import fields

from fencepost.demo.plan import Minimum
from fencepost.demo.tally import COLLECTIONS, Injected, Row


def complaints(naive: Row, fencepost: Row, struck_naive: Injected, struck: Injected, minimum: Minimum) -> list[str]:
    """Return a sentence for each thing that is not as it must be; none: the demo shows what it claims."""
    return [
        *_wrong(fencepost),
        *_too_right(naive),
        *_too_little("Fencepost's side", struck, minimum),
        *(said for said in _too_little("the naive side", struck_naive, minimum) if "takeovers" not in said),
    ]


def _wrong(row: Row) -> Iterator[str]:
    for name in COLLECTIONS:
        if (made := getattr(row, name)) != row.invoices:
            yield f"Fencepost made {made} {name} for {row.invoices} invoices."
    if row.duplicates:
        yield f"Fencepost made {row.duplicates} duplicates."
    if row.lost:
        yield f"Fencepost lost {row.lost} effects."


def _too_right(row: Row) -> Iterator[str]:
    if not row.duplicates and not row.lost:
        yield "Naive retry made no duplicate and lost nothing, so the comparison shows nothing."


def _too_little(side: str, struck: Injected, minimum: Minimum) -> Iterator[str]:
    for field in fields(minimum):
        happened, wanted = getattr(struck, field.name), getattr(minimum, field.name)
        if happened < wanted:
            yield f"Only {happened} {field.name.replace('_', ' ')} of at least {wanted} struck {side}."
