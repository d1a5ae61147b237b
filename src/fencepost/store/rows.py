"""Turns rows of the tables into records: the column order of the SELECTs in one place.

Each function takes the columns in the order of its query in history.sql, runs.sql, leases.sql, schedules.sql,
people.sql, containment.sql or audit.sql. It decides nothing and reads nothing; the stores run the queries.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fencepost.core.containment import Containment, Kind
from fencepost.core.contradictions import Kin
from fencepost.core.epoch import Epoch
from fencepost.core.proposals import Proposal, ProposalState
from fencepost.core.records import (
    Attempt,
    Audit,
    History,
    Lease,
    Observation,
    Operation,
    Run,
    Signal,
    Step,
)
from fencepost.core.schedule import Definition, Plan
from fencepost.core.states import LeaseState, OperationState, Outcome, RunState, SignalState, StepState

Row = tuple[Any, ...]

# A dict look-up costs a fifth of calling the enum, and history loads thousands of rows.
_OPERATION = {state.value: state for state in OperationState}
_OUTCOME = {outcome.value: outcome for outcome in Outcome}
_RUN = {state.value: state for state in RunState}
_STEP = {state.value: state for state in StepState}
_SIGNAL = {state.value: state for state in SignalState}
_LEASE = {state.value: state for state in LeaseState}


def run(row: Row) -> Run:
    """A row of `find_run`, `load_run`, `children_of` or `list_runs`."""
    values = list(row)
    values[7] = _RUN[values[7]]
    return Run(*values)


def step(row: Row) -> Step:
    """A row of `steps_of`."""
    values = list(row)
    values[4] = _STEP[values[4]]
    return Step(*values)


def operation(row: Row) -> Operation:
    """A row of `operations_of`; its attempts and observations are added by `history`."""
    values = list(row)
    values[2] = values[2] or None
    values[9] = _OPERATION[values[9]]
    values[13] = bool(values[13])
    return Operation(*values)


def attempt(row: Row) -> Attempt:
    """A row of `attempts_of`."""
    values = list(row[2:])
    values[6] = _OUTCOME[values[6]]
    return Attempt(*values)


def observation(row: Row) -> Observation:
    """A row of `observations_of`."""
    values = list(row[2:])
    values[8] = bool(values[8])
    return Observation(*values)


def signal(row: Row) -> Signal:
    """A row of `signals_of` or `find_signal`."""
    values = list(row)
    values[3] = _SIGNAL[values[3]]
    return Signal(*values)


def lease(row: Row) -> Lease:
    """A row of `all_leases`."""
    values = list(row)
    values[5] = _LEASE[values[5]]
    return Lease(*values)


def plan(row: Row) -> Plan:
    """A row of `all_schedules` or `due_schedules`."""
    values = [*row[:3], Definition(*row[3:13]), *row[13:]]
    values[12] = bool(values[12])
    values[17] = None if values[17] is None else _RUN[values[17]]
    values[19] = bool(values[19])
    return Plan(*values)


def containment(row: Row) -> Containment:
    """A row of `all_contained` or `find_contained`."""
    values = list(row)
    values[2] = Kind(values[2])
    return Containment(*values)


def epoch(found: list[Row]) -> Epoch | None:
    """The rows of `current_epoch`: one, or none."""
    return Epoch(*found[0]) if found else None


def kin(row: Row) -> Kin:
    """A row of `walk_kin`, after the run's number."""
    parent, waits, same_turn, turn_before, print_before, has_next_turn, is_parent_purged = row
    return Kin(
        parent=None if parent is None else _RUN[parent],
        waits=None if waits is None else _STEP[waits],
        same_turn=int(same_turn),
        turn_before=None if turn_before is None else _RUN[turn_before],
        print_before=print_before,
        has_next_turn=bool(has_next_turn),
        is_parent_purged=bool(is_parent_purged),
    )


def audit(row: Row) -> Audit:
    """A row of `audits_of_run` or `all_audits`."""
    return Audit(*row)


def proposal(row: Row) -> Proposal:
    """A row of `find_proposal`, `open_proposal` or `list_proposals`."""
    values = list(row)
    values[12] = ProposalState(values[12])
    return Proposal(*values)


def history(
    run_row: Row,
    *,
    steps: Iterable[Row],
    operations: Iterable[Row],
    attempts: Iterable[Row],
    observations: Iterable[Row],
    signals: Iterable[Row],
    children: Iterable[Row] = (),
) -> History:
    """One run with everything that belongs to it."""
    found = {(row[1], row[2]): operation(row) for row in operations}
    for row in attempts:
        found[row[0], row[1]].attempts.append(attempt(row))
    of_the_run: list[Observation] = []
    for row in observations:
        # Evidence about an operation that never came to be is kept in its table; a history shows what it can place.
        owner = found.get((row[0], row[1]))
        if owner is not None:
            owner.observations.append(observation(row))
        elif not row[0]:
            of_the_run.append(observation(row))
    for one in found.values():
        one.learn()
    return History(
        run(run_row),
        steps=[step(row) for row in steps],
        operations=list(found.values()),
        signals=[signal(row) for row in signals],
        children=[run(row) for row in children],
        observations=of_the_run,
    )
