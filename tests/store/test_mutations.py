"""Take one guard out of one statement, and the oracle objects: no guard of a run's rows is there for nothing.

Each mutation replaces a comparison in the loaded SQL by one that always holds, opens the store with it and plays
histories until they disagree. `claim_run` and `take_over_operations` are only ever called with what was just read
under the write lock, so that their histories drive the two statements by hand; see `oracle_histories`.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

import pytest

from fencepost.store import queries, sqlite
from fencepost.store.queries import Query
from tests.store.blank import MakeBlanks
from tests.store.oracle_histories import Histories, Objection

HISTORIES_MAX = 1_000

ALONE = "_alone"
"""Ends the name of the statement for a lone move, where PostgreSQL has one beside the kind's own."""


class Dialect(NamedTuple):
    """How the statements of one database say what is taken out of them here."""

    update: str
    insert: str
    generation: re.Pattern[str]
    expected: re.Pattern[str]
    # Generations are never negative, and a run that is not there still yields NULL, which no comparison lets pass.
    any_generation: str
    # Every text is at least the empty one.
    any_state: str


DIALECTS = {
    "sqlite": Dialect(
        update="UPDATE ",
        insert="INSERT INTO ",
        generation=re.compile(
            r"(AND (?:generation|\(SELECT generation FROM run WHERE no = \?(?: AND state = \?)?\))) = (\?)"
        ),
        # The expected state of the row that is changed, or of the run under which something begins.
        expected=re.compile(r"(AND (?:state|outcome|first_outcome)) = (\?|'\w+')"),
        any_generation=r"\1 >= min(\2, 0)",
        any_state=r"\1 >= substr(\2, 1, 0)",
    ),
    "postgres": Dialect(
        update=r"(?:WITH changed AS \( )?UPDATE fencepost\.",
        insert=r"(?:WITH changed AS \( )?INSERT INTO fencepost\.",
        generation=re.compile(
            r"((?:AND|WHERE) (?:(?:run\.)?generation|\(SELECT generation FROM fencepost\.run "
            r"WHERE no = [\w.$:]+(?: AND state = (?:move\.run_state|\$\d+))?\))) = "
            r"(move\.generation|\$\d+(?:::bigint)?)"
        ),
        expected=re.compile(r"(AND (?:state|outcome|first_outcome)) = (move\.\w+|\$\d+|'\w+')"),
        any_generation=r"\1 >= least(\2, 0)",
        any_state=r"\1 >= substr(\2, 1, 0)",
    ),
}

UNOWNED = re.compile(r"AND state IN \('waiting', 'cancelling', 'compensating'\) AND lease IS NULL")

GUARDED_UPDATES = {
    "move_operation", "dispatch_operation", "succeed", "settle_first", "settle_attempt", "deliver_operation",
    "move_step", "move_signal", "move_run", "pin_run", "claim_run", "take_over_operations",
}  # fmt: skip
GUARDED_INSERTS = {"new_operation", "new_attempt", "open_step", "start_child", "next_turn"}

# Waking a run that nobody owns takes nothing from anybody: that nobody owns it is its guard. And a restore takes every
# run from everybody. That a refusal was audited is nobody's to own, nor is a run that has ended and is purged. A
# heartbeat gives an open wait more time, whoever owns its run, and settles nothing.
UNOWNED_UPDATES = {
    "wake_run", "wake_behind", "wake_one_behind", "wake_forgotten", "raise_generations", "note_audited", "beat",
    "purge_run",
}  # fmt: skip

# What a run owns. Leases belong to processes; observations and audit rows are only ever appended.
OWNED_TABLES = r"(run|operation|attempt|step|signal)\b"

Weaken = Callable[[Dialect, str], tuple[str, int]]


