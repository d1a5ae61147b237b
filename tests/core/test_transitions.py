"""Every cell of every transition table, written down a second time: what is not listed here is illegal."""

import pytest

from fencepost.core import states
from fencepost.core.errors import Misuse
from fencepost.core.states import (
    ACTIVE_RUN_STATES,
    CLAIMABLE_RUN_STATES,
    FINAL_OPERATION_STATES,
    FINAL_RUN_STATES,
    OperationState,
    RunState,
    label,
)
from fencepost.core.transitions import (
    OPERATION,
    RECEIPT,
    RUN,
    TABLES,
    IllegalTransition,
    OperationEvent,
    RunEvent,
    Table,
)

EXPECTED = """
operation nothing:        reserve reserved, dispatch dispatched
operation reserved:       dispatch dispatched, release reserved, refuse failed, take over reserved, cancel cancelled, \
                          contradict unknown
operation dispatched:     apply succeeded, release reserved, refuse failed, lose unknown, take over unknown, \
                          cancel dispatched, contradict dispatched, settle conflict unknown
operation unknown:        dispatch dispatched, apply succeeded, release reserved, refuse failed, lose unknown, \
                          take over unknown, cancel unknown, contradict unknown, settle conflict unknown
operation succeeded:      apply succeeded, lose succeeded, take over succeeded, cancel succeeded, \
                          contradict succeeded, settle conflict succeeded
operation failed:         lose failed, take over failed, cancel failed, retry reserved, contradict failed, \
                          settle conflict failed
operation cancelled:      reserve reserved, take over cancelled, cancel cancelled, contradict cancelled, \
                          settle conflict cancelled
attempt nothing:
attempt unresolved:       applied applied, not applied not applied, contradict unresolved
attempt applied:          applied applied, contradict unresolved
attempt not applied:      not applied not applied, contradict unresolved
run nothing:              claim running, release ready
run ready:                claim running, hold held, cancel cancelling, terminate terminated, migrate ready
run running:              take over running, wait waiting, release ready, hold held, cancel cancelling, \
                          compensate compensating, succeed succeeded, fail failed, terminate terminated, \
                          continue continued, migrate ready
run waiting:              claim running, release ready, hold held, cancel cancelling, terminate terminated, \
                          migrate ready
run held:                 hold held, resume ready, cancel cancelling, compensate compensating, terminate terminated, \
                          migrate held
run cancelling:           claim cancelling, take over cancelling, wait cancelling, release cancelling, hold held, \
                          cancel cancelling, compensate compensating, end cancelled cancelled, terminate terminated, \
                          migrate cancelling
run compensating:         claim compensating, take over compensating, wait compensating, release compensating, \
                          hold held, compensate compensating, terminate terminated, migrate compensating, \
                          end compensated compensated, \
                          end partly compensated partly compensated, end compensation failed compensation failed
run succeeded:            compensate compensating, reopen ready
run failed:               resume ready, compensate compensating, terminate terminated, migrate failed
run cancelled:            compensate compensating, reopen ready
run terminated:           compensate compensating, reopen ready
run compensated:          reopen ready
run partly compensated:   compensate compensating
run compensation failed:  compensate compensating
run continued:
step nothing:
step open:                finish done, fail failed, cancel cancelled
step done:                cancel done
step failed:              cancel failed, resume open
step cancelled:           cancel cancelled, resume open
signal nothing:
signal kept:              apply applied, refuse refused
signal applied:
signal refused:
lease nothing:
lease live:               renew live, expire expired, end ended
lease expired:
lease ended:
receipt nothing:          begin in progress, answer answered
receipt in progress:      answer answered, release free, lose unknown, ask in progress
receipt answered:         begin in progress, answer answered
receipt unknown:          ask in progress, answer answered, release free
receipt free:             begin in progress, answer answered
"""

EVERY = (*TABLES, RECEIPT)


def _expected(table: Table) -> dict:
    cells = {}
    for line in EXPECTED.strip().splitlines():
        place, _, entries = line.partition(":")
        name, _, state = place.partition(" ")
        if name == table.name:
            cells[None if state == "nothing" else table.states(state)] = _cells(table, entries)
    return cells


def _cells(table: Table, entries: str) -> dict:
    found = {}
    for entry in filter(None, (entry.strip() for entry in entries.split(","))):
        event = max((event for event in table.events if entry.startswith(f"{event} ")), key=len)
        found[event] = table.states(entry.removeprefix(f"{event} ").strip())
    return found


def _every_cell():
    return [(table, state, event) for table in EVERY for state in (None, *table.states) for event in table.events]


def _cell_name(value):
    return value.name if isinstance(value, Table) else str(value or "nothing")


