"""Orders the benchmark: who is measured when, for how long, and where the figures go.

Rounds are interleaved (A B C A B C ...), because a shared machine's speed drifts by a third within minutes: a ratio
is taken inside one round, and the table shows the median of the rounds. What each contestant does stands in its own
file, how figures become a table in `table`.
"""

import argparse
import json
import os
import platform
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import NamedTuple, Protocol

from bench.child import ROOT, Answer, Contestant, Job, run
from bench.modes import MODES, Line
from bench.table import Heading, render

_STATE = ROOT / "var" / "bench"
_PEERS_PYTHON = ROOT / ".venv-bench" / "bin" / "python"
_FLOOR_SHARE = 0.3
"""The floor's figures settle at once, and their seconds are better spent on the contestants."""


class Plan(NamedTuple):
    """How much is measured."""

    name: str
    rounds: int
    seconds: float
    """Length of one measurement."""
    budget: float
    """Seconds for everything: a round that would not fit does not begin, and a child that goes on is ended."""
    variants: bool
    """Whether a peer is also measured in a setting that is not its default."""
    patience: float = 120.0
    """Seconds that one child may take."""


QUICK = Plan("quick", rounds=3, seconds=1.0, budget=110.0, variants=False)
FULL = Plan("full", rounds=7, seconds=4.0, budget=1800.0, variants=True)


Database = AbstractContextManager[str | None]
"""The url of an empty database for one child, thrown away afterwards; None: it measures files in its folder."""


class Server(Protocol):
    """A database server that contestants are measured on."""

    @property
    def folder(self) -> Path:
        """Where its files are."""

    def says(self) -> str:
        """What it is, and what it does to keep what it acknowledges."""

    def database(self) -> Database:
        """An empty database."""


class Benchmark(NamedTuple):
    """One of the benchmarks that this frame runs."""

    command: str
    about: str
    quick: Plan
    full: Plan
    everyone: Callable[[Path, bool], Sequence[Contestant]]
    """Of the peers' interpreter and whether variants are wanted."""
    render: Callable[[Heading, Iterable[Line]], Iterator[str]]


class Report(NamedTuple):
    """Everything that was measured."""

    heading: Heading
    lines: list[Line]
    skipped: dict[str, str]
    """Why a mode of a contestant has no figures, by "PEER MODE"."""


def contestants(peers_python: Path, *, variants: bool) -> tuple[Contestant, ...]:
    """Everyone, in the order of a round: the floor next to the subject, which is compared with it most closely."""
    own = Path(sys.executable)
    floor = Contestant("floor", "floor", own, modes=("machine", "insert", "writes"))
    subject_modes = ("ceiling", "ten", "import", "history", "waiting", "idle", "recovery")
    subject = Contestant("fencepost", "subject", own, package="fencepost", modes=subject_modes)
    dbos = Contestant("dbos", "peer_dbos", peers_python, package="dbos", modes=("ten", "import", "history", "idle"))
    wal = Contestant("dbos-wal", "peer_dbos", peers_python, ("--peer", "dbos-wal", "--journal", "wal"), modes=("ten",))
    graph_modes = ("ten", "import", "history")
    graph = Contestant("langgraph", "peer_langgraph", peers_python, package="langgraph.graph", modes=graph_modes)
    return (floor, subject, dbos, wal, graph) if variants else (floor, subject, dbos, graph)


def jobs_of_round(everyone: Sequence[Contestant], number: int) -> list[Job]:
    """One child for each contestant and mode, contestant after contestant."""
    return [Job(who, mode, number) for who in everyone for mode in who.modes if MODES[mode].each_round]


def jobs_once(everyone: Sequence[Contestant]) -> list[Job]:
    """What is measured a single time, mode after mode, so that the same thing is measured in the same minute."""
    modes = [mode for mode in MODES if not MODES[mode].each_round]
    return [Job(who, mode, 0) for mode in modes for who in everyone if mode in who.modes]


class Bench:
    """One benchmark under way: it keeps the clock, the figures and who has dropped out."""

    def __init__(
        self,
        plan: Plan,
        everyone: Sequence[Contestant],
        folder: Path,
        database: Callable[[], Database] = nullcontext,
    ) -> None:
        self.plan = plan
        self._database = database
        self.everyone = everyone
        self.lines: list[Line] = []
        self.skipped: dict[str, str] = {}
        self.rounds = 0
        self._folder = folder
        self._begun = time.monotonic()

    def measure(self) -> None:
        """Runs all children. Rounds end early when the next one would not fit into the budget."""
        longest = 0.0
        for number in range(1, self.plan.rounds + 1):
            begun = time.monotonic()
            if number > 1 and self._left() < longest:
                break
            self._run(jobs_of_round(self.everyone, number))
            longest = max(longest, time.monotonic() - begun)
            self.rounds = number
            if number == 1:
                # Early, so that a slow machine gives up rounds and not figures.
                self._run(jobs_once(self.everyone))

    def _left(self) -> float:
        return self.plan.budget - (time.monotonic() - self._begun)

    def _run(self, jobs: Sequence[Job]) -> None:
        for job in jobs:
            self._run_one(job)

    def _run_one(self, job: Job) -> None:
        what = f"{job.contestant.peer} {job.mode}"
        if what in self.skipped:
            return  # it failed in an earlier round and would only cost the others time
        _progress(f"{'once' if job.round == 0 else f'round {job.round}'}: {what}")
        seconds = self.plan.seconds * (_FLOOR_SHARE if job.contestant.peer == "floor" else 1)
        answer = self._answer(job, seconds) if self._left() > 0 else Answer([], "the time was up before it")
        self.lines += answer.lines
        if answer.refusal is not None:
            self.skipped[what] = answer.refusal

    def _answer(self, job: Job, seconds: float) -> Answer:
        patience = min(self._left(), self.plan.patience)
        with self._database() as server:
            return run(job, self._folder, seconds, patience, server)


