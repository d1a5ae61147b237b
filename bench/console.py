"""Measures what the console reads for its front page and its search, beside a million runs on PostgreSQL.

    make bench-console                      a million runs; ARGS="--runs 100000" is quicker

The runs are copies of four that the engine has made: most have succeeded, some wait, some failed, and some are held for
an unknown effect; none is due or in a queue. Each reading, and each statement of it by itself, is timed in turn with a
bare look-up of one row by its index, on the same server in the same minute, and is given as a multiple of that. The
plans are those that the store's connections use. What the pages do with what is read is `fencepost.console`.
"""

import argparse
import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

from psycopg import sql

from bench import server
from bench.load import percentile
from bench.million import seen
from bench.place import Eye, Place
from bench.work import Order, Ticket, approval, create_ticket
from fencepost.console.page_front import read_front
from fencepost.console.page_runs import LOOKED_AT_MAX
from fencepost.effects.call import Call
from fencepost.effects.declare import effect
from fencepost.runtime.app import App
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from fencepost.store.api import Store
from fencepost.store.governing import RunSearch
from fencepost.store.open import open_store
from fencepost.store.postgres import PostgresStore
from fencepost.store.postgres_connection import PostgresConnection
from fencepost.store.postgres_open import connection_to
from fencepost.store.postgres_url import place_of
from fencepost.store.queries import Query, Row, in_schema

RUNS = 1_000_000
ROUNDS = 400
RATIO_MAX = 5
"""So many times a bare look-up may a reading take at its 99th percentile."""

LARGE = 10_000
"""A table of more rows may not be read as a whole, nor half of it."""

_PATTERNS_MAX = 1_000
"""The patterns are numbered below it, their copies above."""

_WARM_ROUNDS = 10
"""First of all, and not counted."""

_PATIENCE_SECONDS = 60.0
_LOOK_AGAIN_SECONDS = 0.01


@effect(on_unknown="hold", name="lose")
async def lose(call: Call) -> None:
    """Nobody knows what became of it."""
    raise ConnectionResetError(call.key)


@workflow(name="succeeds")
async def succeeds(run: Run) -> Ticket:
    """One effect."""
    return await run.do(create_ticket(Order(customer="anna", amount=1)))


@workflow(name="is-held")
async def is_held(run: Run) -> None:
    """Held for a person."""
    await run.do(lose())


@workflow(name="fails")
async def fails(run: Run) -> None:
    """Fails after one effect."""
    ticket = await run.do(create_ticket(Order(customer="anna", amount=2)))
    raise ValueError(f"no: {ticket.id}")


async def make_patterns(where: Place) -> None:
    """Have the engine make one run of each kind."""
    async with App(where.url, workflows=[succeeds, is_held, fails, approval]) as app, app.worker():
        for each in (succeeds, is_held, fails):
            await app.start(each, id=each.name)
        await app.start(approval, 1, id="waits")
        wanted = ("succeeded", "held", "failed", "waiting")
        await seen(lambda: all(where.runs_in(state) for state in wanted), every=_LOOK_AGAIN_SECONDS)


class _Copied(NamedTuple):
    """A table that is filled from the rows of the patterns: what must be each copy's own, and which rows are joined."""

    table: str
    own: dict[str, str]
    joined: str


# Of 200 runs 194 have succeeded.
_RUNS = _Copied(
    "run",
    {"no": f"{_PATTERNS_MAX} + number", "id": "pattern.id || '-' || number"},
    """generate_series(1, ?) AS number JOIN run AS pattern ON pattern.id = CASE
        WHEN mod(number, 50) = 0 THEN 'waits' WHEN mod(number, 200) = 1 THEN 'fails'
        WHEN mod(number, 200) = 2 THEN 'is-held' ELSE 'succeeds' END""",
)
_OF_COPIES = f"""run AS copy JOIN run AS kind ON kind.workflow = copy.workflow
    JOIN {{table}} AS pattern ON pattern.run = kind.no WHERE kind.no < {_PATTERNS_MAX} AND copy.no > {_PATTERNS_MAX}"""
_OPERATIONS = _Copied(
    "operation",
    {
        "no": "copy.no", "run": "copy.no", "key": "encode(sha256(copy.id::bytea), 'hex')",
        "reference": "pattern.reference || '-' || copy.no",
    },
    _OF_COPIES.format(table="operation"),
)  # fmt: skip
_STEPS = _Copied("step", {"no": "copy.no", "run": "copy.no"}, _OF_COPIES.format(table="step"))
_COLUMNS = """
    SELECT attname FROM pg_attribute WHERE attrelid = ?::regclass AND attnum > 0 AND NOT attisdropped
    AND attgenerated = ''
"""

