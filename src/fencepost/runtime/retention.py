"""How long runs are kept after their end, and the purge of those whose time is over: audited, and a few at a time.

A run that anything still needs is passed over, whatever its age (`store.purging` knows what that is). A purged run
keeps its row: its id, workflow, state, times, principal and fingerprint, so that nothing is started again under its id
and the audit still has somebody to speak of. Which clock counts is the ledger's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from fencepost.core.duration import microseconds, spelled
from fencepost.core.errors import Misuse
from fencepost.core.identity import canonical
from fencepost.core.records import Audit
from fencepost.core.states import FINAL_RUN_STATES, RunState
from fencepost.runtime.permits import Asked, ask
from fencepost.store.governing import Purging

PURGE = "purge"

KEPT_ALWAYS = (RunState.PARTLY_COMPENSATED, RunState.COMPENSATION_FAILED, RunState.CONTINUED)
"""Ends after which a compensation is still open; and turns, which go with their run."""

PURGEABLE = tuple(sorted(state.value for state in FINAL_RUN_STATES if state not in KEPT_ALWAYS))


@dataclass(frozen=True, slots=True)
class Retention:
    """How long runs are kept after their end, by state: `Retention({"succeeded": "90d", "failed": "365d"})`.

    A state that is not named is kept for ever.

    Raises:
        Misuse: no run ends in such a state, or a compensation is still open after it; or a time is none.
    """

    keep: Mapping[str, str | timedelta]

    def __post_init__(self) -> None:
        if not self.keep:
            raise Misuse("a retention that names no state purges nothing", hint=_STATES)
        for state, age in self.keep.items():
            if state not in PURGEABLE:
                raise Misuse(f"runs that are {state!r} are not purged", hint=_STATES)
            if microseconds(age, what="retention") < 0:
                raise Misuse(f"runs cannot be kept for {age!r}", hint='write "90d"')

    def spelled(self) -> str:
        """In words, for the audit."""
        ages = (f"{state} after {spelled(microseconds(age, what='retention'))}" for state, age in self.keep.items())
        return ", ".join(ages)


_STATES = f"name some of: {', '.join(PURGEABLE)}"


@dataclass(frozen=True, slots=True)
class Purged:
    """What a purge did, or would do: `runs` purged, by state, and how many of that age were `kept`, being needed.

    What would be done counts a child among those that are kept: it goes after whoever has started it.
    """

    runs: Mapping[str, int]
    kept: int

    @property
    def total(self) -> int:
        """How many runs."""
        return sum(self.runs.values())


def purge(app: Asked, retention: Retention, *, by: str, reason: str, dry_run: bool, batch: int) -> Purged:
    """Purge the runs of the app's namespace whose time is over; see `App.purge`."""
    ask(app, PURGE, "", by=by, reason=reason)
    if batch < 1:
        raise Misuse(f"a batch of {batch} runs", hint="pass a number from 1 on")
    now = app.store.now()
    wanted = {
        RunState(state).value: Purging(
            app.namespace, RunState(state).value, now - microseconds(age, what="retention"), limit=batch
        )
        for state, age in retention.keep.items()
    }
    counts = dict.fromkeys(wanted, 0)
    goes_on = True
    while goes_on:  # a child goes after whoever has started it, so that there may be more to do after each round
        done = {
            state: _purged(app, which, retention, by=by, reason=reason, dry_run=dry_run)
            for state, which in wanted.items()
        }
        counts = {state: counts[state] + done[state] for state in counts}
        goes_on = any(done.values()) and not dry_run
    left = sum(app.store.ended(which) for which in wanted.values())
    return Purged(counts, left - sum(counts.values()) if dry_run else left)


def _purged(app: Asked, wanted: Purging, retention: Retention, *, by: str, reason: str, dry_run: bool) -> int:
    """Batch by batch, each one transaction with its audit row; how many runs."""

    def audit(runs: list[str]) -> Audit:
        said = canonical({"state": wanted.state, "runs": len(runs), "first": runs[0], "last": runs[-1]})
        why = f"{reason} ({retention.spelled()})"
        return Audit(
            at=app.store.now(), actor=by, verb=PURGE, run_id="", outcome="done", reason=why, before="{}", after=said,
            namespace=app.namespace,
        )  # fmt: skip

    count = 0
    while found := app.store.purgeable(wanted) if dry_run else app.store.purge(wanted, audit):
        count += len(found)
        wanted = wanted._replace(after=found[-1][0])
    return count
