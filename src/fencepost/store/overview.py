"""The store's part in what a person looks at first: what is unknown, what is held and why, and how many runs there are.

Reads only, and each answer is short: counts end at a bound, and a search among so many runs. Showing it is the
console's.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from fencepost.core.overview import FailedOf, FirstLook, HeldFor, UnknownEffect
from fencepost.core.states import RunState
from fencepost.store import rows
from fencepost.store.governing import RunSearch, Searched
from fencepost.store.queries import Row
from fencepost.store.verbs import Verbs, whole

_NO_ROW_HAS_THIS_NUMBER = 2**63 - 1
_EXACT = {"key": "runs_with_key", "reference": "runs_with_reference"}
_AMONG_ALL = ("search_runs", "searched_down_to")
_IN_STATE = ("search_runs_in_state", "searched_down_to_in_state")


class OverviewVerbs(Verbs):
    """What both stores do alike for whoever looks over the ledger."""

    @whole
    def first_look(self, namespace: str, states: Sequence[RunState], *, limit: int, most: int) -> FirstLook:
        """See `Store.first_look`. One round trip."""
        with self._reading() as reading:
            unknown, held, failed, counts = reading.execute_all(
                [
                    ("unknown_effects", {"namespace": namespace, "limit": limit}),
                    ("held_by_reason", {"namespace": namespace, "most": most}),
                    ("failed_by_error", {"namespace": namespace, "most": most}),
                    ("count_in_states", {"namespace": namespace, "states": json.dumps(states), "most": most}),
                ]
            )
        return FirstLook(
            [UnknownEffect(*row) for row in unknown],
            [HeldFor(str(reason), *rest) for reason, *rest in held],
            [FailedOf(str(error or ""), *rest) for error, *rest in failed],
            {RunState(state): number for state, number in counts},
        )

    @whole
    def search_runs(self, wanted: RunSearch, most: int) -> Searched:
        """See `Store.search_runs`."""
        for field, name in _EXACT.items():
            if getattr(wanted, field) is not None:
                found = self._read_named(name, wanted._asdict() | {"most": most})
                return Searched([rows.run(row) for row in found], None)
        search, searched = _AMONG_ALL if wanted.state is None else _IN_STATE
        given = wanted._asdict() | {
            "after": _NO_ROW_HAS_THIS_NUMBER if wanted.after is None else wanted.after,
            "retrying": int(wanted.retrying),
            "limit": wanted.limit + 1,
            "most": most,
        }
        runs = [rows.run(row) for row in self._read_named(search, given)]
        if len(runs) > wanted.limit:
            return Searched(runs[: wanted.limit], runs[wanted.limit - 1].no)
        [(lowest, number)] = self._read_named(searched, given)
        return Searched(runs, lowest if number == most else None)

    def _read_named(self, name: str, given: dict[str, Any]) -> list[Row]:
        """What a statement finds; of what is given it takes what it asks for."""
        return self._read(name, **{one: given[one] for one in set(self.queries[name].parameters)})