_BARE = "SELECT no FROM fencepost.run WHERE namespace = $1 AND id = $2"
_ROWS_OF = (
    "SELECT relname, reltuples::bigint FROM pg_class WHERE relkind = 'r' AND relnamespace = $1::text::regnamespace"
)


def fill(eye: Eye, runs: int) -> None:
    """Copy the patterns, and let the server see how many runs there are."""
    eye.ask("SET session_replication_role = replica")  # what refers to what is right already
    _copy(eye, _RUNS, runs)
    eye.ask("ANALYZE run")
    _copy(eye, _OPERATIONS)
    _copy(eye, _STEPS)
    eye.ask("VACUUM ANALYZE")


def _copy(eye: Eye, copied: _Copied, *values: object) -> None:
    columns = [name for (name,) in eye.ask(_COLUMNS, copied.table)]
    taken = ", ".join(copied.own.get(name, f"pattern.{name}") for name in columns)
    into = f"{copied.table} ({', '.join(columns)}) OVERRIDING SYSTEM VALUE"
    eye.ask(f"INSERT INTO {into} SELECT {taken} FROM {copied.joined}", *values)  # noqa: S608 - our own names


class Reading(NamedTuple):
    """Something that a page reads."""

    name: str
    read: Callable[[Store], object]


def search(**wanted: Any) -> Callable[[Store], object]:
    """A search as the page of runs makes it."""
    return lambda store: store.search_runs(RunSearch("default", **wanted), LOOKED_AT_MAX)


READINGS = (
    Reading("front page", lambda store: read_front(store, "default")),
    Reading("runs", search()),
    Reading("runs that are held", search(state="held")),
    Reading("runs that wait", search(state="waiting")),
    Reading("runs of a workflow", search(workflow="fails")),
    Reading("by the beginning of the id", search(prefix="succeeds-9")),
    Reading("by step", search(state="held", step="lose")),
    Reading("by error", search(state="failed", error="no: ")),
    Reading("by key", search(key="0123456789abcdef")),
    Reading("by reference", search(reference="ticket-1-1003")),
    Reading("held for a reason that none has", search(state="held", held_for="unknown outcome")),
    Reading("retrying, while none is", search(retrying=True)),
    Reading("an error that none has", search(error="no such thing")),
)


@dataclass(frozen=True)
class _Noted(Query):
    """A statement that notes with which values it was asked for."""

    asked: list[tuple[Query, Row]]

    def bind(self, /, **values: Any) -> Row:
        row = super().bind(**values)
        self.asked.append((self, row))
        return row


def statements_of(store: PostgresStore, reading: Reading) -> list[tuple[Query, Row]]:
    """What a reading asks the server for, in order."""
    asked: list[tuple[Query, Row]] = []
    noted = {
        name: _Noted(*(getattr(query, field.name) for field in fields(Query)), asked=asked)
        for name, query in store.queries.items()
    }
    with patch.object(store, "queries", noted):
        reading.read(store)
    return asked


class Scan(NamedTuple):
    """What a plan reads of one table: by which index, and how many rows it takes into its hand."""

    table: str
    by: str
    rows: int

    def __str__(self) -> str:
        return f"{self.by} ({self.rows:,})"


def plan_of(connection: PostgresConnection, query: Query, values: Row) -> list[Scan]:
    """The plan for any values, as the store's connections keep it, run with these."""
    connection.execute(f"PREPARE shown AS {query.statement}")
    given = sql.SQL("({})").format(sql.SQL(", ").join(map(sql.Literal, values))).as_string() if values else ""
    answer = connection.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) EXECUTE shown {given}")[0][0]
    connection.execute("DEALLOCATE shown")
    return list(_scans(json.loads(answer)[0]["Plan"]))


def _scans(node: dict[str, Any]) -> Iterator[Scan]:
    if "Relation Name" in node or node["Node Type"] == "Bitmap Index Scan":
        dropped = node.get("Rows Removed by Filter", 0) + node.get("Rows Removed by Index Recheck", 0)
        table = node.get("Relation Name", "")
        by = node.get("Index Name") or f"{node['Node Type']} of {table}"
        yield Scan(table, by, round((node["Actual Rows"] + dropped) * node["Actual Loops"]))
    for inner in node.get("Plans", ()):
        yield from _scans(inner)


class Figures(NamedTuple):
    """What something took, in milliseconds, and what the bare look-ups beside it did."""

    p50: float
    p99: float
    bare_p50: float
    bare_p99: float

    @property
    def times(self) -> float:
        """The multiple at the 99th percentile, which is judged."""
        return self.p99 / self.bare_p99

    @property
    def is_missed(self) -> bool:
        """Whether it took too long."""
        return self.times > RATIO_MAX

    def __str__(self) -> str:
        missed = " missed" if self.is_missed else ""
        return f"{self.p50:8.2f}{self.p99:8.2f}{self.p50 / self.bare_p50:8.1f}{self.times:8.1f}{missed:7}"


