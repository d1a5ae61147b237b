"""Starts worker processes, gives them the word to begin all at once, and takes the time until a queue is empty.

A contestant brings a `Queue`. Its workers are processes of the same file in mode `worker`: they import and connect,
say so, and wait for a line before they take anything, so that no start-up is measured. What a run does is the
contestant's matter.
"""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from bench.modes import STEPS, Request, emit

_READY = "ready"


class Queue(Protocol):
    """What a contestant can do with runs that somebody else works on."""

    def put(self, kind: str, runs: int) -> None:
        """Enqueue runs of ten steps from ten clients at a time; `kind` is "ten", or "waiting" for bodies that wait."""

    def await_end(self) -> None:
        """Return when everything that was put has ended well."""


def ready() -> None:
    """Say that this worker could begin, and wait until it shall."""
    sys.stdout.write(_READY + "\n")
    sys.stdout.flush()
    sys.stdin.readline()


def command(module: str, asked: Request, mode: str = "worker") -> list[str]:
    """How to start another process of a contestant, on the same database."""
    shared = ["--state", str(asked.state)] + ([] if asked.server is None else ["--server", asked.server])
    return [sys.executable, "-m", f"bench.{module}", mode, *shared]


@contextmanager
def started(commands: list[list[str]]) -> Iterator[list["subprocess.Popen[str]"]]:
    """Worker processes that are ready; killed afterwards."""
    children = [subprocess.Popen(each, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for each in commands]
    try:
        for child in children:
            assert child.stdout is not None, "its output is a pipe"
            said = child.stdout.readline().strip()
            assert said == _READY, f"instead of {_READY!r} it said {said!r}"
        yield children
    finally:
        for child in children:
            child.kill()
            child.communicate()


def begin(children: list["subprocess.Popen[str]"]) -> None:
    """Give the word."""
    for child in children:
        assert child.stdin is not None, "its input is a pipe"
        child.stdin.write("go\n")
        child.stdin.flush()


def _drained(queue: Queue, commands: list[list[str]]) -> float:
    """Seconds from the word to the end of the last run."""
    with started(commands) as children:
        begun = time.perf_counter()
        begin(children)
        queue.await_end()
        return time.perf_counter() - begun


def emit_queue(peer: str, queue: Queue, worker: list[str], runs: int) -> None:
    """Prints the line of mode `queue`."""
    begun = time.perf_counter()
    queue.put("ten", runs)
    enqueue_per_s = runs / (time.perf_counter() - begun)
    seconds = _drained(queue, [worker])
    emit(peer, "queue", runs=runs, enqueue_per_s=enqueue_per_s, steps_per_s=runs * STEPS / seconds)


def emit_processes(peer: str, queue: Queue, worker: list[str], runs: int) -> None:
    """Prints the lines of mode `processes`."""
    for processes in (1, 2):
        queue.put("waiting", runs)
        seconds = _drained(queue, [worker] * processes)
        emit(peer, "processes", processes=processes, runs=runs, steps_per_s=runs * STEPS / seconds)