def statements(dialect: str, begin: str) -> dict[str, str]:
    """Of a lone move's own statement the kind's stands for both: the two are weakened together."""
    loaded = queries.load(dialect)
    owning = {
        name: query.statement for name, query in loaded.items() if re.match(begin + OWNED_TABLES, query.statement)
    }
    assert {name.removesuffix(ALONE) for name in owning} <= owning.keys()
    return {name: statement for name, statement in owning.items() if not name.endswith(ALONE)}


def without_generation(dialect: Dialect, statement: str) -> tuple[str, int]:
    return dialect.generation.subn(dialect.any_generation, statement)


def without_expected_state(dialect: Dialect, statement: str) -> tuple[str, int]:
    return dialect.expected.subn(dialect.any_state, statement, count=1)


def without_unowned(dialect: Dialect, statement: str) -> tuple[str, int]:
    return UNOWNED.subn("", statement)


@pytest.fixture
def objection_to(
    dialect: str, blanks: MakeBlanks, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str, Weaken], tuple[int, Objection]]:
    def objection_to(name: str, weaken: Weaken) -> tuple[int, Objection]:
        """Play histories on stores with one weakened statement: how many it took, and what was said."""
        load = queries.load

        def load_weakened(loaded: str, schema: str = queries.SCHEMA) -> Mapping[str, Query]:
            found, plain = dict(load(loaded, schema)), load(loaded)
            for one in {name, name + ALONE} & plain.keys():
                mutant, count = weaken(DIALECTS[loaded], plain[one].statement)
                assert count == 1, f"{one} has one such guard: {plain[one].statement}"
                found[one] = replace(found[one], statement=mutant.replace(f"{queries.SCHEMA}.", f"{schema}."))
            return found

        monkeypatch.setattr(queries, "load", load_weakened)
        monkeypatch.setattr(sqlite, "load", load_weakened)
        histories = Histories(blanks())
        for seed in range(HISTORIES_MAX):
            try:
                histories.play(seed)
            except Objection as objection:
                monkeypatch.undo()
                Histories(blanks()).play(seed)  # The same history goes well with the statement as it is.
                return seed + 1, objection
        pytest.fail(f"{HISTORIES_MAX} histories went by and nothing showed that {name} had lost its guard")

    return objection_to


def test_every_update_of_what_a_run_owns_is_weakened_here(dialect: str) -> None:
    assert set(statements(dialect, DIALECTS[dialect].update)) == GUARDED_UPDATES | UNOWNED_UPDATES


def test_every_insert_that_names_a_generation_is_weakened_here(dialect: str) -> None:
    said = DIALECTS[dialect]
    inserts = statements(dialect, said.insert)
    assert {name for name, statement in inserts.items() if said.generation.search(statement)} == GUARDED_INSERTS
    # A run is started and a signal is sent by whoever likes; neither is anybody's to be guarded.
    assert set(inserts) - GUARDED_INSERTS == {"start_run", "keep_signal", "keep_signal_at_once"}


@pytest.mark.parametrize("name", sorted(GUARDED_UPDATES | GUARDED_INSERTS))
def test_without_its_generation_a_statement_is_caught(
    name: str, objection_to: Callable[[str, Weaken], tuple[int, Objection]]
) -> None:
    played, objection = objection_to(name, without_generation)

    print(f"{name} without its generation: caught by history {played}")  # noqa: T201 - the figures, for who runs it with -rP
    assert "history" in str(objection)


@pytest.mark.parametrize(
    "name", sorted((GUARDED_UPDATES - {"deliver_operation", "take_over_operations"}) | {"new_operation"})
)
def test_without_its_expected_state_a_statement_is_caught(
    name: str, objection_to: Callable[[str, Weaken], tuple[int, Objection]]
) -> None:
    played, _ = objection_to(name, without_expected_state)

    print(f"{name} without its expected state: caught by history {played}")  # noqa: T201 - the figures, for who runs it with -rP


def test_waking_a_run_that_is_owned_or_ended_is_caught(
    objection_to: Callable[[str, Weaken], tuple[int, Objection]],
) -> None:
    objection_to("wake_run", without_unowned)
