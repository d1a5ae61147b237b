"""What a picture of a run shows: rows of lanes, from the run's one trace, few enough to be drawn and read.

A row is a step, with a lane for each owner that had a hand in it: what a former owner reported too late stands in its
own lane, as refused. A compensation stands right below what it goes back from. Rows that would be too many are folded,
and say how many they are: uneventful ones first, and whatever failed, is unknown or was refused is counted in the row
that it is folded into. Nothing of a request, result or reason is in it, as in the trace. Pure; when things were is
`core.trace`, where they stand `timescale`, and drawing them `console.timeline`.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from fencepost.core.folding import fold
from fencepost.core.lanes import EVENTFUL, Bar, Lane, Mark, Row, alike, folded, is_eventful, latest, thinned
from fencepost.core.records import Audit, History, Lease
from fencepost.core.states import LeaseState
from fencepost.core.trace import Ids, Status, TraceSpan, trace_of

STEPS_MAX = 120
"""So many steps, or folds of steps, are drawn; compensations below them not counted."""

SHAPES_MAX = 800
"""So many bars and marks are drawn, however many there are to tell of; a little more if every row has but one."""

WAITS = frozenset({"wait", "sleep", "child"})
"""Kinds of steps in which nothing is done."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """A run as it is drawn at `now`. `owners` and `persons` are None where nothing of them is recorded."""

    run_id: str
    says: str
    began_at: int
    ended_at: int | None
    now: int
    owners: Row | None
    persons: Row | None
    steps: tuple[Row, ...]
    tally: Mapping[str, int]

    @property
    def rows(self) -> list[Row]:
        """All rows, from the top."""
        return [one for one in (self.owners, self.persons, *self.steps) if one is not None]

    @property
    def waits(self) -> list[tuple[int, int]]:
        """From when until when each wait was that is drawn for itself."""
        bars = (bar for row in self.steps for lane in row.lanes for bar in lane.bars if bar.kind in WAITS)
        return [(bar.began_at, self.now if bar.ended_at is None else bar.ended_at) for bar in bars]

    @property
    def instants(self) -> Iterator[int]:
        """All instants at which something of it begins, ends or happens."""
        yield from (self.began_at, self.now if self.ended_at is None else self.ended_at)
        for row in self.rows:
            yield from (row.began_at, self.now if row.ended_at is None else row.ended_at)
            for lane in row.lanes:
                yield from (mark.at for mark in lane.marks)
                for bar in lane.bars:
                    yield from (bar.began_at, self.now if bar.ended_at is None else bar.ended_at)


def timeline_of(
    history: History,
    audits: Iterable[Audit] = (),
    *,
    now: int,
    leases: Mapping[str, Lease] | None = None,
    eventful_first: bool = False,
    steps_max: int = STEPS_MAX,
) -> Timeline:
    """What a picture of one turn of a run shows at `now`, store clock; `eventful_first` puts those rows above the rest.

    Of `leases`, by their ids, is told when one ran out.
    """
    spans = [_in_order(one) for one in trace_of([history], audits).spans]
    ids, run = Ids.of(history.run), history.run
    below: defaultdict[str | None, list[TraceSpan]] = defaultdict(list)
    for span in sorted(spans, key=lambda one: one.began_at):
        below[span.parent].append(span)
    items = list(_items(span for span in below[ids.run] if span.kind not in _OF_THE_RUN))
    made = [[_row(span, below[span.id]) for span in item] for item in items]
    if eventful_first:
        made.sort(key=lambda item: not is_eventful(item))
    roots = (ids.run, Ids(run.namespace, run.id).run)
    persons = [span for span in spans if span.kind in ("verb", "decision") and span.parent in roots]
    seen_at = max(now, *(one.ended_at or one.began_at for one in spans))
    whole = Timeline(
        run.id, run.state.value, run.created_at, run.ended_at, seen_at,
        _owners(history, spans, leases or {}), _persons(persons, run.created_at), (),
        sum((Counter(row.tally) for item in made for row in item), Counter()),
    )  # fmt: skip
    return _small_enough(whole, made, steps_max)


def _in_order(span: TraceSpan) -> TraceSpan:
    """The span, ending no earlier than it began: a clock that was set back in between draws nothing backwards."""
    return span if span.ended_at is None or span.ended_at >= span.began_at else replace(span, ended_at=span.began_at)


_OF_THE_RUN = frozenset({"run", "turn", "decision", "verb"})


def _items(spans: Iterable[TraceSpan]) -> Iterator[list[TraceSpan]]:
    """Each step, with the compensations of it; one whose step is not at hand stands for itself."""
    steps = list(spans)
    there = {str(span.attributes.get("position")) for span in steps if span.kind != "compensation"}
    backs: defaultdict[str, list[TraceSpan]] = defaultdict(list)
    for span in steps:
        backs[str(span.attributes.get("compensates"))].append(span)
    for span in steps:
        if span.kind != "compensation":
            place = str(span.attributes["position"])
            yield [span, *(one for one in backs[place] if one.kind == "compensation")]
        elif str(span.attributes["compensates"]) not in there:
            yield [span]


# -- one step ---------------------------------------------------------------------------------------------------------


class _Lanes:
    """The lanes of a row while they are filled: one for each generation, in their order."""

    def __init__(self) -> None:
        self._bars: defaultdict[int, list[Bar]] = defaultdict(list)
        self._marks: defaultdict[int, list[Mark]] = defaultdict(list)
        self._leases: defaultdict[int, dict[str, None]] = defaultdict(dict)

    def take(self, span: TraceSpan, shown: Bar | Mark, generation: int | None = None) -> None:
        """Put something of a span in its generation's lane, or in that of an attempt that it is about."""
        given = span.attributes.get("generation", generation)
        lane = given if isinstance(given, int) else NOBODY
        if lease := span.attributes.get("lease"):
            self._leases[lane][str(lease)] = None
        if isinstance(shown, Bar):
            self._bars[lane].append(shown)
        else:
            self._marks[lane].append(shown)

    def made(self) -> list[Lane]:
        """All lanes in which there is something."""
        return [self._lane(one) for one in sorted(self._bars.keys() | self._marks.keys())]

    def _lane(self, generation: int) -> Lane:
        bars, marks = tuple(self._bars[generation]), tuple(self._marks[generation])
        return Lane(() if generation == NOBODY else (generation,), tuple(self._leases[generation]), bars, marks)


