"""Measures what plain SQL can write into PostgreSQL: rows of steps, as many a commit as the concurrency says.

One connection, one statement a table with an array a column, and everything from BEGIN to COMMIT in one round trip:
the journal's own way of sending, without its guards and answers. The shape of the rows is `shape`'s; SQLite's floor and
the machine's speed are `floor`.
"""

import time
from collections.abc import Sequence

import psycopg

from bench.floor import PEER, Keys, Row, Writer, steps_of_runs, writer
from bench.modes import CONCURRENCIES, emit, parser, request
from bench.shape import KEY, STEP, Table


def create(connection: "psycopg.Connection[tuple[object, ...]]", table: Table) -> None:
    """Makes the table anew, keyed as a ledger's tables are."""
    texts = "".join(f", text_{number} text NOT NULL" for number in range(table.columns - len(KEY) - 1))
    token = "text NOT NULL UNIQUE" if table.unique else "text NOT NULL"
    keys = ", ".join(f"{name} bigint NOT NULL" for name in KEY)
    connection.execute(f"DROP TABLE IF EXISTS {table.name}".encode())
    made = f"CREATE TABLE {table.name} ({keys}, token {token}{texts}, PRIMARY KEY ({', '.join(KEY)}))"
    connection.execute(f"{made} WITH (fillfactor = 60)".encode())


def arrays(rows: Sequence[Row]) -> list[str]:
    """Each column as an array that PostgreSQL reads; the shape's values need no quotes."""
    return ["{" + ",".join(map(str, column)) + "}" for column in zip(*rows, strict=True)]


def statements(table: Table) -> tuple[bytes, bytes]:
    """The insert and the update, each for any number of rows."""
    texts = table.columns - len(KEY) - 1
    columns = ", ".join([*["%s::bigint[]"] * len(KEY), *["%s::text[]"] * (texts + 1)])
    insert = f"INSERT INTO {table.name} SELECT * FROM unnest({columns})"  # noqa: S608 - the shape's names are plain
    same = " AND ".join(f"{table.name}.{name} = new.{name}" for name in KEY)
    changed = "unnest(%s::text[], %s::text[], %s::bigint[], %s::bigint[], %s::bigint[])"
    update = (
        f"UPDATE {table.name} SET text_0 = new.first, text_{texts - 1} = new.last "  # noqa: S608 - as above
        f"FROM {changed} AS new (first, last, {', '.join(KEY)}) WHERE {same}"
    )
    return insert.encode(), update.encode()


def write(url: str, concurrency: int, seconds: float, *, updates: bool) -> None:
    """Writes for a while and prints the line. With updates, each commit also ends the steps of the one before it."""
    writers = [(writer(table), *statements(table)) for table in STEP]
    with psycopg.connect(url, autocommit=True, prepare_threshold=0) as connection:
        for table in STEP:
            create(connection, table)
        connection.execute(b"SET enable_seqscan = off")  # the tables are small when the statements are planned
        commits, passed, before = 0, 0.0, Keys()
        begun = time.perf_counter()
        for keys in steps_of_runs(concurrency):
            _commit(connection, writers, keys, before if updates else [])
            commits, before = commits + 1, keys
            if (passed := time.perf_counter() - begun) >= seconds:
                break
    rows = sum(table.rows + (table.updates if updates else 0) for table in STEP)
    steps = commits * concurrency
    emit(
        PEER,
        "writes" if updates else "insert",
        concurrency=concurrency,
        steps_per_s=steps / passed,
        rows_per_s=steps * rows / passed,
        commits_per_s=commits / passed,
    )


def _commit(
    connection: "psycopg.Connection[tuple[object, ...]]",
    writers: Sequence[tuple[Writer, bytes, bytes]],
    begun: Keys,
    ended: Keys,
) -> None:
    with connection.pipeline(), connection.transaction():
        for each, insert, update in writers:
            if ended:
                connection.execute(update, arrays(each.updated(ended)))
            connection.execute(insert, arrays(each.inserted(begun)))


def main() -> None:
    """Prints the lines of the mode that the command line names."""
    asked = request(parser("floor_postgres", ("insert", "writes")))
    assert asked.server is not None, "a database is what this measures"
    for concurrency in CONCURRENCIES:
        write(asked.server, concurrency, asked.seconds, updates=asked.mode == "writes")


if __name__ == "__main__":
    main()
