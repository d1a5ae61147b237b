"""The parts of a picture of a run, rows of lanes with bars and marks, and how too many of them become few.

What is folded says how many it is, and what of it failed, is unknown or was refused stays a mark of its own for as long
as there is room, and is counted in one after that. Pure. What the parts are made of is `timeline`, in which order
neighbours go together `folding`, and drawing them is `console.timeline`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from fencepost.core.folding import fold
from fencepost.core.trace import Status

LANES_MAX = 6
NAMES_MAX = 3

_WORST = (Status.UNKNOWN, Status.BADLY, Status.OPEN, Status.WELL)
EVENTFUL = frozenset({Status.UNKNOWN, Status.BADLY})


@dataclass(frozen=True, slots=True)
class Bar:
    """Something that lasted: an attempt, a look-up, a step; or `many` of them together. `ended_at` None: it goes on."""

    name: str
    says: str
    status: Status
    kind: str
    began_at: int
    ended_at: int | None
    many: int = 1


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment that somebody has to see, or `many` from then on. `since`: when the attempt of a late report began."""

    name: str
    says: str
    status: Status
    at: int
    is_refused: bool = False
    since: int | None = None
    many: int = 1


@dataclass(frozen=True, slots=True)
class Lane:
    """What one owner did, or several that are folded together; no generation where no owner is recorded."""

    generations: tuple[int, ...] = ()
    leases: tuple[str, ...] = ()
    bars: tuple[Bar, ...] = ()
    marks: tuple[Mark, ...] = ()


@dataclass(frozen=True, slots=True)
class Row:
    """A step, or `many`; or all owners, or all persons, of the run.

    `tally` counts what is in it: steps by what is said of them, and attempts and reports by theirs. `compensates`
    is what a compensation goes back from: the step of the row above, unless that is of an earlier turn.
    """

    kind: str
    name: str
    says: str
    status: Status
    began_at: int
    ended_at: int | None
    lanes: tuple[Lane, ...]
    tally: Mapping[str, int]
    many: int = 1
    like: str = ""
    compensates: str | None = None

    @property
    def is_eventful(self) -> bool:
        """Whether somebody has to see it for itself."""
        if self.status is not Status.WELL or any(lane.marks for lane in self.lanes):
            return True
        return not EVENTFUL.isdisjoint(bar.status for lane in self.lanes for bar in lane.bars)


def latest(ends: Iterable[int | None]) -> int | None:
    """The last of these ends; None if one of them has not come."""
    known: list[int] = []
    for end in ends:
        if end is None:
            return None
        known.append(end)
    return max(known)


def is_eventful(item: Sequence[Row]) -> bool:
    """Whether a step, or a compensation of it, has to be seen for itself."""
    return any(row.is_eventful for row in item)


def alike(item: Sequence[Row]) -> tuple[tuple[str, str], ...]:
    """What steps have in common that may go together before others do."""
    return tuple((row.like, row.says) for row in item)


def folded(group: Sequence[Sequence[Row]], room: int) -> list[Row]:
    """The rows of one step, or one row for several; each with at most so many bars and marks in a lane."""
    if len(group) == 1:
        return [thinned(row, room) for row in group[0]]
    rows = [row for item in group for row in item]
    names = Counter(row.like for row in rows).most_common(NAMES_MAX)
    status = min((row.status for row in rows), key=_WORST.index)
    bar = Bar(
        "", "", status, "fold", min(row.began_at for row in rows), latest(row.ended_at for row in rows), len(rows)
    )
    marks = sorted((mark for row in rows for mark in _eventful_of(row)), key=lambda mark: mark.at)
    tally: Counter[str] = Counter()
    for row in rows:
        tally.update(row.tally)
    whole = Row(
        "fold", ", ".join(f"{many} × {name}" for name, many in names), "", status, bar.began_at, bar.ended_at,
        (Lane(bars=(bar,), marks=tuple(marks)),), tally, len(rows),
    )  # fmt: skip
    return [thinned(whole, room)]


def _eventful_of(row: Row) -> Iterator[Mark]:
    """What of a row somebody has to see, as moments of the row that it is folded into."""
    seen = False
    for lane in row.lanes:
        for bar in lane.bars:
            if bar.status in EVENTFUL:
                seen = True
                yield Mark(f"{row.name}: {bar.name}", bar.says, bar.status, bar.began_at)
        for mark in lane.marks:
            seen = True
            yield replace(mark, name=f"{row.name}: {mark.name}", since=None)
    if not seen and row.status is not Status.WELL:
        yield Mark(row.name, row.says, row.status, row.began_at)


def thinned(row: Row, room: int) -> Row:
    """The row with at most so many bars, and as many marks, in each of a few lanes."""
    together = fold(row.lanes, min(LANES_MAX, room), alike=lambda _: "", eventful=lambda lane: bool(lane.marks))
    return replace(row, lanes=tuple(_thin(_one(lanes), room) for lanes in together))


def _one(lanes: Sequence[Lane]) -> Lane:
    if len(lanes) == 1:
        return lanes[0]
    return Lane(
        tuple(one for lane in lanes for one in lane.generations),
        tuple(dict.fromkeys(one for lane in lanes for one in lane.leases)),
        tuple(sorted((one for lane in lanes for one in lane.bars), key=lambda bar: bar.began_at)),
        tuple(sorted((one for lane in lanes for one in lane.marks), key=lambda mark: mark.at)),
    )


def _thin(lane: Lane, room: int) -> Lane:
    bars = fold(lane.bars, room, alike=_like_bar, eventful=lambda bar: bar.status in EVENTFUL)
    marks = fold(lane.marks, room, alike=_like_mark, eventful=lambda mark: mark.status is not Status.WELL)
    return replace(lane, bars=tuple(map(_as_one_bar, bars)), marks=tuple(map(_as_one_mark, marks)))


def _like_bar(bar: Bar) -> tuple[str, ...]:
    return bar.kind, bar.says, bar.status


def _like_mark(mark: Mark) -> tuple[str, ...]:
    return mark.says, mark.status


def _as_one_bar(bars: Sequence[Bar]) -> Bar:
    first, last = bars[0], bars[-1]
    if len(bars) == 1:
        return first
    worst = min((bar.status for bar in bars), key=_WORST.index)
    ended, many = latest(bar.ended_at for bar in bars), sum(bar.many for bar in bars)
    return Bar(f"{first.name} … {last.name}", _said(bars), worst, first.kind, first.began_at, ended, many)


def _as_one_mark(marks: Sequence[Mark]) -> Mark:
    first, last = marks[0], marks[-1]
    if len(marks) == 1:
        return first
    worst = min((mark.status for mark in marks), key=_WORST.index)
    is_refused, many = any(mark.is_refused for mark in marks), sum(mark.many for mark in marks)
    return Mark(f"{first.name} … {last.name}", _said(marks), worst, first.at, is_refused, None, many)


def _said(several: Iterable[Bar | Mark]) -> str:
    """What is said of several, most often first: "3 × applied, 1 × unknown"."""
    said: Counter[str] = Counter()
    for one in several:
        said[one.says] += one.many
    return ", ".join(f"{many} × {what}" for what, many in said.most_common(NAMES_MAX))