NOBODY = -1
"""In place of a generation, where the ledger holds none."""


def _row(span: TraceSpan, inner: list[TraceSpan]) -> Row:
    lanes, sent = _Lanes(), {one.attributes["attempt"]: one for one in inner if one.kind == "attempt"}
    for one in inner:
        if one.kind in ("attempt", "look-up"):
            lanes.take(one, _bar(one))
        elif one.kind == "late reply":
            lanes.take(one, *_late(one, sent.get(one.attributes["attempt"])))
    found = lanes.made() or [Lane(bars=(_bar(span),))]
    verbs = tuple(_mark(one) for one in inner if one.kind == "verb")
    found[-1] = replace(found[-1], marks=(*found[-1].marks, *verbs))
    is_effect, compensates = span.kind in ("effect", "compensation"), span.attributes.get("compensates")
    return Row(
        span.kind, str(span.attributes["position"]) if is_effect else span.name, span.says, span.status, span.began_at,
        span.ended_at, tuple(found), _tally(span, inner), like=span.name,
        compensates=None if compensates is None else str(compensates),
    )  # fmt: skip


def _bar(span: TraceSpan) -> Bar:
    return Bar(span.name, span.says, span.status, span.kind, span.began_at, span.ended_at)


def _mark(span: TraceSpan) -> Mark:
    return Mark(span.name, span.says, span.status, span.began_at)


def _late(span: TraceSpan, of: TraceSpan | None) -> tuple[Mark, int | None]:
    """The refused report of a former owner, and the generation of the attempt that it is about."""
    if of is None:
        return replace(_mark(span), is_refused=True), None
    generation = of.attributes["generation"]
    assert isinstance(generation, int), "each attempt has its owner's generation"
    return replace(_mark(span), is_refused=True, since=of.began_at), generation