def timed(work: Callable[[], object]) -> float:
    """Milliseconds that it takes."""
    begun = time.perf_counter()
    work()
    return (time.perf_counter() - begun) * 1e3


def measure(works: Sequence[Callable[[], object]], bare: Callable[[int], object], rounds: int) -> list[Figures]:
    """Each of the works with a bare look-up behind it, in turn; each stands beside all of those together."""
    took: list[list[float]] = [[] for _ in works]
    beside: list[float] = []
    for number in range(_WARM_ROUNDS + rounds):
        for work, mine in zip(works, took, strict=True):
            mine.append(timed(work))
            beside.append(timed(lambda: bare(number)))  # noqa: B023 - called at once
    theirs = _percentiles(beside[_WARM_ROUNDS * len(works) :])
    return [Figures(*_percentiles(mine[_WARM_ROUNDS:]), *theirs) for mine in took]


def _percentiles(values: list[float]) -> tuple[float, float]:
    return percentile(values, 0.5), percentile(values, 0.99)


class Bench:
    """One filled ledger, through whose store and whose bare connection is read."""

    def __init__(self, where: Place, store: PostgresStore, connection: PostgresConnection, rounds: int) -> None:
        self._store = store
        self._connection = connection
        self._rounds = rounds
        self._bare = in_schema(_BARE, where.name)
        self._large = {
            name: int(rows) for name, rows in connection.execute(_ROWS_OF, (where.name,)) if int(rows) > LARGE
        }
        self.faults: list[str] = []

    def show(self, reading: Reading) -> None:
        """Print what a reading takes, and what each of its statements does by itself, with its plan."""
        statements = statements_of(self._store, reading)
        works: list[Callable[[], object]] = [
            lambda: reading.read(self._store),
            *(lambda asked=asked: self._connection.execute(asked[0].statement, asked[1]) for asked in statements),
        ]
        whole, *parts = measure(works, self._look_up, self._rounds)
        print(
            f"{reading.name:34}{whole}  a bare look-up: p50 {whole.bare_p50:.2f}, p99 {whole.bare_p99:.2f}", flush=True
        )
        if whole.is_missed:
            self.faults.append(f"{reading.name} takes {whole.times:.1f} times a bare look-up")
        for (query, values), figures in zip(statements, parts, strict=True):
            scans = plan_of(self._connection, query, values)
            print(f"    {query.name:30}{figures}  {', '.join(map(str, scans)) or 'no table'}")
            self.faults += [f"{query.name} scans {scan}, {reading.name}" for scan in scans if self._is_whole(scan)]

    def _look_up(self, number: int) -> None:
        self._connection.execute(self._bare, ("default", f"succeeds-{number * 20 + 3}"))

    def _is_whole(self, scan: Scan) -> bool:
        size = self._large.get(scan.table)
        return size is not None and ("Seq Scan" in scan.by or scan.rows > size / 2)


def report(where: Place, rounds: int) -> list[str]:
    """Print the table; what is at fault."""
    store = open_store(where.url)
    assert isinstance(store, PostgresStore), "a server's"
    with closing(store), closing(connection_to(place_of(where.url), _PATIENCE_SECONDS, prepares=True)) as connection:
        bench = Bench(where, store, connection, rounds)
        print(f"\n{'':34}{'p50 ms':>8}{'p99 ms':>8}{'x p50':>8}{'x p99':>8}{'':7}  read by (rows)")
        for reading in READINGS:
            bench.show(reading)
    return bench.faults


def main() -> int:
    """Fill a ledger, measure, and judge."""
    parser = argparse.ArgumentParser(
        prog="bench.console", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=RUNS, help="how many (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="how often each is read (default: %(default)s)")
    asked = parser.parse_args()
    with server.running() as running, running.database() as url, tempfile.TemporaryDirectory() as folder:
        where = Place("ledger", Path(folder), url)
        asyncio.run(make_patterns(where))
        with where.seen() as eye:
            seconds = timed(lambda: fill(eye, asked.runs)) / 1e3
        print(f"{running.says()}\n{asked.runs:,} runs, made in {seconds:.0f} s; {asked.rounds} rounds")
        faults = report(where, asked.rounds)
    print()
    print(
        "\n".join(faults) or f"no reading takes more than {RATIO_MAX} times a bare look-up, and no plan a whole table"
    )
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
