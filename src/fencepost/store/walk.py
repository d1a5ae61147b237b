"""Reads a whole ledger once, from one moment, a few runs at a time, for whoever looks for contradictions in it.

Read-only, and bounded by the largest run: nothing is kept of the pages before. What belongs to no run, or to no
operation, is handed out too, as strays. What contradicts what is decided in `core.contradictions`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from fencepost.core.contradictions import Ledgerwide, Whole
from fencepost.core.position import effect_position
from fencepost.core.records import Audit, History, Operation
from fencepost.store import rows
from fencepost.store.queries import Row
from fencepost.store.statements import Statements, Wanted

RUNS_AT_ONCE = 50
AUDITS_AT_ONCE = 1_000
FOUND_MAX = 100
"""Of rows that are wrong by themselves so many are handed out of a kind."""

_LOWEST, _HIGHEST = -(2**63), 2**63 - 1

_OF_RUNS = (
    "walk_steps", "walk_operations", "walk_attempts", "walk_observations", "walk_signals", "walk_leases",
    "walk_kin", "walk_verbs", "walk_shared_keys",
)  # fmt: skip


class Walk:
    """One walk; valid until the store's `walk` is left."""

    def __init__(self, reading: Statements, now: int) -> None:
        self._reading = reading
        self._now = now

    def runs(self) -> Iterator[Whole | str]:
        """Every run with everything that belongs to it, by number; a text is a row that belongs to none."""
        after = _LOWEST
        while True:
            page = self._reading.execute("walk_runs", after=after, limit=RUNS_AT_ONCE)
            is_last = len(page) < RUNS_AT_ONCE
            last = _HIGHEST if is_last else page[-1][0]
            of_runs: list[Wanted] = [(name, {"after": after, "last": last}) for name in _OF_RUNS]
            found = dict(zip(_OF_RUNS, self._reading.execute_all(of_runs), strict=True))
            yield from _assembled(page, found)
            if is_last:
                return
            after = last

    def audits(self) -> Iterator[Audit]:
        """Every audit row, oldest first."""
        after = _LOWEST
        while page := self._reading.execute("walk_audits", after=after, limit=AUDITS_AT_ONCE):
            yield from (rows.audit(row) for row in page)
            after = page[-1][11]

    def audit_with(self, hash_: str) -> int | None:
        """The number of the audit row that has this hash, the first if there are several."""
        return _only(self._reading.execute("find_audit", hash=hash_))

    def ledgerwide(self) -> Ledgerwide:
        """What is judged of the ledger as a whole."""
        epoch = rows.epoch(self._reading.execute("current_epoch"))
        base = 0 if epoch is None else epoch.base
        return Ledgerwide(
            now=self._now,
            base=base,
            highest_token=_only(self._reading.execute("highest_token")),
            void_tokens=[str(row[0]) for row in self._reading.execute("tokens_below", base=base, limit=FOUND_MAX)],
            half_closed_leases=[str(row[0]) for row in self._reading.execute("leases_half_closed", limit=FOUND_MAX)],
            audits_of_nothing=[
                (row[0], row[1], row[2]) for row in self._reading.execute("audits_of_nothing", limit=FOUND_MAX)
            ],
            silent_proposals=[
                (row[0], row[1], row[2]) for row in self._reading.execute("silent_proposals", limit=FOUND_MAX)
            ],
            silent_ticks=[(row[0], row[1], row[2]) for row in self._reading.execute("silent_ticks", limit=FOUND_MAX)],
        )


def _only(found: list[Row]) -> int | None:
    return None if not found or found[0][0] is None else int(found[0][0])


def _assembled(page: list[Row], found: dict[str, list[Row]]) -> Iterator[Whole | str]:
    by_run = {name: _grouped(rows_) for name, rows_ in found.items() if name != "walk_shared_keys"}
    shared = {row[0] for row in found["walk_shared_keys"]}
    for row in page:
        of_run = {name: some.pop(row[0], []) for name, some in by_run.items()}
        try:
            yield _whole(row, of_run, shared)
        except (KeyError, TypeError, ValueError) as error:
            yield f"run {row[2]!r}, which cannot be read: {error!r}"
    for name, some in by_run.items():
        for run in some:
            yield f"{name.removeprefix('walk_')} of run number {run}, which is not there"


def _grouped(found: list[Row]) -> dict[Any, list[Row]]:
    by_run: dict[Any, list[Row]] = defaultdict(list)
    for row in found:
        by_run[row[0]].append(row)
    return by_run


def _whole(run: Row, of_run: dict[str, list[Row]], shared: set[str]) -> Whole:
    operations: dict[tuple[str, str], Operation] = {}
    counted = {}
    for row in of_run["walk_operations"]:
        operation = operations[row[1], row[2]] = rows.operation(row[:-1])
        counted[operation.position] = int(row[-1])
    strays = []
    for row in of_run["walk_attempts"]:
        owner = operations.get((row[1], row[2]))
        if owner is None:
            strays.append(f"attempt {row[3]} of {effect_position(row[1], row[2] or None)}")
        else:
            owner.attempts.append(rows.attempt(row[1:]))
    for row in of_run["walk_observations"]:
        # Evidence about an operation that never came to be is kept in its table, and contradicts nothing.
        if (owner := operations.get((row[1], row[2]))) is not None:
            owner.observations.append(rows.observation(row[1:]))
    for operation in operations.values():
        operation.learn()  # as every reader does
    history = History(
        rows.run(run),
        steps=[rows.step(row[1:]) for row in of_run["walk_steps"]],
        operations=list(operations.values()),
        signals=[rows.signal(row[1:]) for row in of_run["walk_signals"]],
    )
    leases = [rows.lease(row[1:]) for row in of_run["walk_leases"]]
    return Whole(
        history,
        counted=counted,
        strays=strays,
        lease=leases[0] if leases else None,
        kin=rows.kin(of_run["walk_kin"][0][1:]) if of_run["walk_kin"] else None,
        verbs={row[1]: int(row[2]) for row in of_run["walk_verbs"]},
        shared_keys=shared,
    )