def heading(plan: Plan, rounds: int, folder: Path, database: str) -> Heading:
    """What the reader has to know about the place and the plan before believing a figure."""
    return Heading(
        mode=plan.name,
        rounds=rounds,
        rounds_planned=plan.rounds,
        seconds=plan.seconds,
        python=platform.python_version(),
        database=database,
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
        cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 0,
        file_system=file_system(folder),
    )


def file_system(folder: Path) -> str:
    """The kind of file system that holds the folder, or "unknown"; a sync on tmpfs says nothing."""
    try:
        mounts = [line.split() for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines()]
    except OSError:
        return "unknown"
    holding = [(point, kind) for _, point, kind, *_ in mounts if folder.resolve().is_relative_to(point)]
    return max(holding, key=lambda mount: len(mount[0]), default=("", "unknown"))[1]


def measure(plan: Plan, everyone: Sequence[Contestant], state: Path, server: Server | None = None) -> Report:
    """Runs the whole benchmark with its files below `state`, which is emptied of them afterwards."""
    state.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=state, ignore_cleanup_errors=True) as folder:
        if server is None:
            bench, database, disk = (
                Bench(plan, everyone, Path(folder)),
                f"SQLite {sqlite3.sqlite_version}",
                Path(folder),
            )
        else:
            bench = Bench(plan, everyone, Path(folder), server.database)
            database, disk = server.says(), server.folder
        bench.measure()
        return Report(heading(plan, bench.rounds, disk, database), bench.lines, bench.skipped)


ON_FILES = Benchmark(
    "bench", "Measures a durable step on SQLite beside two peers.", QUICK, FULL,
    lambda peers, variants: contestants(peers, variants=variants), render,
)  # fmt: skip


def main(arguments: Sequence[str] | None = None, benchmark: Benchmark = ON_FILES, server: Server | None = None) -> int:
    """Measures and prints the table; 0 when it holds at least one figure of Fencepost, otherwise 1."""
    options = _options(arguments, benchmark)
    plan = benchmark.full if options.full else benchmark.quick
    given = {name: value for name in ("rounds", "seconds", "budget") if (value := getattr(options, name)) is not None}
    plan = plan._replace(**given)
    everyone = tuple(benchmark.everyone(options.peers_python, plan.variants))
    if options.only:
        everyone = tuple(who for who in everyone if who.peer in options.only)
    report = measure(plan, everyone, options.state, server)
    sys.stdout.write("\n".join(_text(report, benchmark)) + "\n")
    if options.json is not None:
        written = {"heading": report.heading._asdict(), "lines": report.lines, "skipped": report.skipped}
        options.json.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")
    return 0 if any(line["peer"] == "fencepost" for line in report.lines) else 1


def _text(report: Report, benchmark: Benchmark) -> Iterator[str]:
    yield from benchmark.render(report.heading, report.lines)
    if report.skipped:
        yield ""
        yield "Left out"
        yield from (f"  {what}: {why}" for what, why in report.skipped.items())


def _options(arguments: Sequence[str] | None, benchmark: Benchmark) -> argparse.Namespace:
    quick, full = benchmark.quick, benchmark.full
    command = argparse.ArgumentParser(prog=f"python -m {benchmark.command}", description=benchmark.about)
    limit = f"the quick mode ends within {quick.budget / 60:.0f} min"
    command.add_argument("--full", action="store_true", help=f"more and longer rounds; {limit}")
    command.add_argument("--rounds", type=int, help=f"rounds (quick: {quick.rounds}, full: {full.rounds})")
    command.add_argument("--seconds", type=float, help=f"of each figure (quick: {quick.seconds}, full: {full.seconds})")
    command.add_argument("--budget", type=float, help="seconds for everything; what does not fit is left out")
    command.add_argument("--json", type=Path, metavar="FILE", help="also write every single line there")
    command.add_argument("--only", nargs="+", metavar="PEER", help="measure these alone (floor, fencepost, dbos, ...)")
    command.add_argument("--peers-python", type=Path, default=_PEERS_PYTHON, help="interpreter of the peers")
    command.add_argument(
        "--state", type=Path, default=_STATE, help="folder on the disk to measure (default: var/bench)"
    )
    return command.parse_args(arguments)


def _progress(text: str) -> None:
    """One line that overwrites itself on a terminal; nothing in a log."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()
