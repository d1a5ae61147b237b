"""A process that keeps the write lock of an SQLite file until its standard input closes: nobody else can write then.

    python -m tests.zombies.keeper ledger.db

It prints a line once it has the lock. It changes nothing; who is cut off by it is said by `faults`.
"""

import sqlite3
import sys


def keep(file: str) -> None:
    """Take the lock, say so, and give it back when told to end."""
    connection = sqlite3.connect(file, timeout=30, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    sys.stdout.write("kept\n")
    sys.stdout.flush()
    sys.stdin.read()
    connection.execute("ROLLBACK")
    connection.close()


if __name__ == "__main__":
    keep(sys.argv[1])
