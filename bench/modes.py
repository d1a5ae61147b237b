"""Says what a contestant can be asked to measure and what each line of its answer holds.

A contestant is a module that `python -m bench.NAME MODE` runs: it prints one JSON object per line with `peer`, `mode`
and the fields of that mode. A mode that it does not know is a usage error (exit 2), and the table shows "-" for it.
It does not start children (`child` does) and takes no time (`load` does).
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from bench.place import Place, place

Line = dict[str, str | int | float]

STEPS = 10
"""Steps in the run that every contestant repeats."""

CONCURRENCIES = (1, 10, 100)
"""How many of those runs are open at once in one process."""

BODY_SECONDS = 0.005
"""How long a body waits in mode `processes`."""

HISTORIES = (10, 100, 1000)
"""Steps in one run when the cost of a step is measured against what is already recorded."""


class Mode(NamedTuple):
    """One thing that can be measured."""

    about: str
    fields: tuple[str, ...]
    """Every line has these beside `peer` and `mode`. More may follow; the JSON file keeps them."""
    each_round: bool


MODES = {
    "ten": Mode(
        "runs of ten steps in a closed loop at each concurrency",
        ("concurrency", "runs", "steps_per_s", "seconds"),
        each_round=True,
    ),
    "ceiling": Mode(
        "the rows of one step through the bare journal, as many steps waiting as the concurrency says",
        ("concurrency", "steps_per_s"),
        each_round=True,
    ),
    "insert": Mode(
        "the same rows inserted by plain SQL, one commit for as many steps as the concurrency says",
        ("concurrency", "steps_per_s", "rows_per_s", "commits_per_s"),
        each_round=True,
    ),
    "writes": Mode(
        "as insert, with the updates that a step makes to its rows in the commit that follows",
        ("concurrency", "steps_per_s", "rows_per_s", "commits_per_s"),
        each_round=True,
    ),
    "machine": Mode(
        "what the machine gives at this moment: syncs of one page and turns of an empty Python loop",
        ("fdatasync_per_s", "loop_million_per_s"),
        each_round=True,
    ),
    "import": Mode(
        "the import of the package in a fresh interpreter (measured by bench.importing for everyone)",
        ("import_ms", "modules", "rss_mib"),
        each_round=True,
    ),
    "history": Mode(
        "mean cost of a step over one run of as many steps, its start and end included",
        ("history", "ms_per_step"),
        each_round=False,
    ),
    "waiting": Mode(
        "memory that runs hold while all they do is wait, scaled to 10,000 of them",
        ("runs", "mib_per_10000"),
        each_round=False,
    ),
    "idle": Mode("share of one core used with nothing to do", ("cpu_percent", "seconds"), each_round=False),
    "recovery": Mode(
        "seconds from the start of a new process to the end of all runs that a killed one left half done",
        ("runs", "seconds"),
        each_round=False,
    ),
    "queue": Mode(
        "runs of ten steps enqueued by ten clients at a time, then drained by one worker process",
        ("runs", "enqueue_per_s", "steps_per_s"),
        each_round=False,
    ),
    "processes": Mode(
        "runs of ten steps whose bodies wait 5 ms, drained by as many worker processes",
        ("processes", "runs", "steps_per_s"),
        each_round=False,
    ),
    "wake": Mode(
        "from sending a signal to the moment when the run that waits for it goes on",
        ("wakes", "p50_ms", "p99_ms"),
        each_round=False,
    ),
    "cost": Mode(
        "what a step costs the server, by its own statistics: whole runs of ten steps, their start and end included",
        ("concurrency", "steps", "statements", "commits", "wal_syncs", "wal_bytes", "table_bytes"),
        each_round=False,
    ),
    "million": Mode(
        "a worker beside so many waiting runs: its memory, and how long a claim and a wake-up take",
        ("runs", "worker_mib", "grown_mib", "claim_p50_ms", "claim_p99_ms", "wake_p50_ms", "idle_cpu_percent"),
        each_round=False,
    ),
    "worker": Mode("no measurement: works for another process that measures", (), each_round=False),
    "about": Mode(
        "what was measured: its version and how its database was set, read back from an open connection",
        ("version", "settings"),
        each_round=False,
    ),
}
"""Every mode by name. `about` and `worker` are nobody's figures: a contestant adds the line `about` to its `ten`."""

SERVED = ("about", "worker")
"""What is not asked for as a measurement."""


class Request(NamedTuple):
    """What the command line of a contestant asked for."""

    mode: str
    state: Path
    """An empty folder of its own, on the disk to be measured."""
    seconds: float
    """How long each single figure may take to measure. The runs open at that moment are finished and counted."""
    server: str | None
    """The url of an empty database; None: whatever is measured is a file in `state`."""
    rest: argparse.Namespace
    """Every option, for the ones that a contestant has added."""

    @property
    def where(self) -> Place:
        """Where Fencepost's ledger is."""
        return place(self.state, self.server)


def parser(peer: str, modes: Sequence[str]) -> argparse.ArgumentParser:
    """The command line that every contestant shares; it may add options of its own."""
    command = argparse.ArgumentParser(
        prog=f"python -m bench.{peer}",
        epilog="\n".join(f"{name:10}{MODES[name].about}" for name in modes),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_argument("mode", choices=modes)
    command.add_argument("--state", type=Path, required=True, help="an empty folder on the disk to be measured")
    command.add_argument("--server", metavar="URL", help="an empty PostgreSQL database; left out: a file is measured")
    command.add_argument("--seconds", type=float, default=1.0, help="length of each measurement (default: 1)")
    return command


def request(command: argparse.ArgumentParser, arguments: Sequence[str] | None = None) -> Request:
    """Reads the command line; a usage error exits with 2."""
    options = command.parse_args(arguments)
    return Request(options.mode, options.state, options.seconds, options.server, options)


def emit(peer: str, mode: str, **fields: str | float) -> None:
    """Prints one line of the answer. A missing or unknown field is a programmer's mistake."""
    missing = set(MODES[mode].fields) - fields.keys()
    assert not missing, f"{peer} {mode} lacks {sorted(missing)}"
    rounded = {name: round(value, 4) if isinstance(value, float) else value for name, value in fields.items()}
    sys.stdout.write(json.dumps({"peer": peer, "mode": mode, **rounded}) + "\n")
    sys.stdout.flush()


def read(text: str) -> Line | None:
    """The line in one row of a child's output, or None where a library has printed something of its own."""
    try:
        line = json.loads(text)
    except ValueError:
        return None
    if not isinstance(line, dict) or line.get("mode") not in MODES or "peer" not in line:
        return None
    return line if line.keys() >= set(MODES[line["mode"]].fields) else None
