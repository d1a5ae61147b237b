"""Keeps a value that is too large for its row apart from it: in pieces, under the digest of its text.

The row holds a stand-in with that digest, so that changing the row's state copies a line and not megabytes, and lists
of runs read none of it. Pieces are written in the transaction of the row that refers to them, and belong to one run.
When a value is set apart, and when it is read, is `passage`'s matter.
"""

from __future__ import annotations

from collections.abc import Sequence

from fencepost.core.errors import StoreUnavailable
from fencepost.core.identity import digest_text
from fencepost.core.standin import APART, stand_in
from fencepost.store.moves import Piece
from fencepost.store.queries import Row

INLINE_BYTES = 1024 * 1024
"""What a value may have, as UTF-8, to stand in its own row; the default of an app."""

PIECE_CHARACTERS = 256 * 1024

BYTES_A_CHARACTER_MAX = 4


def is_large(text: str, inline: int) -> bool:
    """Whether a text has more bytes than may stand in a row. Nearly every text is answered by its length alone."""
    length = len(text)
    return length * BYTES_A_CHARACTER_MAX > inline and (length > inline or len(text.encode()) > inline)


def set_apart(text: str, namespace: str, run_id: str) -> tuple[str, list[Piece]]:
    """What stands in the row for a text, and its pieces."""
    whole = text.encode()
    digest = digest_text(whole)
    parts = [text[at : at + PIECE_CHARACTERS] for at in range(0, len(text), PIECE_CHARACTERS)]
    about = {"digest": digest, "pieces": len(parts), "size": len(whole)}
    return stand_in(APART, about), [Piece(namespace, run_id, digest, number, part) for number, part in enumerate(parts)]


def joined(pieces: Sequence[Row], run_id: str, digest: str) -> str:
    """The text whose pieces these are.

    Raises:
        StoreUnavailable: one is missing or was changed.
    """
    text = "".join(piece for (piece,) in pieces)
    if digest_text(text.encode()) != digest:
        raise StoreUnavailable(
            f"a value of run {run_id!r} that is kept apart is {'damaged' if pieces else 'not there'}",
            hint="restore the ledger's table `piece` from a backup; `fencepost check` lists what else does not fit",
            ids={"run": run_id, "digest": digest},
        )
    return text
