"""Turns the lines of the benchmark on PostgreSQL into one plain table, each aim beside its figure.

The fastest peer is found at each concurrency by its median; a ratio to it is taken inside each round, as all ratios
are. What is missing prints as "-". Medians, ratios and columns are `table`'s; the pictures are drawn by `plots`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from types import MappingProxyType
from typing import NamedTuple

from bench.modes import CONCURRENCIES, HISTORIES, MODES, Line
from bench.table import (
    CEILING,
    INSERT,
    MISSING,
    SUBJECT,
    WRITES,
    Figures,
    Heading,
    Row,
    Source,
    aimed,
    aligned,
    cell,
    introduction,
    latencies,
    rates,
)

PEERS = tuple(Source(peer, peer, "ten") for peer in ("dbos", "absurd", "restate", "temporal", "langgraph"))
EVERYONE = ("fencepost", *(source.peer for source in PEERS))

FASTEST_AIMS = {1: 4.0, 100: 10.0}
"""At least so many times the fastest peer's steps, by concurrency."""


class Wanted(NamedTuple):
    """A row with a column for each contestant."""

    label: str
    mode: str
    field: str
    form: str
    where: Mapping[str, int] = MappingProxyType({})
    """Which of the mode's lines."""
    aim: str = ""
    """What Fencepost should reach."""


_ALONE, _HUNDRED = {"concurrency": 1}, {"concurrency": 100}
ONCE = (
    Wanted("queue: enqueued, runs/s", "queue", "enqueue_per_s", "{:,.0f}"),
    Wanted("queue: drained by 1 process, steps/s", "queue", "steps_per_s", "{:,.0f}"),
    Wanted("5 ms bodies, 1 process, steps/s", "processes", "steps_per_s", "{:,.0f}", {"processes": 1}),
    Wanted("5 ms bodies, 2 processes, steps/s", "processes", "steps_per_s", "{:,.0f}", {"processes": 2}),
    Wanted("signal to wake, p50 ms", "wake", "p50_ms", "{:.1f}", aim="under restate's"),
    Wanted("signal to wake, p99 ms", "wake", "p99_ms", "{:.1f}"),
    Wanted("alone: statements a step", "cost", "statements", "{:.2f}", _ALONE),
    Wanted("alone: commits a step", "cost", "commits", "{:.2f}", _ALONE, "1, and one or two a run"),
    Wanted("alone: round trips a step", "cost", "round_trips", "{:.2f}", _ALONE, "2"),
    Wanted("alone: WAL syncs a step", "cost", "wal_syncs", "{:.2f}", _ALONE),
    Wanted("alone: WAL bytes a step", "cost", "wal_bytes", "{:,.0f}", _ALONE),
    Wanted("alone: table bytes a step", "cost", "table_bytes", "{:,.0f}", _ALONE),
    Wanted("100 at a time: commits a step", "cost", "commits", "{:.3f}", _HUNDRED),
    Wanted("100 at a time: round trips a step", "cost", "round_trips", "{:.3f}", _HUNDRED),
    Wanted("100 at a time: WAL bytes a step", "cost", "wal_bytes", "{:,.0f}", _HUNDRED),
    Wanted("idle worker, % of a core", "idle", "cpu_percent", "{:.2f}", aim="under 0.3"),
    Wanted("idle worker, statements/s", "idle", "statements_per_s", "{:.2f}", aim="at most 1"),
    Wanted("import, ms", "import", "import_ms", "{:,.0f}", aim="under 300"),
    Wanted("import, peak RSS MiB", "import", "rss_mib", "{:.0f}", aim="under 45"),
)

ALONE = (
    ("recovery of in-flight runs after SIGKILL", "recovery", (("runs", "{:,.0f} runs"), ("seconds", "{:.2f} s"),
     ("lease_seconds", "of which lease {:.2f} s"))),
    ("beside waiting runs", "million", (("runs", "{:,.0f} runs"), ("worker_mib", "worker {:.0f} MiB"),
     ("grown_mib", "grown by {:.1f} MiB"), ("claim_p50_ms", "claim p50 {:.1f} ms"),
     ("claim_p99_ms", "p99 {:.1f} ms"), ("wake_p50_ms", "wake p50 {:.1f} ms"),
     ("idle_cpu_percent", "idle {:.2f} % of a core"))),
)  # fmt: skip
"""What only Fencepost is asked for."""


