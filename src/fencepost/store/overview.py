"""The store's part in what a person looks at first: what is unknown, what is held and why, and how many runs there are.

Reads only, and each answer is bounded, so that it costs the same on a ledger of a million runs. Showing it is the
console's.
"""

from __future__ import annotations

from fencepost.core.overview import HeldFor, UnknownEffect
from fencepost.core.states import RunState
from fencepost.store.verbs import Verbs, whole


class OverviewVerbs(Verbs):
    """What both stores do alike for whoever looks over the ledger."""

    @whole
    def unknown_effects(self, namespace: str, limit: int) -> list[UnknownEffect]:
        """See `Store.unknown_effects`."""
        return [UnknownEffect(*row) for row in self._read("unknown_effects", namespace=namespace, limit=limit)]

    @whole
    def held_by_reason(self, namespace: str, most: int) -> list[HeldFor]:
        """See `Store.held_by_reason`."""
        return [HeldFor(str(row[0]), *row[1:]) for row in self._read("held_by_reason", namespace=namespace, most=most)]

    @whole
    def count_in_state(self, namespace: str, state: RunState, most: int) -> int:
        """See `Store.count_in_state`."""
        found = self._read("count_in_state", namespace=namespace, state=state.value, most=most)
        return int(found[0][0])
