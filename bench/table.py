"""Turns the lines of all rounds into medians, ratios and one plain table; what is missing prints as "-".

A ratio is taken inside each round, where both sides had the same machine, and its median is shown. It judges nothing:
an aim stands beside the ratio, and the reader compares.
"""

from collections.abc import Iterable, Iterator, Sequence
from statistics import median
from typing import NamedTuple

from bench.modes import CONCURRENCIES, HISTORIES, MODES, Line

_GAP = "  "
MISSING = "-"


class Heading(NamedTuple):
    """The place and the plan."""

    mode: str
    rounds: int
    rounds_planned: int
    seconds: float
    python: str
    database: str
    system: str
    cores: int
    file_system: str


class Source(NamedTuple):
    """Where a row of figures comes from."""

    label: str
    peer: str
    mode: str


SUBJECT = Source("fencepost", "fencepost", "ten")
CEILING = Source("ceiling (its rows, bare journal)", "fencepost", "ceiling")
WRITES = Source("plain SQL, same inserts and updates", "floor", "writes")
INSERT = Source("plain SQL, same inserts only", "floor", "insert")
PEERS = tuple(Source(peer, peer, "ten") for peer in ("dbos", "dbos-wal", "langgraph"))
_DEFAULT_PEERS = ("dbos", "langgraph")

AIMS = {("dbos", 1): 5.0, ("dbos", 100): 40.0, ("langgraph", 1): 3.0, ("langgraph", 100): 20.0}
"""At least so many times a peer's steps, by peer and concurrency."""

CEILING_AIM = 0.30
"""At least this share of the ceiling at 100 concurrent runs."""

JOURNAL_AIM = 0.50
"""At least this share of plain batched inserts for the ceiling itself."""


class Figures:
    """The lines of one benchmark, to be asked for medians."""

    def __init__(self, lines: Iterable[Line]) -> None:
        self._lines = list(lines)

    def values(self, source: Source, field: str, **where: float) -> dict[int, float]:
        """One value for each round: the median, where a round has several."""
        found: dict[int, list[float]] = {}
        for line in self._lines:
            same = line["peer"] == source.peer and line["mode"] == source.mode
            if same and field in line and all(line.get(name) == value for name, value in where.items()):
                found.setdefault(int(line["round"]), []).append(float(line[field]))
        return {number: median(values) for number, values in found.items()}

    def middle(self, source: Source, field: str, **where: float) -> float | None:
        """The median of the rounds, or None if there is none."""
        values = self.values(source, field, **where).values()
        return median(values) if values else None

    def ratio(self, over: Source, under: Source, concurrency: int) -> float | None:
        """The median of steps/s over steps/s, each taken inside a round that has both."""
        above = self.values(over, "steps_per_s", concurrency=concurrency)
        below = self.values(under, "steps_per_s", concurrency=concurrency)
        ratios = [above[number] / below[number] for number in above.keys() & below.keys() if below[number]]
        return median(ratios) if ratios else None

    def has(self, peer: str) -> bool:
        """Whether this peer has any line."""
        return any(line["peer"] == peer for line in self._lines)

    def about(self, peer: str) -> Line | None:
        """What the peer says of itself, from its last line."""
        said = [line for line in self._lines if line["peer"] == peer and line["mode"] == "about"]
        return said[-1] if said else None


Row = Sequence[str]


def render(heading: Heading, lines: Iterable[Line]) -> Iterator[str]:
    """The report, line by line."""
    figures = Figures(lines)
    peers = [source for source in PEERS if source.peer in _DEFAULT_PEERS or figures.has(source.peer)]
    yield from introduction(heading, figures, peers)
    at = [str(concurrency) for concurrency in CONCURRENCIES]
    speed = [
        ["10-step runs, steps/s at concurrency", *at],
        *(rates(figures, source) for source in (SUBJECT, *peers, CEILING, WRITES, INSERT)),
    ]
    ratios = [["ratios (median of the rounds)", *at], *_ratios(figures, peers)]
    waits = [["a run's latency, p50 / p99 ms", *at], *(latencies(figures, source) for source in (SUBJECT, *peers))]
    yield from aligned([*speed, [], *ratios, [], *waits])
    yield ""
    histories = ["ms a step in a run of N steps", *(str(history) for history in HISTORIES)]
    yield from aligned([histories, *(_history(figures, source.peer) for source in (SUBJECT, *_defaults(peers)))])
    yield ""
    once = ["", "import ms", "modules", "peak RSS MiB", "idle % of a core", "MiB / 10,000 waiting", "recovery s"]
    yield from aligned([once, *(_once(figures, source.peer) for source in (SUBJECT, *_defaults(peers)))])


def _defaults(peers: Iterable[Source]) -> list[Source]:
    return [source for source in peers if source.peer in _DEFAULT_PEERS]


