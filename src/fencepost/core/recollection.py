"""What the ledger holds of a run's earlier lives, as its driver compares it with what the code asks for in this one.

Each position that was asked for is there until the code asks for it again; what is left is what other code has asked
for. Only the comparing is here: its words are `refusal`'s, and holding the run is `driver`'s part.
"""

from __future__ import annotations

from collections.abc import Mapping

from fencepost.core import refusal
from fencepost.core.asks import Ask, Recorded
from fencepost.core.branch import Branch
from fencepost.core.errors import FencepostError
from fencepost.core.position import CANCEL


class Recollection:
    """What is recorded at each position, and what of it decisions have led to that were made anew since."""

    def __init__(self, run_id: str, recorded: Mapping[str, Recorded], set_aside: Mapping[str, Recorded]) -> None:
        self.run_id = run_id
        self._unasked = dict(recorded)
        self._unasked.pop(CANCEL, None)
        self._set_aside = dict(set_aside)  # the code may ask for it again, or not

    def unasked(self) -> dict[str, Recorded]:
        """What the ledger holds and the code has not asked for so far.

        Once all recorded completions are delivered this must be empty, whether or not the run has ended: an ask is
        recorded no later than the completion after it is delivered, so what is left was asked for by other code, and
        the run is to be held (`history_mismatch` gives the error) before any of its moves is acted on.
        """
        return dict(self._unasked)

    def history_mismatch(self) -> FencepostError | None:
        """The error to hold the run with if `unasked` is not empty."""
        return refusal.forgotten(self._unasked, self._ids()) if self._unasked else None

    def _other_than_recorded(self, ask: Ask, branch: Branch | None) -> FencepostError | None:
        """Why the run is to be held for this ask: something else is recorded at its position."""
        recorded = self._unasked.pop(ask.position, None)
        if recorded is not None and not recorded.agrees_with(ask):
            return refusal.changed(ask, recorded, self._ids(ask.position, branch))
        recorded = self._set_aside.pop(ask.position, None)
        if recorded is not None and not recorded.agrees_with(ask):
            return refusal.decided_otherwise(ask, self._ids(ask.position, branch))
        return None

    def _ids(self, position: str = "", branch: Branch | None = None) -> dict[str, str]:
        ids = {"run": self.run_id}
        if position:
            ids["step"] = position
        if branch is not None and (where := refusal.where(branch.driven)):
            ids["at"] = where
        return ids