def render(heading: Heading, lines: Iterable[Line]) -> Iterator[str]:
    """The report, line by line."""
    figures = Figures(lines)
    yield from introduction(heading, figures, PEERS)
    at = [str(concurrency) for concurrency in CONCURRENCIES]
    everyone = (SUBJECT, *PEERS)
    speed = (rates(figures, source) for source in (*everyone, CEILING, WRITES, INSERT))
    waits = (latencies(figures, source) for source in everyone)
    yield from aligned(
        [
            ["10-step runs, steps/s at concurrency", *at],
            *speed,
            [],
            ["ratios (median of the rounds)", *at],
            *_ratios(figures),
            [],
            ["a run's latency, p50 / p99 ms", *at],
            *waits,
        ]
    )
    yield ""
    yield from aligned([["", *EVERYONE, "aim"], *(_once(figures, row) for row in ONCE), *_histories(figures)])
    yield ""
    yield from chain.from_iterable(_alone(figures, *row) for row in ALONE)


def fastest(figures: Figures, concurrency: int) -> Source | None:
    """The peer with the most steps a second at this concurrency."""
    speeds = {source: figures.middle(source, "steps_per_s", concurrency=concurrency) for source in PEERS}
    known = {source: speed for source, speed in speeds.items() if speed is not None}
    return max(known, key=lambda source: known[source]) if known else None


def _ratios(figures: Figures) -> Iterator[Row]:
    for peer in PEERS:
        ratios = (figures.ratio(SUBJECT, peer, concurrency) for concurrency in CONCURRENCIES)
        yield [f"  fencepost / {peer.label}", *(cell(ratio, "{:.1f}x") for ratio in ratios)]
    best = []
    for concurrency in CONCURRENCIES:
        peer_or_none = fastest(figures, concurrency)
        ratio = None if peer_or_none is None else figures.ratio(SUBJECT, peer_or_none, concurrency)
        name = "" if peer_or_none is None else f"{peer_or_none.label} "
        best.append(name + aimed(ratio, "{:.1f}x", FASTEST_AIMS.get(concurrency)))
    yield ["  fencepost / the fastest", *best]
    for over, under, label in (
        (SUBJECT, CEILING, "fencepost / ceiling"),
        (CEILING, WRITES, "ceiling / plain inserts and updates"),
        (CEILING, INSERT, "ceiling / plain inserts"),
    ):
        shares = (figures.ratio(over, under, concurrency) for concurrency in CONCURRENCIES)
        yield [f"  {label}", *(cell(share, "{:.0%}") for share in shares)]


def _once(figures: Figures, row: Wanted) -> Row:
    cells = []
    for peer in EVERYONE:
        value = figures.middle(Source(peer, peer, row.mode), row.field, **row.where)
        # A server that does not count statements says -1.
        cells.append(cell(value if value is None or value >= 0 else None, row.form))
    return [f"  {row.label}", *cells, row.aim]


def _histories(figures: Figures) -> Iterator[Row]:
    assert "ms_per_step" in MODES["history"].fields
    for history in HISTORIES:
        cells = (figures.middle(Source(peer, peer, "history"), "ms_per_step", history=history) for peer in EVERYONE)
        yield [f"  ms a step in a run of {history:,} steps", *(cell(value, "{:.2f}") for value in cells), ""]


def _alone(figures: Figures, label: str, mode: str, parts: Sequence[tuple[str, str]]) -> Iterator[str]:
    values = [(figures.middle(Source("", "fencepost", mode), field), form) for field, form in parts]
    said = ", ".join(form.format(value) for value, form in values if value is not None)
    yield f"fencepost, {label}: {said or MISSING}"
