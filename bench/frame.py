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
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

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


QUICK = Plan("quick", rounds=3, seconds=1.0, budget=110.0, variants=False)
FULL = Plan("full", rounds=7, seconds=4.0, budget=1800.0, variants=True)


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

    def __init__(self, plan: Plan, everyone: Sequence[Contestant], folder: Path) -> None:
        self.plan = plan
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
        patience = self._left()
        answer = run(job, self._folder, seconds, patience) if patience > 0 else Answer([], "the time was up before it")
        self.lines += answer.lines
        if answer.refusal is not None:
            self.skipped[what] = answer.refusal


def heading(plan: Plan, rounds: int, folder: Path) -> Heading:
    """What the reader has to know about the place and the plan before believing a figure."""
    return Heading(
        mode=plan.name,
        rounds=rounds,
        rounds_planned=plan.rounds,
        seconds=plan.seconds,
        python=platform.python_version(),
        sqlite=sqlite3.sqlite_version,
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


def measure(plan: Plan, everyone: Sequence[Contestant], state: Path) -> Report:
    """Runs the whole benchmark with its files below `state`, which is emptied of them afterwards."""
    state.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=state, ignore_cleanup_errors=True) as folder:
        bench = Bench(plan, everyone, Path(folder))
        bench.measure()
        return Report(heading(plan, bench.rounds, Path(folder)), bench.lines, bench.skipped)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures and prints the table; 0 when it holds at least one figure of Fencepost, otherwise 1."""
    options = _options(arguments)
    plan = FULL if options.full else QUICK
    given = {name: value for name in ("rounds", "seconds", "budget") if (value := getattr(options, name)) is not None}
    plan = plan._replace(**given)
    everyone = contestants(options.peers_python, variants=plan.variants)
    if options.only:
        everyone = tuple(who for who in everyone if who.peer in options.only)
    report = measure(plan, everyone, options.state)
    sys.stdout.write("\n".join(_text(report)) + "\n")
    if options.json is not None:
        written = {"heading": report.heading._asdict(), "lines": report.lines, "skipped": report.skipped}
        options.json.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")
    return 0 if any(line["peer"] == "fencepost" for line in report.lines) else 1


def _text(report: Report) -> Iterator[str]:
    yield from render(report.heading, report.lines)
    if report.skipped:
        yield ""
        yield "Left out"
        yield from (f"  {what}: {why}" for what, why in report.skipped.items())


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    command = argparse.ArgumentParser(prog="python -m bench", description="Measures a durable step beside two peers.")
    command.add_argument("--full", action="store_true", help="more and longer rounds; the quick mode ends within 2 min")
    command.add_argument("--rounds", type=int, help=f"rounds (quick: {QUICK.rounds}, full: {FULL.rounds})")
    command.add_argument("--seconds", type=float, help=f"of each figure (quick: {QUICK.seconds}, full: {FULL.seconds})")
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
