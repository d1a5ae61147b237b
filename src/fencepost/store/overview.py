"""The store's part in what a person looks at first: what is unknown, what is held and why, and how many runs there are.

Reads only, and each answer is short: counts end at a bound, and a search among so many runs. Showing it is the
console's.
"""

from __future__ import annotations

from typing import Any

from fencepost.core.overview import FailedOf, HeldFor, UnknownEffect
from fencepost.core.states import RunState
from fencepost.store import rows
from fencepost.store.governing import RunSearch, Searched
from fencepost.store.queries import Row
from fencepost.store.verbs import Verbs, whole

_NO_ROW_HAS_THIS_NUMBER = 2**63 - 1
_EXACTLY = {"key": "runs_with_key", "reference": "runs_with_reference"}
_ANY = ("search_runs", "searched_down_to")
_IN_STATE = ("search_runs_in_state", "searched_down_to_in_state")


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
    def failed_by_error(self, namespace: str, most: int) -> list[FailedOf]:
        """See `Store.failed_by_error`."""
        found = self._read("failed_by_error", namespace=namespace, most=most)
        return [FailedOf(str(row[0] or ""), *row[1:]) for row in found]

    @whole
    def count_in_state(self, namespace: str, state: RunState, most: int) -> int:
        """See `Store.count_in_state`."""
        found = self._read("count_in_state", namespace=namespace, state=state.value, most=most)
        return int(found[0][0])

    @whole
    def search_runs(self, wanted: RunSearch, most: int) -> Searched:
        """See `Store.search_runs`."""
        for field, name in _EXACTLY.items():
            exact = getattr(wanted, field)
            if exact is not None:
                given = {field: exact, "namespace": wanted.namespace, "limit": wanted.limit}
                return Searched([rows.run(row) for row in self._read(name, **given)], None)
        search, down_to = _ANY if wanted.state is None else _IN_STATE
        given = wanted._asdict() | {
            "after": _NO_ROW_HAS_THIS_NUMBER if wanted.after is None else wanted.after,
            "retrying": int(wanted.retrying),
            "limit": wanted.limit + 1,
            "most": most,
        }
        found = [rows.run(row) for row in self._read_named(search, given)]
        if len(found) > wanted.limit:
            return Searched(found[: wanted.limit], found[wanted.limit - 1].no)
        [(lowest, number)] = self._read_named(down_to, given)
        return Searched(found, lowest if number == most else None)

    def _read_named(self, name: str, given: dict[str, Any]) -> list[Row]:
        """What a statement finds; of what is given it takes what it asks for."""
        return self._read(name, **{one: given[one] for one in set(self.queries[name].parameters)})
