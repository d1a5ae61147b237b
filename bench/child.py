"""Runs one contestant in a process of its own and collects the lines that it prints.

A contestant that cannot run (not installed, unknown mode, crashed, too slow) costs its figures and one word in the
report, never the whole benchmark. In what order children run is decided in `frame`.
"""

import os
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

from bench.modes import Line, read

ROOT = Path(__file__).resolve().parent.parent
"""The folder that holds `bench`, where every child starts."""

_SHUT_DOWN_SECONDS = 10


class Contestant(NamedTuple):
    """Who is measured, and how to start it."""

    peer: str
    module: str
    python: Path
    options: tuple[str, ...] = ()
    package: str | None = None
    """What `bench.importing` imports for it; None: nothing to import."""
    modes: tuple[str, ...] = ()
    """What it is asked for, in this order inside a round."""


class Job(NamedTuple):
    """One child to run."""

    contestant: Contestant
    mode: str
    round: int
    """0 for what is measured once, outside the rounds."""

    def arguments(self, state: Path, seconds: float, server: str | None = None) -> list[str]:
        """The command line, with a folder for its files, the length of one measurement, and an empty database."""
        who = self.contestant
        if self.mode == "import":
            return [str(who.python), "-m", "bench.importing", who.peer, str(who.package)]
        shared = ["--state", str(state), "--seconds", str(seconds)]
        shared += [] if server is None else ["--server", server]
        return [str(who.python), "-m", f"bench.{who.module}", self.mode, *shared, *who.options]


class Answer(NamedTuple):
    """What came back from one child."""

    lines: list[Line]
    refusal: str | None
    """Why it did not end well, in one line; None if it did. Lines printed before that still count."""


def run(job: Job, folder: Path, seconds: float, patience: float, server: str | None = None) -> Answer:
    """Runs the child in a new folder below `folder` and waits for it, `patience` seconds at most."""
    who = job.contestant
    if not who.python.exists():
        return Answer([], f"there is no {who.python.name} at {who.python}; `make bench` makes the environments")
    with tempfile.TemporaryDirectory(prefix=f"{who.peer}-", dir=folder, ignore_cleanup_errors=True) as state:
        output, errors, status = _communicate(job.arguments(Path(state), seconds, server), patience)
    lines = [line for line in map(read, output.splitlines()) if line is not None]
    for line in lines:
        line["round"] = job.round
    if status is None:
        return Answer(lines, f"ended from outside after {patience:.0f} s")
    if status != 0:
        said = _last_words(errors).replace(str(who.python), who.python.name)
        return Answer(lines, said or f"it ended with status {status}")
    return Answer(lines, None if lines else "it ended well and printed no line")


def _communicate(arguments: list[str], patience: float) -> tuple[str, str, int | None]:
    """Output, errors and exit status; the status is None where patience ran out."""
    child = subprocess.Popen(
        arguments, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        output, errors = child.communicate(timeout=patience)
    except subprocess.TimeoutExpired:
        _kill_group(child)
        output, errors = child.communicate(timeout=_SHUT_DOWN_SECONDS)
        return output, errors, None
    except BaseException:
        # Ctrl-C reaches only our own process group, and the child leads another.
        _kill_group(child)
        raise
    return output, errors, child.returncode


def _kill_group(child: "subprocess.Popen[str]") -> None:
    """Ends the child and the workers that it may have started."""
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def _last_words(errors: str) -> str:
    """The last line of a traceback or of a usage error, which says what happened."""
    said = [line.strip() for line in errors.splitlines() if line.strip()]
    return said[-1] if said else ""
