"""Plays the compensation matrix and prints it; the exit code is 0 only if every square is right.

    python -m tests.compensation [--db URL]

Without a URL it is played on a file that is thrown away.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from pathlib import Path

from tests.compensation.cells import CELLS
from tests.compensation.matrix import failures, lines
from tests.compensation.play import play


def main() -> int:
    """Play, print, judge."""
    parser = argparse.ArgumentParser(prog="tests.compensation", description="Play the compensation matrix.")
    parser.add_argument("--db", metavar="URL", help="the ledger, which must not exist")
    told = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fencepost-compensation-") as folder:
        came, contradictions = asyncio.run(play(told.db or f"sqlite:///{Path(folder) / 'ledger.db'}", CELLS))
    said = [*lines(came), *(f"WRONG: the ledger contradicts itself: {one}" for one in contradictions)]
    said.append(f"took {time.monotonic() - began:.0f} s")
    sys.stdout.writelines(f"{line}\n" for line in said)
    return 1 if failures(came) or contradictions else 0


if __name__ == "__main__":
    sys.exit(main())
