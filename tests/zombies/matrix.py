"""The matrix as text, with the assumptions on which its cells rest, and whether it holds.

It holds if every count of every cell is 0, no ledger contradicts itself, every old owner came back as it should, and
the control shows harm in each row. Counting is `verdict`, playing `play`.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from fencepost.core.duration import spelled
from fencepost.core.guarantee import guarantee
from fencepost.effects.deadline import deadline_assumption
from tests.zombies.accounts import Accounts
from tests.zombies.bodies import Bodies
from tests.zombies.cells import CELLS, POINTS, Cell, Row
from tests.zombies.faults import Fault
from tests.zombies.parking import Parking
from tests.zombies.verdict import Counts, Verdict

CELL_WIDTH = 18
ROW_WIDTH = 23
LABEL_WIDTH = ROW_WIDTH + 19
MARKS = dict(zip(Row, "abcde", strict=True))
"""The letter under which it is said on what the cells of a row rest."""


@dataclass
class Matrix:
    """The verdicts on one store, by fault, and those of the control."""

    store: str
    guarded: dict[Fault, list[Verdict]] = field(default_factory=dict)
    control: dict[Fault, list[Verdict]] = field(default_factory=dict)
    not_played: dict[Fault, str] = field(default_factory=dict)
    contradictions: dict[Fault, list[str]] = field(default_factory=dict)
    """What `fencepost check` finds in the ledger that a fault has left."""

    # -- whether it holds

    def failures(self) -> list[str]:
        """What speaks against it, in sentences."""
        found = [f"{fault.name}: not played: {why}" for fault, why in self.not_played.items()]
        found += [f"{fault.name}: {one}" for fault, some in self.contradictions.items() for one in some]
        for fault, verdicts in self.guarded.items():
            for one in verdicts:
                if one.counts != Counts():
                    found.append(f"{fault.name}, {one.cell}: duplicates, lost, stale, false: {one.counts}")
                found += [f"{fault.name}, {one.cell}: not shown: {what}" for what in one.missing]
        if not self.control:
            found.append("the control was not played")
        else:
            found += [
                f"control, {row}: no harm, so its zeros prove nothing" for row, harm in self.harm().items() if not harm
            ]
        return found

    def harm(self) -> dict[Row, int]:
        """Duplicates and stale overwrites of the control, by row."""
        every = [one for verdicts in self.control.values() for one in verdicts]
        return {row: sum(one.counts.harm for one in every if one.cell.row is row) for row in Row}

    # -- as text

    def lines(self) -> Iterator[str]:
        """The matrix as it is printed."""
        yield f"zombie matrix on {self.store}: {len(CELLS)} runs in one victim process per fault"
        yield "each cell: duplicates, lost, stale overwrites, false verdicts; then what the old owner did"
        yield from _table(self.guarded)
        for fault, why in self.not_played.items():
            yield f"  {fault.name}: not played: {why}"
        if self.control:
            yield ""
            yield "control: the same bodies, unknown outcomes sent again unasked, no fence"
            yield from _table(self.control)
            yield "harm (duplicates + stale overwrites): " + ", ".join(f"{row} {n}" for row, n in self.harm().items())
        total = sum((one.counts for verdicts in self.guarded.values() for one in verdicts), Counts())
        yield ""
        cells = sum(map(len, self.guarded.values()))
        found = sum(map(len, self.contradictions.values()))
        yield (
            f"{cells} cells: duplicates {total.duplicates}, lost {total.lost}, stale overwrites {total.stale}, "
            f"false verdicts {total.false}, contradictions in the ledgers {found}; "
            f"control: {sum(self.harm().values())}"
        )


def _table(by_fault: Mapping[Fault, Sequence[Verdict]]) -> Iterator[str]:
    yield " " * LABEL_WIDTH + "".join(fault.name.ljust(CELL_WIDTH) for fault in by_fault)
    for number, cell in enumerate(CELLS):
        label = (f"{cell.row} ({MARKS[cell.row]})" if cell.point == 1 else "").ljust(ROW_WIDTH) + POINTS[cell.point]
        found = [verdicts[number] for verdicts in by_fault.values()]
        yield (label.ljust(LABEL_WIDTH) + "".join(_cell(one).ljust(CELL_WIDTH) for one in found)).rstrip()


def _cell(one: Verdict) -> str:
    return f"{one.counts} {'! ' if one.missing else ''}{one.back}"


def rests_on(faults: Sequence[Fault], accounts: Accounts) -> Iterator[str]:
    """On what each row rests, as the contracts of its effects say it."""
    yield "what the rows rest on:"
    bodies = Bodies(Parking(None), accounts, timeout=faults[0].times.timeout, settle=faults[0].times.settle)
    for row in Row:
        bought = guarantee(bodies.effects[Cell(row, 1)].contract)
        assert bought is not None, "every row declares a rung"
        yield f"  ({MARKS[row]}) {bought.rung}: {'; '.join((bought.promise, *map(_assumed, bought.assumptions)))}"
    spans = ", ".join(f"{fault.name} {spelled(fault.span)}" for fault in faults)
    yield f"  spans (attempt timeout + settle): {spans}; (c) declares an hour, which nobody waits for"
    yield f"  sends: {deadline_assumption() or 'deadlines are kept by the kernel on this machine, nothing is assumed'}"


def _assumed(what: str) -> str:
    return f"assumed: {what}"


LEGEND = (
    "sent late: its request reached the target after its heir had done what it could, or after it was given up",
    "no lease, too late, fenced: its send was refused by lease, deadline or target; that is kept as evidence",
    "replied: the reply that it had got is kept as evidence; refused: it had sent nothing, and the ledger let it not",
    "in time: it still owned its run: nothing of it was cut, or the ledger has its server's clock, which did not jump",
    "-: it was dead",
)
