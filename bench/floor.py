"""Measures what nobody can beat: plain SQL that writes a step's rows, syncs of the disk, an empty Python loop.

Rows go into SQLite in WAL mode with synchronous=FULL, read back, and one transaction holds as many steps as the
concurrency says. It knows Fencepost's rows only by their shape (`shape`); the journal's own rate, which also
answers each step, is the ceiling that `subject` measures.
"""

import argparse
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import NamedTuple

from bench.modes import CONCURRENCIES, STEPS, emit, parser, request
from bench.shape import KEY, STEP, Table, read

PEER = "floor"
_PAGE = 4096
_FILE_PAGES = 4096
_LOOP_TURNS = 2_000_000
_DIGESTS = 2**256
_SPREAD = 0x9E3779B97F4A7C15F39CC0605CEDC8341082276BF3A27251F86C6A11D0C18E95
"""2**256 over the golden ratio: its multiples are far from each other, and none comes twice."""

Keys = list[tuple[int, int]]
Row = tuple[int | str, ...]


class Writer(NamedTuple):
    """The statements for one table and the TEXT that fills a row."""

    table: Table
    insert: str
    update: str
    filling: tuple[str, ...]

    def inserted(self, keys: Keys) -> list[Row]:
        """The parameters for the rows of as many steps as there are keys (run, step)."""
        numbers, token = range(self.table.rows), _digest if self.table.unique else _short
        return [(run, step, n, token(run, step, n), *self.filling) for run, step in keys for n in numbers]

    def updated(self, keys: Keys) -> list[Row]:
        """The parameters for the updates that those steps make."""
        numbers = range(self.table.updates)
        return [("succeeded", self.filling[0], run, step, n) for run, step in keys for n in numbers]


def _short(run: int, step: int, number: int) -> str:
    return f"{run}.{step}.{number}"


def _digest(run: int, step: int, number: int) -> str:
    """As long and as scattered as a digest, at the cost of a multiplication: an index pays for being hit anywhere."""
    return f"{((run * STEPS + step) * _SPREAD + number) % _DIGESTS:064x}"


def writer(table: Table) -> Writer:
    """The statements; `shape.read` has seen to it that the name is a plain one."""
    texts = table.columns - len(KEY) - 1
    marks = ", ".join("?" * table.columns)
    where = " AND ".join(f"{name} = ?" for name in KEY)
    return Writer(
        table,
        f"INSERT INTO {table.name} VALUES ({marks})",  # noqa: S608 - the shape decides the width, and only here
        f"UPDATE {table.name} SET text_0 = ?, text_{texts - 1} = ? WHERE {where}",  # noqa: S608 - as above
        ("x" * (table.size // texts),) * texts,
    )


def create(connection: sqlite3.Connection, table: Table) -> None:
    """Makes the table, keyed as a ledger's tables are."""
    texts = "".join(f", text_{number} TEXT NOT NULL" for number in range(table.columns - len(KEY) - 1))
    token = "TEXT NOT NULL UNIQUE" if table.unique else "TEXT NOT NULL"
    keys = ", ".join(f"{name} INTEGER NOT NULL" for name in KEY)
    columns = f"{keys}, token {token}{texts}, PRIMARY KEY ({', '.join(KEY)})"
    options = "STRICT" if table.rowid else "STRICT, WITHOUT ROWID"
    connection.execute(f"CREATE TABLE {table.name} ({columns}) {options}")


def opened(path: Path, shape: tuple[Table, ...]) -> sqlite3.Connection:
    """A new database with the tables of the shape, set as durable as Fencepost's own and read back."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",), "this disk gives no WAL"
    assert connection.execute("PRAGMA synchronous").fetchone() == (2,)
    for table in shape:
        create(connection, table)
    return connection


def steps_of_runs(concurrency: int) -> Iterator[Keys]:
    """Endless batches of one step each of as many runs side by side; after ten steps other runs follow."""
    for batch in count():
        first, step = batch // STEPS * concurrency, batch % STEPS
        yield [(run, step) for run in range(first, first + concurrency)]


def write(path: Path, shape: tuple[Table, ...], concurrency: int, seconds: float, *, updates: bool) -> None:
    """Writes for a while and prints the line. With updates, each commit also ends the steps of the one before it."""
    writers = [writer(table) for table in shape]
    commits, passed, before = 0, 0.0, Keys()
    with closing(opened(path, shape)) as connection:
        begun = time.perf_counter()
        for keys in steps_of_runs(concurrency):
            connection.execute("BEGIN IMMEDIATE")
            for each in writers if updates else ():
                connection.executemany(each.update, each.updated(before))
            for each in writers:
                connection.executemany(each.insert, each.inserted(keys))
            connection.execute("COMMIT")
            commits, before = commits + 1, keys
            if (passed := time.perf_counter() - begun) >= seconds:
                break
    rows = sum(table.rows + (table.updates if updates else 0) for table in shape)
    steps = commits * concurrency
    emit(
        PEER,
        "writes" if updates else "insert",
        concurrency=concurrency,
        steps_per_s=steps / passed,
        rows_per_s=steps * rows / passed,
        commits_per_s=commits / passed,
    )


def syncs(path: Path, seconds: float) -> float:
    """Pages written in place and made durable one by one, per second. Without fdatasync (macOS) it is fsync."""
    sync = getattr(os, "fdatasync", os.fsync)
    with path.open("wb") as file:
        # Laid out beforehand: a growing file would also sync its length.
        file.write(bytes(_PAGE * _FILE_PAGES))
        file.flush()
        os.fsync(file.fileno())
        begun = time.perf_counter()
        for done in count(1):
            os.pwrite(file.fileno(), b"y" * _PAGE, done % _FILE_PAGES * _PAGE)
            sync(file.fileno())
            if (passed := time.perf_counter() - begun) >= seconds:
                return done / passed
    raise AssertionError("the loop above has no other end")


def loop_speed() -> float:
    """Turns of an empty Python loop, in millions per second: how much of one core is ours at this moment."""
    begun, turn = time.perf_counter(), 0
    while turn < _LOOP_TURNS:
        turn += 1
    return turn / 1e6 / (time.perf_counter() - begun)


def main() -> None:
    """Prints the lines of the mode that the command line names."""
    command = parser("floor", ("insert", "writes", "machine"))
    command.add_argument("--shape", type=_shape, default=STEP, help="JSON list of tables, see bench/shape.py")
    asked = request(command)
    if asked.mode == "machine":
        emit(
            PEER,
            "machine",
            fdatasync_per_s=syncs(asked.state / "pages", asked.seconds),
            loop_million_per_s=loop_speed(),
        )
        return
    for concurrency in CONCURRENCIES:
        path = asked.state / f"{concurrency}.sqlite"
        write(path, asked.rest.shape, concurrency, asked.seconds, updates=asked.mode == "writes")


def _shape(text: str) -> tuple[Table, ...]:
    try:
        return read(text)
    except ValueError as problem:
        raise argparse.ArgumentTypeError(str(problem)) from None


if __name__ == "__main__":
    main()
