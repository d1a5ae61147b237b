"""Plays the zombie matrix and prints it; the exit code is 0 only if it holds.

    python -m tests.zombies [--fault NAME ...] [--store sqlite|postgres] [--folder FOLDER]

A fault's victim is one process with all cells in it. Faults are played side by side, since most of their time is
waiting for leases and spans. What is played and counted is in `faults` and `verdict`.
"""

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

from tests.services.postgres import Cluster, NotHere
from tests.zombies.accounts import Accounts
from tests.zombies.faults import FAULTS, Fault
from tests.zombies.ledgers import JumpingCluster, Ledger, PostgresLedger, SqliteLedger
from tests.zombies.matrix import LEGEND, Matrix, rests_on
from tests.zombies.play import Play
from tests.zombies.verdict import Verdict, verdicts

SIDE_BY_SIDE = 2
"""Plays at a time: on two cores, more would only make leases run out for want of a processor."""

STORES = ("sqlite", "postgres")

CONTROLS = ("stopped", "killed")
"""The faults that the control is played with."""


def play(folder: Path, ledger: Ledger, fault: Fault, *, control: bool = False) -> tuple[list[Verdict], list[str]]:
    """Play one fault on a fresh ledger; the verdicts, and what contradicts itself in the ledger afterwards."""
    with closing(ledger), Play(folder, ledger, fault.times, control=control) as stage:
        fault.strike(stage)
        stage.finish()
        return verdicts(stage, fault), stage.contradictions()


def matrix_on(
    make: Callable[[Path, Fault], Ledger],
    name: str,
    folder: Path,
    faults: Sequence[Fault],
    controls: Sequence[str] = CONTROLS,
) -> Matrix:
    """The matrix on one kind of ledger; `make` gives a fresh one, in a folder, for a fault.

    The control is played with faults of its own, whichever are asked for.
    """
    matrix = Matrix(name)
    plays = [(fault, False) for fault in faults] + [(fault, True) for fault in FAULTS if fault.name in controls]
    with ThreadPoolExecutor(SIDE_BY_SIDE) as threads:
        going = []
        for fault, control in plays:
            if fault.lacks is not None:
                matrix.not_played[fault] = fault.lacks
                continue
            place = folder / f"{name}-{fault.name.replace(' ', '-')}{'-control' if control else ''}"
            going.append((fault, control, threads.submit(play, place, make(place, fault), fault, control=control)))
        for fault, control, future in going:
            if (error := future.exception()) is not None:
                matrix.not_played[fault] = f"{type(error).__name__}: {error}"
            elif control:
                matrix.control[fault], _ = future.result()  # no guards, so its ledger may hold anything
            else:
                matrix.guarded[fault], matrix.contradictions[fault] = future.result()
    return matrix


def on_sqlite(folder: Path, faults: Sequence[Fault], controls: Sequence[str] = CONTROLS) -> Matrix:
    """The matrix on SQLite ledgers, one per fault."""
    return matrix_on(lambda place, fault: SqliteLedger(place), SqliteLedger.name, folder, faults, controls)


def on_postgres(server: Cluster, folder: Path, faults: Sequence[Fault]) -> Matrix:
    """The matrix on one PostgreSQL server, a ledger per fault."""

    def make(place: Path, fault: Fault) -> Ledger:
        # A clock that jumps is nothing for a server that others use.
        return PostgresLedger(JumpingCluster() if fault.clock == "ledger's" else server)

    return matrix_on(make, PostgresLedger.name, folder, faults)


def matrices(stores: Sequence[str], folder: Path, faults: Sequence[Fault]) -> Iterator[Matrix]:
    """The matrix on each store."""
    if "sqlite" in stores:
        yield on_sqlite(folder, faults)
    if "postgres" in stores:
        try:
            server = Cluster()
        except NotHere as missing:
            yield Matrix(PostgresLedger.name, not_played=dict.fromkeys(faults, str(missing)))
            return
        try:
            yield on_postgres(server, folder, faults)
        finally:
            server.remove()


def main() -> int:
    """Play, print, judge."""
    parser = argparse.ArgumentParser(prog="tests.zombies", description="Play the zombie matrix.")
    parser.add_argument("--fault", action="append", choices=[fault.name for fault in FAULTS], help="only this one")
    parser.add_argument("--store", action="append", choices=STORES, help="only this one")
    parser.add_argument("--folder", type=Path, help="keep ledgers, worlds and logs here")
    told = parser.parse_args()
    faults = [fault for fault in FAULTS if told.fault is None or fault.name in told.fault]
    began = time.monotonic()
    failures: list[str] = []
    with tempfile.TemporaryDirectory(prefix="fencepost-zombies-") as scratch:
        folder = told.folder or Path(scratch)
        for matrix in matrices(told.store or STORES, folder, faults):
            say(*matrix.lines(), "")
            failures += matrix.failures()
        say(*LEGEND, *rests_on(faults, Accounts(folder / "none.db")), f"took {time.monotonic() - began:.0f} s")
    say(*(f"WRONG: {failure}" for failure in failures))
    return 1 if failures else 0


def say(*lines: str) -> None:
    """Print at once, whoever reads along."""
    sys.stdout.writelines(f"{line}\n" for line in lines)
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
