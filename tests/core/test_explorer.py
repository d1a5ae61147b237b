"""The guarantee ladder, proved by exhaustion: what is guarded happens once, and each rule taken out is missed."""

import pytest

from tests.core.explorer import Found, explore
from tests.core.ladder import GUARDED, TWICE, WITHOUT, Without
from tests.core.one_effect import Row


def _name(case):
    return case.name


@pytest.fixture(scope="module")
def explored():
    """Each guarded row, explored once for all the tests of it."""
    found: dict[str, Found] = {}

    def once(row: Row) -> Found:
        if row.name not in found:
            found[row.name] = explore(row)
        return found[row.name]

    return once


@pytest.mark.parametrize("row", GUARDED, ids=_name)
class TestEveryGuardedRow:
    def test_is_applied_once(self, row, explored):
        assert explored(row).twice == []

    def test_is_never_called_failed_while_it_happened_nor_succeeded_while_it_did_not(self, row, explored):
        assert explored(row).false_verdict == []

    def test_never_contradicts_itself(self, row, explored):
        assert explored(row).conflict == []

    def test_has_a_way_on_from_every_state(self, row, explored):
        assert explored(row).stuck == []

    def test_begins_no_other_effect_while_it_is_unknown(self, row, explored):
        assert explored(row).law_3_broken == []

    def test_reaches_success_and_proved_failure(self, row, explored):
        assert {"succeeded", "failed"} <= explored(row).endings


@pytest.mark.parametrize("row", TWICE, ids=_name)
def test_a_recovery_that_the_ladder_warns_of_applies_it_twice(row):
    assert explore(row, until="twice").twice


@pytest.mark.parametrize("case", WITHOUT, ids=_name)
def test_a_rule_is_missed_when_it_is_taken_out(case: Without):
    with case.taken_out():
        found = explore(case.row, until=case.fault)
    assert getattr(found, case.fault), f"{case.rule} can be taken out unnoticed"


def test_the_ladder_reads_as_the_design_prints_it(explored):
    rows = [(row.target, row.recovery, bool(explore(row, until="twice").twice)) for row in TWICE]
    rows += [(row.target, row.recovery, bool(explored(row).twice)) for row in GUARDED if row.recovery in PRINTED]
    assert rows == [
        ("nothing", "send again", True),
        ("nothing", "look up, send if absent", True),
        ("a fence", "send again, the new token pushed first", True),
        ("a fence, look-up lags", "raise it, look up, send", True),
        ("nothing", "wait out the span, then look up", False),
        ("a fence", "raise it, look up at the authority, send", False),
        ("a fence, look-up lags", "raise it, wait out the span, look up, send", False),
        ("a key", "send the same key again", False),
        ("nothing that can be asked", "a person decides, and waits", False),
    ]


PRINTED = {
    "wait out the span, then look up",
    "raise it, look up at the authority, send",
    "raise it, wait out the span, look up, send",
    "send the same key again",
    "a person decides, and waits",
}
