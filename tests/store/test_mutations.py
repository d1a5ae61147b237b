"""Take one guard out of one statement, and the oracle objects: no guard of a run's rows is there for nothing.

Each mutation replaces a comparison in the loaded SQL by one that always holds, opens the store with it and plays
histories until they disagree. `claim_run` and `take_over_operations` are only ever called with what was just read
under the write lock, so that their histories drive the two statements by hand; see `oracle_histories`.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from fencepost.store import queries, sqlite
from fencepost.store.queries import Query
from tests.store.oracle_histories import Histories, Objection

HISTORIES_MAX = 1_000

# Generations are never negative, and a run that is not there still yields NULL, which no comparison lets pass.
GENERATION = re.compile(r"(AND (?:generation|\(SELECT generation FROM run WHERE no = \?(?: AND state = \?)?\))) = \?")
# The expected state of the row that is changed, or of the run under which something begins.
EXPECTED = re.compile(r"(AND (?:state|outcome|first_outcome)) = (?:(\?)|'\w+')")
UNOWNED = re.compile(r"AND state IN \('waiting', 'cancelling', 'compensating'\) AND lease IS NULL$")

GUARDED_UPDATES = {
    "move_operation", "dispatch_operation", "succeed", "settle_first", "settle_attempt", "deliver_operation",
    "move_step", "move_signal", "move_run", "claim_run", "take_over_operations",
}  # fmt: skip
GUARDED_INSERTS = {"new_operation", "new_attempt", "open_step"}

# Waking a run that nobody owns takes nothing from anybody: that nobody owns it is its guard. And a restore takes every
# run from everybody.
UNOWNED_UPDATES = {"wake_run", "raise_generations"}

# What a run owns. Leases belong to processes; observations and audit rows are only ever appended.
OWNED_TABLES = r"(run|operation|attempt|step|signal)\b"

LOADED = queries.load("sqlite")


def statements(begin: str) -> dict[str, str]:
    return {name: query.statement for name, query in LOADED.items() if re.match(begin, query.statement)}


def without_generation(statement: str) -> tuple[str, int]:
    return GENERATION.subn(r"\1 >= min(?, 0)", statement)


def without_expected_state(statement: str) -> tuple[str, int]:
    def anything(guard: re.Match[str]) -> str:
        return f"{guard[1]} >= " + ("substr(?, 1, 0)" if guard[2] else "''")

    return EXPECTED.subn(anything, statement, count=1)


def without_unowned(statement: str) -> tuple[str, int]:
    return UNOWNED.subn("", statement)


def objection_to(
    name: str, weaken: Callable[[str], tuple[str, int]], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[int, Objection]:
    """Play histories on a store with one weakened statement: how many it took, and what was said."""
    mutant, count = weaken(LOADED[name].statement)
    assert count == 1, f"{name} has one such guard: {LOADED[name].statement}"
    mutated: Mapping[str, Query] = {**LOADED, name: replace(LOADED[name], statement=mutant)}
    monkeypatch.setattr(sqlite, "load", lambda dialect: mutated)
    histories = Histories(folder)
    for seed in range(HISTORIES_MAX):
        try:
            histories.play(seed)
        except Objection as objection:
            monkeypatch.undo()
            histories.play(seed)  # The same history goes well with the statement as it is.
            return seed + 1, objection
    pytest.fail(f"{HISTORIES_MAX} histories went by and nothing showed that {name} had lost its guard: {mutant}")


def test_every_update_of_what_a_run_owns_is_weakened_here() -> None:
    assert set(statements(rf"UPDATE {OWNED_TABLES}")) == GUARDED_UPDATES | UNOWNED_UPDATES


def test_every_insert_that_names_a_generation_is_weakened_here() -> None:
    inserts = statements(rf"INSERT INTO {OWNED_TABLES}")
    assert {name for name, statement in inserts.items() if GENERATION.search(statement)} == GUARDED_INSERTS
    # A run is started and a signal is sent by whoever likes; neither is anybody's to be guarded.
    assert set(inserts) - GUARDED_INSERTS == {"start_run", "keep_signal"}


@pytest.mark.parametrize("name", sorted(GUARDED_UPDATES | GUARDED_INSERTS))
def test_without_its_generation_a_statement_is_caught(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    played, objection = objection_to(name, without_generation, tmp_path, monkeypatch)

    print(f"{name} without its generation: caught by history {played}")  # noqa: T201 - the figures, for who runs it with -rP
    assert "history" in str(objection)


@pytest.mark.parametrize(
    "name", sorted((GUARDED_UPDATES - {"deliver_operation", "take_over_operations"}) | {"new_operation"})
)
def test_without_its_expected_state_a_statement_is_caught(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    played, _ = objection_to(name, without_expected_state, tmp_path, monkeypatch)

    print(f"{name} without its expected state: caught by history {played}")  # noqa: T201 - the figures, for who runs it with -rP


def test_waking_a_run_that_is_owned_or_ended_is_caught(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    objection_to("wake_run", without_unowned, tmp_path, monkeypatch)
