"""The store's verbs for values that are kept apart from their rows, and for the mark by which the key is known.

Pieces are written with the move whose row refers to them (`moves`); who reads them, and when, is `transit`'s matter.
"""

from __future__ import annotations

from fencepost.store.apart import joined
from fencepost.store.verbs import Verbs, whole


class CustodyVerbs(Verbs):
    """What both stores do alike with them."""

    @whole
    def kept_apart(self, namespace: str, run_id: str, digest: str) -> str:
        """See `Store.kept_apart`."""
        return joined(self._read("pieces_of", namespace=namespace, run_id=run_id, digest=digest), run_id, digest)

    @whole
    def codec_mark(self) -> str | None:
        """See `Store.codec_mark`."""
        found = self._read("codec_mark")
        return str(found[0][0]) if found else None

    @whole
    def mark_codec(self, mark: str) -> None:
        """See `Store.mark_codec`."""
        with self._writing() as work:
            work.change("mark_codec", mark=mark)
