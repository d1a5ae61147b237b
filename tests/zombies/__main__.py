"""Plays the zombie matrix and prints it; the exit code is 0 only if it holds.

    python -m tests.zombies [--fault NAME ...] [--folder FOLDER]

A fault's victim is one process with all cells in it. Faults are played side by side, since most of their time is
waiting for leases and spans. What is played and counted is in `faults` and `verdict`.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.zombies.accounts import Accounts
from tests.zombies.faults import FAULTS, Fault
from tests.zombies.matrix import LEGEND, Matrix, rests_on
from tests.zombies.play import Play
from tests.zombies.verdict import Verdict, verdicts

SIDE_BY_SIDE = 2
"""Plays at a time: on two cores, more would only make leases run out for want of a processor."""

CONTROLS = ("stopped", "killed")
"""The faults that the control is played with."""


def play(folder: Path, ledger: str, fault: Fault, *, control: bool = False) -> list[Verdict]:
    """Play one fault on a fresh ledger."""
    with Play(folder, ledger, fault.times, control=control) as stage:
        fault.strike(stage)
        stage.finish()
        return verdicts(stage, fault)


def on_sqlite(folder: Path, faults: Sequence[Fault], controls: Sequence[str] = CONTROLS) -> Matrix:
    """The matrix on SQLite ledgers, one per fault."""
    matrix = Matrix("SQLite")
    plays = [(fault, False) for fault in faults] + [(fault, True) for fault in faults if fault.name in controls]
    with ThreadPoolExecutor(SIDE_BY_SIDE) as threads:
        going = []
        for fault, control in plays:
            if fault.lacks is not None:
                matrix.not_played[fault] = fault.lacks
                continue
            place = folder / f"{fault.name.replace(' ', '-')}{'-control' if control else ''}"
            url = f"sqlite:///{place / 'ledger.db'}"
            going.append((fault, control, threads.submit(play, place, url, fault, control=control)))
        for fault, control, future in going:
            if (error := future.exception()) is not None:
                matrix.not_played[fault] = f"{type(error).__name__}: {error}"
            else:
                (matrix.control if control else matrix.guarded)[fault] = future.result()
    return matrix


def main() -> int:
    """Play, print, judge."""
    parser = argparse.ArgumentParser(prog="tests.zombies", description="Play the zombie matrix.")
    parser.add_argument("--fault", action="append", choices=[fault.name for fault in FAULTS], help="only this one")
    parser.add_argument("--folder", type=Path, help="keep ledgers, worlds and logs here")
    told = parser.parse_args()
    faults = [fault for fault in FAULTS if told.fault is None or fault.name in told.fault]
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fencepost-zombies-") as scratch:
        folder = told.folder or Path(scratch)
        matrix = on_sqlite(folder, faults)
        text = [*matrix.lines(), "", *LEGEND, *rests_on(faults, Accounts(folder / "none.db"))]
    sys.stdout.write("\n".join([*text, f"took {time.monotonic() - began:.0f} s", ""]))
    failures = matrix.failures()
    for failure in failures:
        sys.stdout.write(f"WRONG: {failure}\n")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
