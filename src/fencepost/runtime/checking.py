"""Looks through a whole ledger: for contradictions in what it holds, and for breaks in the chain of its audit.

Both read, from one moment, a few runs or rows at a time, and change nothing; workers go on meanwhile. What contradicts
what is decided in `core.contradictions` and its neighbours, what breaks a chain in `store.chain`; what is said about it
belongs to the command line.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from fencepost.core.contradictions import ON_LEDGERS, ON_RUNS, Contradiction, Ledgerwide, Whole
from fencepost.core.contradictions_of_effects import ON_EFFECTS
from fencepost.core.contradictions_of_families import ON_FAMILIES
from fencepost.store.chain import Anchor, Verdict, verify

if TYPE_CHECKING:
    from fencepost.store.api import Store
    from fencepost.store.walk import Walk

RULES = (*ON_RUNS, *ON_FAMILIES, *ON_EFFECTS, *ON_LEDGERS)
"""Every rule that is asked of a run or a ledger; its docstring says what never happens."""

CHAIN = "audit_chain_broken"
STRAY = "row_of_nothing"
"""Two contradictions that no rule on a whole run can see: they are found on the way through the ledger."""

SENTENCES = {
    **{rule.__name__: rule.__doc__ or "" for rule in RULES},
    CHAIN: "Each audit row names the hash of the one before it, and its own is that of what it says.",
    STRAY: "Whatever belongs to a run belongs to one that is there, and can be read.",
}

FOUND_MAX = 1_000
"""So many contradictions are kept; the others are counted."""


@dataclass(slots=True)
class Checked:
    """How much was looked through, and what was found: `found` is at most so many of `count`."""

    runs: int = 0
    operations: int = 0
    audits: int = 0
    count: int = 0
    found: list[Contradiction] = field(default_factory=list)

    def note(self, one: Contradiction) -> None:
        """Take in a finding."""
        self.count += 1
        if len(self.found) < FOUND_MAX:
            self.found.append(one)


def check(store: Store) -> Checked:
    """Look for contradictions in everything that a ledger holds.

    Raises:
        StoreUnavailable: it cannot be read.
    """
    checked = Checked()
    with store.walk() as walk:
        ledger = walk.ledgerwide()
        for rule in ON_LEDGERS:
            for where, says in rule(ledger):
                checked.note(Contradiction(rule.__name__, "", "", where, says))
        _check_chain(walk, checked)
        for one in walk.runs():
            if isinstance(one, str):
                checked.note(Contradiction(STRAY, "", "", one, "it belongs to nothing"))
            else:
                _check_run(one, ledger, checked)
    return checked


def _check_run(whole: Whole, ledger: Ledgerwide, checked: Checked) -> None:
    run = whole.history.run
    checked.runs += 1
    checked.operations += len(whole.history.operations)
    for rule in (*ON_RUNS, *ON_FAMILIES, *ON_EFFECTS):
        for where, says in rule(whole, ledger):
            checked.note(Contradiction(rule.__name__, run.namespace, run.id, where, says))


def _check_chain(walk: Walk, checked: Checked) -> None:
    verdict = verify(walk.audits(), number_of=walk.audit_with)
    checked.audits = verdict.rows
    if verdict.broken is not None:
        checked.note(Contradiction(CHAIN, "", "", f"audit row {verdict.broken.at}", verdict.broken.says))


def verify_audit(store: Store, anchor: Anchor | None = None) -> Verdict:
    """Read the whole audit and say whether its chain is as it was written; with an anchor, also its end.

    Raises:
        StoreUnavailable: it cannot be read.
    """
    with store.walk() as walk:
        return verify(walk.audits(), anchor=anchor, number_of=walk.audit_with)
