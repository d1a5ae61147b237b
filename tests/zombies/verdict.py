"""What became of each cell, counted at the world's own files and at the accounts, and compared with the ledger's word.

Duplicates, lost effects and stale overwrites are the world's word; a false verdict is the ledger's, where the two
differ. Beside them stands what the old owner did when it came back. Playing is `play`, printing `matrix`.
"""

import json
from collections import Counter
from dataclasses import dataclass, fields

from fencepost.core.records import REQUEST, History, Observation
from fencepost.core.states import OperationState, RunState
from fencepost.testing.world.lines import Arrived, Committed, Write
from tests.zombies.bodies import SERVICES
from tests.zombies.cells import CELLS, Cell, Row
from tests.zombies.faults import Fault
from tests.zombies.play import Play


@dataclass(frozen=True)
class Counts:
    """What must be 0 in every cell."""

    duplicates: int = 0
    lost: int = 0
    stale: int = 0
    false: int = 0

    def __add__(self, other: "Counts") -> "Counts":
        return Counts(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(self)))

    def __str__(self) -> str:
        return " ".join(str(getattr(self, one.name)) for one in fields(self))

    @property
    def harm(self) -> int:
        """What the world holds that it should not."""
        return self.duplicates + self.stale


@dataclass(frozen=True)
class Return:
    """What the old owner did when it came back; `why` is the error with which its send was refused, if it was."""

    woke: bool
    was_refused: bool
    has_left_evidence: bool
    sent_late: bool
    why: str

    def __str__(self) -> str:
        if not self.woke:
            return "-"
        if self.sent_late:
            return "sent late"
        if self.why in _REFUSALS:
            return _REFUSALS[self.why]
        return "replied" if self.has_left_evidence else "refused" if self.was_refused else "in time"


_REFUSALS = {"LeaseLost": "no lease", "FenceRefused": "fenced", "DeadlinePassed": "too late"}


@dataclass(frozen=True)
class Verdict:
    """One cell under one fault."""

    cell: Cell
    counts: Counts
    back: Return
    missing: tuple[str, ...]
    """What the cell was to show and did not; it proves nothing then."""


def verdicts(play: Play, fault: Fault) -> list[Verdict]:
    """The verdict on every cell of a play that is over."""
    return [_verdict(play, fault, cell) for cell in CELLS]


def _verdict(play: Play, fault: Fault, cell: Cell) -> Verdict:
    history = play.history(cell)
    counts = _at_the_accounts(play, cell) if cell.row is Row.FENCE else _at_the_world(play, cell)
    counts += Counts(false=_differs(play, history, cell))
    back = _return(play, fault, history, cell)
    missing = () if play.is_control else tuple(_missing(fault, back, cell, keeps_owner=fault.keeps_owner(play.ledger)))
    return Verdict(cell, counts, back, missing)


# -- what is there ----------------------------------------------------------------------------------------------------


def _writes(play: Play, cell: Cell) -> list[Write]:
    commits = [line for line in play.world.files.lines(SERVICES[cell.row]) if isinstance(line, Committed)]
    return [write for line in commits for write in line.writes if write.value.get("name") == cell.first]


def _at_the_world(play: Play, cell: Cell) -> Counts:
    writes = _writes(play, cell)
    made = Counter(write.value.get("sequence", 1) for write in writes)
    wanted = (1, 2) if cell.row is Row.RECORD else (1,)
    is_old = cell.row is Row.RECORD and bool(writes) and writes[-1].value["sequence"] != 2
    return Counts(
        duplicates=sum(made.values()) - len(made),
        lost=sum(made[one] == 0 for one in wanted) + is_old,
        stale=sum(write.stale for write in writes),
    )


def _at_the_accounts(play: Play, cell: Cell) -> Counts:
    booked = sum(one.account == cell.id for one in play.accounts.bookings())
    stale = sum(one.account == cell.id for one in play.accounts.stale())
    return Counts(duplicates=max(0, booked - 1), lost=int(booked == 0), stale=stale)


def _differs(play: Play, history: History, cell: Cell) -> int:
    """How often the ledger says something else than the target of its run."""
    if cell.row is Row.FENCE:
        there = set(play.accounts.find(history.operations[0].key)) if history.operations else set()
    else:
        there = {write.id for write in _writes(play, cell)}
    wrong = int(history.run.state is not RunState.SUCCEEDED)
    for operation in history.operations:
        has_succeeded = operation.state is OperationState.SUCCEEDED
        knows = has_succeeded and json.loads(operation.result or "{}").get("id") in there
        wrong += int(operation.conflict) + int(has_succeeded != bool(there)) + int(has_succeeded and not knows)
    return wrong


# -- what the old owner did -------------------------------------------------------------------------------------------


def _return(play: Play, fault: Fault, history: History, cell: Cell) -> Return:
    left = _left_behind(play, history, cell)
    answers = [note.what for note in play.notes.answers_after_waking() if note.cell == cell.id]
    return Return(
        woke=cell.id in play.notes.having("woke"),
        was_refused=bool(set(answers) - {"moved"}),
        has_left_evidence=bool(left),
        sent_late=_has_sent_late(play, fault, cell),
        why=next(filter(None, map(_error_in, left)), ""),
    )


def _left_behind(play: Play, history: History, cell: Cell) -> list[Observation]:
    """What the victim reported when it owned the run no more."""
    was = play.before[cell.id].generation
    return [
        seen
        for operation in history.operations
        for seen in operation.observations
        if not seen.current and seen.generation == was and seen.kind != REQUEST
    ]


def _error_in(seen: Observation) -> str:
    """The class of the error that was reported, without its module; "" where there was none."""
    error = json.loads(seen.evidence).get("error") or ""
    return (error if isinstance(error, str) else error["class"]).rpartition(".")[2]


def _has_sent_late(play: Play, fault: Fault, cell: Cell) -> bool:
    """Whether a request of the old owner, or of the attempt that was given up, reached the target after all.

    One that stood before its lease was checked, or before permission, is not told from its heir's.
    """
    keeps_owner = fault.keeps_owner(play.ledger)
    if cell.point > 3 or (keeps_owner and not fault.is_request) or (cell.point < 3 and not fault.is_request):
        return False
    since = play.healed_at if fault.is_request else play.word_at
    if cell.row is Row.FENCE:
        return fault.is_request and any(one.account == cell.id and one.at > since for one in play.accounts.bookings())
    arrived = [line for line in play.world.files.lines(SERVICES[cell.row]) if isinstance(line, Arrived)]
    return any(line.wall > since and line.method != "GET" and cell.first in (line.body or "") for line in arrived)


def _missing(fault: Fault, back: Return, cell: Cell, *, keeps_owner: bool) -> list[str]:
    """What the cell was to show beside its zeros."""
    if not fault.wakes:
        return []
    wanted = {"woke": back.woke}
    if fault.is_request:
        wanted["request arrived late"] = back.sent_late or cell.point > 3
    elif keeps_owner:
        wanted["goes on as owner"] = not back.was_refused
    else:
        wanted["was refused"] = back.was_refused
        # Before permission nothing was dispatched that it could report on.
        wanted["evidence is kept"] = back.has_left_evidence or cell.point == 1
        wanted["tried at the target"] = cell.point != 3 or back.sent_late or back.why == "FenceRefused"
    return [what for what, is_so in wanted.items() if not is_so]