@pytest.mark.parametrize(("table", "state", "event"), _every_cell(), ids=_cell_name)
def test_cell(table, state, event):
    to = _expected(table)[state].get(event)
    assert table.allows(state, event) is (to is not None)
    if to is not None:
        assert table.after(state, event) is to
        return
    with pytest.raises(
        IllegalTransition, match=f"{table.name} in state {state or 'nothing'} cannot {event}"
    ) as refused:
        table.after(state, event)
    assert isinstance(refused.value, Misuse)
    assert refused.value.hint


@pytest.mark.parametrize("table", EVERY, ids=_cell_name)
def test_rows_are_the_legal_cells_by_unique_names(table):
    rows = list(table.rows())
    assert {(row.state, row.event): row.to for row in rows} == {
        (state, event): to for state, row in _expected(table).items() for event, to in row.items()
    }
    assert len({row.name for row in rows}) == len(rows)


def test_a_row_is_named_for_fault_points():
    names = {row.name for table in TABLES for row in table.rows()}
    assert {"operation:nothing:reserve", "operation:unknown:take over", "run:held:resume"} <= names


def test_a_table_without_a_line_for_a_state_is_not_built():
    with pytest.raises(AssertionError, match="no line for"):
        Table("operation", OperationState, OperationEvent, {None: {}})


# -- what the laws say of the tables --------------------------------------------------------------------------------


def test_out_of_a_final_operation_lead_a_persons_retry_and_asking_again_for_what_was_taken_back():
    leading_out = [row for row in OPERATION.rows() if row.state in FINAL_OPERATION_STATES and row.to is not row.state]
    assert [(row.state, row.event, row.to) for row in leading_out] == [
        (OperationState.FAILED, OperationEvent.RETRY, OperationState.RESERVED),
        (OperationState.CANCELLED, OperationEvent.RESERVE, OperationState.RESERVED),
    ]


def test_only_what_is_reserved_is_taken_back():
    """So that asking for it again begins where nothing is on its way."""
    taken_back = {row.state for row in OPERATION.rows() if row.to is OperationState.CANCELLED} - {
        OperationState.CANCELLED
    }
    assert taken_back == {OperationState.RESERVED}


def test_losing_ownership_or_a_cancel_settles_nothing_that_was_sent():
    for event in (OperationEvent.TAKE_OVER, OperationEvent.CANCEL, OperationEvent.LOSE):
        for state in (OperationState.DISPATCHED, OperationState.UNKNOWN):
            assert OPERATION.after(state, event) not in FINAL_OPERATION_STATES
            assert OPERATION.after(state, event) is not OperationState.RESERVED


def test_nothing_is_sent_from_a_final_operation_or_one_in_flight():
    sending = {state for state in (None, *OperationState) if OPERATION.allows(state, OperationEvent.DISPATCH)}
    assert sending == {None, OperationState.RESERVED, OperationState.UNKNOWN}


def test_a_contradiction_never_settles():
    for state in OperationState:
        to = OPERATION.after(state, OperationEvent.CONTRADICT)
        assert to is state or to is OperationState.UNKNOWN


def test_only_a_person_takes_a_conflict_down_and_it_settles_nothing_by_itself():
    for state in OperationState:
        if OPERATION.allows(state, OperationEvent.SETTLE_CONFLICT):
            to = OPERATION.after(state, OperationEvent.SETTLE_CONFLICT)
            assert to is state or to is OperationState.UNKNOWN


def test_a_finished_run_moves_by_a_persons_verb_only():
    verbs = {RunEvent.RESUME, RunEvent.COMPENSATE, RunEvent.TERMINATE, RunEvent.REOPEN, RunEvent.MIGRATE}
    assert {row.event for row in RUN.rows() if row.state in FINAL_RUN_STATES} == verbs


def test_every_active_run_can_reach_an_end():
    reached = set(FINAL_RUN_STATES)
    while grown := {row.state for row in RUN.rows() if row.to in reached and row.state is not None} - reached:
        reached |= grown
    assert reached == set(RunState)


def test_a_run_is_cancelled_only_from_cancelling_and_compensated_only_from_compensating():
    assert {row.state for row in RUN.rows() if row.to is RunState.CANCELLED} == {RunState.CANCELLING}
    ends = {RunState.COMPENSATED, RunState.PARTLY_COMPENSATED, RunState.COMPENSATION_FAILED}
    assert {row.state for row in RUN.rows() if row.to in ends} == {RunState.COMPENSATING}


def test_what_may_be_claimed_can_be_claimed():
    claimed = {state for state in RunState if RUN.allows(state, RunEvent.CLAIM)}
    assert claimed == CLAIMABLE_RUN_STATES
    assert RunState.HELD not in claimed
    assert set(RunState) == ACTIVE_RUN_STATES | FINAL_RUN_STATES


def test_every_state_has_a_label_that_an_operator_can_read():
    enums = (
        states.OperationState, states.Outcome, states.RunState, states.StepState, states.SignalState, states.LeaseState,
    )  # fmt: skip
    members = [member for enum in enums for member in enum]
    assert all(label(member) for member in members)