def _tally(span: TraceSpan, inner: Iterable[TraceSpan]) -> Counter[str]:
    """The step itself, and what of it somebody has to see."""
    counts = Counter({f"compensation {span.says}" if span.kind == "compensation" else span.says: 1})
    for one in inner:
        if one.kind == "attempt" and one.status in EVENTFUL:
            counts[f"attempt {one.attributes['outcome']}" if one.status is Status.BADLY else "attempt unknown"] += 1
        elif one.kind == "late reply":
            counts["late reply refused"] += 1
    return counts


# -- those of the whole run -------------------------------------------------------------------------------------------


def _owners(history: History, spans: Iterable[TraceSpan], leases: Mapping[str, Lease]) -> Row | None:
    """A lane for each generation of which anything is recorded, from its first sign to its last."""
    signs: defaultdict[int, list[TraceSpan]] = defaultdict(list)
    for one in spans:
        generation = one.attributes.get("generation")
        if one.kind in ("attempt", "look-up", "late reply") and isinstance(generation, int):
            signs[generation].append(one)
    lanes = [_owner(number, found, history, leases) for number, found in sorted(signs.items())]
    if not lanes:
        return None
    bars = [bar for lane in lanes for bar in lane.bars]
    refused = sum(one.kind == "late reply" for found in signs.values() for one in found)
    return Row(
        "owners", "owners", f"{len(lanes)}", Status.WELL, min(bar.began_at for bar in bars),
        latest(bar.ended_at for bar in bars), tuple(lanes),
        Counter({"late reply refused": refused}) if refused else Counter(),
    )  # fmt: skip


def _owner(number: int, signs: Sequence[TraceSpan], history: History, leases: Mapping[str, Lease]) -> Lane:
    """One generation's lane. An attempt that ended only because others went on is a sign of its beginning alone."""
    run, done = history.run, [one for one in signs if one.kind != "late reply"]
    until = [one.began_at if one.status is Status.UNKNOWN or one.ended_at is None else one.ended_at for one in done]
    names = tuple(dict.fromkeys(str(one.attributes["lease"]) for one in done if one.attributes.get("lease")))
    is_here = number == run.generation and run.lease is not None and run.ended_at is None
    began = min(one.began_at for one in signs)
    ended = None if is_here else max(until, default=began)
    bar = Bar(f"generation {number}", "", Status.OPEN if is_here else Status.WELL, "owner", began, ended)
    lost = [leases[name].closed_at for name in names if name in leases and leases[name].state is LeaseState.EXPIRED]
    marks = [Mark("lease", "expired", Status.BADLY, at) for at in lost if at is not None and at >= began]
    marks += [replace(_mark(one), is_refused=True) for one in signs if one.kind == "late reply"]
    return Lane((number,), names, (bar,), tuple(marks))


def _persons(done: Sequence[TraceSpan], began: int) -> Row | None:
    """The verbs that persons used on the run as a whole, and since when one is asked; those on a step stand there."""
    if not done:
        return None
    marks = tuple(sorted(map(_mark, done), key=lambda mark: mark.at))
    tally = Counter(f"{one.name} {one.says.partition(',')[0]}" for one in done)
    return Row("persons", "persons", f"{len(done)}", Status.WELL, began, marks[-1].at, (Lane(marks=marks),), tally)


# -- few enough -------------------------------------------------------------------------------------------------------


def _small_enough(whole: Timeline, items: Sequence[list[Row]], steps_max: int) -> Timeline:
    """The timeline with all steps, folded until everything that is drawn is few enough."""
    groups = fold(items, steps_max, alike=alike, eventful=is_eventful)
    small = whole
    for room in (16, 8, 4, 2, 1):
        rows = [row for group in groups for row in folded(group, room)]
        owners, persons = (None if one is None else thinned(one, room) for one in (whole.owners, whole.persons))
        small = replace(whole, owners=owners, persons=persons, steps=tuple(rows))
        shapes = sum(len(lane.bars) + len(lane.marks) for row in small.rows for lane in row.lanes)
        if shapes <= SHAPES_MAX:
            break
    return small