def introduction(heading: Heading, figures: Figures, peers: Iterable[Source]) -> Iterator[str]:
    """The place, the plan, what the machine gave meanwhile, and what was measured."""
    short = "" if heading.rounds == heading.rounds_planned else f" of {heading.rounds_planned} (the time was up)"
    yield f"Fencepost bench, {heading.mode}: {heading.rounds} interleaved rounds{short}, {heading.seconds:g} s a figure"
    yield (
        f"Python {heading.python}, {heading.database}, {heading.cores} cores, {heading.system}, "
        f"files on {heading.file_system}"
    )
    if heading.file_system == "tmpfs":
        yield "These files are in memory: a sync costs nothing here, and every figure is too good (--state FOLDER)."
    machine = Source("", "floor", "machine")
    yield (
        f"fdatasync {spread(figures, machine, 'fdatasync_per_s', '{:,.0f}')} /s, "
        f"empty Python loop {spread(figures, machine, 'loop_million_per_s', '{:.0f}')} million turns/s"
    )
    for source in (SUBJECT, *peers):
        said = figures.about(source.peer)
        if said is not None:
            note = f"; {said['note']}" if "note" in said else ""
            yield f"{source.peer}: {said['version']}, {said['settings']}{note}"
    yield ""


def spread(figures: Figures, source: Source, field: str, form: str) -> str:
    """The median, and how far the rounds lie apart."""
    values = figures.values(source, field).values()
    if not values:
        return MISSING
    return f"{form.format(median(values))} ({form.format(min(values))}-{form.format(max(values))})"


def rates(figures: Figures, source: Source) -> Row:
    """Steps a second at each concurrency."""
    cells = (figures.middle(source, "steps_per_s", concurrency=concurrency) for concurrency in CONCURRENCIES)
    return [f"  {source.label}", *(cell(value, "{:,.0f}") for value in cells)]


def _ratios(figures: Figures, peers: Iterable[Source]) -> Iterator[Row]:
    for peer in peers:
        yield [
            f"  fencepost / {peer.label}",
            *(
                aimed(figures.ratio(SUBJECT, peer, concurrency), "{:.1f}x", AIMS.get((peer.peer, concurrency)))
                for concurrency in CONCURRENCIES
            ),
        ]
    for over, under, label, aim in (
        (SUBJECT, CEILING, "fencepost / ceiling", {100: CEILING_AIM}),
        (CEILING, INSERT, "ceiling / plain inserts", dict.fromkeys(CONCURRENCIES, JOURNAL_AIM)),
        (CEILING, WRITES, "ceiling / plain inserts and updates", {}),
    ):
        values = [(figures.ratio(over, under, concurrency), aim.get(concurrency)) for concurrency in CONCURRENCIES]
        yield [f"  {label}", *(aimed(value, "{:.0%}", wanted) for value, wanted in values)]


def latencies(figures: Figures, source: Source) -> Row:
    """A run's p50 and p99 at each concurrency."""
    cells = []
    for concurrency in CONCURRENCIES:
        p50, p99 = (figures.middle(source, field, concurrency=concurrency) for field in ("p50_ms", "p99_ms"))
        cells.append(MISSING if p50 is None else f"{p50:,.1f} / {p99:,.1f}")
    return [f"  {source.label}", *cells]


def _history(figures: Figures, peer: str) -> Row:
    source = Source(peer, peer, "history")
    cells = (figures.middle(source, "ms_per_step", history=history) for history in HISTORIES)
    return [f"  {peer}", *(cell(value, "{:.3f}") for value in cells)]


def _once(figures: Figures, peer: str) -> Row:
    wanted = (
        ("import", "import_ms", "{:,.0f}"),
        ("import", "modules", "{:,.0f}"),
        ("import", "rss_mib", "{:.0f}"),
        ("idle", "cpu_percent", "{:.2f}"),
        ("waiting", "mib_per_10000", "{:,.1f}"),
        ("recovery", "seconds", "{:.2f}"),
    )
    assert all(field in MODES[mode].fields for mode, field, _ in wanted)
    return [
        f"  {peer}",
        *(cell(figures.middle(Source(peer, peer, mode), field), form) for mode, field, form in wanted),
    ]


def cell(value: float | None, form: str) -> str:
    """A figure, or a dash."""
    return MISSING if value is None else form.format(value)


def aimed(value: float | None, form: str, aim: float | None) -> str:
    """A figure beside its aim, where it has one."""
    said = cell(value, form)
    return said if aim is None else f"{said} (aim {form.format(aim).replace('.0x', 'x')})"


def aligned(rows: Sequence[Row]) -> Iterator[str]:
    """The first column flush left, the others flush right, each as wide as its widest cell."""
    columns = max(len(row) for row in rows)
    widths = [max((len(row[n]) for row in rows if len(row) > n), default=0) for n in range(columns)]
    for row in rows:
        first, *others = row or [""]
        cells = [first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(others, widths[1:], strict=False))]
        yield _GAP.join(cells).rstrip()
