"""Measures how soon a new process finishes the runs that a killed one left half done.

Two processes play it, one after the other: `leave` begins runs and hangs in the body of each one's fifth step, so
that it can be killed with everything in flight; `finish` works until every run has succeeded. The time is taken from
outside, from the start of the second process on: its imports and what is left of the dead worker's lease are in it.
That lease is short here, and what it contributes is printed beside the figure. Nothing is judged.
"""

import argparse
import asyncio
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from bench.modes import STEPS, emit
from bench.place import Place, place
from bench.work import Order, Ticket
from fencepost.effects.call import Call
from fencepost.effects.declare import effect
from fencepost.effects.promises import KeyHeader
from fencepost.runtime.app import App
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow

HANGS_AT = 4
LEASE, MARGIN, MARGIN_SECONDS = "2s", "200ms", 0.2
_LOOK_AGAIN_SECONDS = 0.005
_READY = "ready"


class _Bodies:
    """What the bodies of this process do."""

    hang = False
    hanging = 0


@effect(send_key=KeyHeader("Idempotency-Key", window="24h"), attempt_timeout="20s", settle="5s", reference="id")
async def create_ticket(call: Call, order: Order) -> Ticket:  # noqa: ARG001 - nothing is sent
    """A small value in, a small value out; or no end, in the process that is going to be killed."""
    if _Bodies.hang and order.amount == HANGS_AT:
        _Bodies.hanging += 1
        await asyncio.Event().wait()
    return Ticket(id=f"ticket-{order.amount}", ok=True)


@workflow(version=1)
async def tickets(run: Run, steps: int) -> int:
    """As many steps, one after the other."""
    for amount in range(steps):
        await run.do(create_ticket(Order(customer="anna", amount=amount)), item=str(amount))
    return steps


def _app(where: Place) -> App:
    return App(where.url, workflows=[tickets], lease=LEASE, margin=MARGIN)


async def leave(where: Place, runs: int) -> None:
    """Begins all runs, says so when each one hangs, and waits to be killed."""
    _Bodies.hang = True
    async with _app(where) as app, app.worker(runs_max=runs):
        await asyncio.gather(*(app.start(tickets, STEPS, id=f"run-{number}") for number in range(runs)))
        await _reached(lambda: _Bodies.hanging == runs, where)
        sys.stdout.write(_READY + "\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


async def finish(where: Place, runs: int) -> None:
    """Works until every run has succeeded."""
    async with _app(where) as app, app.worker(runs_max=runs):
        await _reached(lambda: where.runs_in("succeeded") == runs, where)
        sys.stdout.write(_READY + "\n")
        sys.stdout.flush()


async def _reached(goal: Callable[[], bool], where: Place) -> None:
    """Returns when the goal is reached; a run that is held would keep us for ever."""
    while not goal():
        assert where.runs_in("held") == 0, "a run is held"
        await asyncio.sleep(_LOOK_AGAIN_SECONDS)


def measure(peer: str, where: Place, runs: int) -> None:
    """Prints the line of mode `recovery`."""
    with _started("leave", where, runs) as first:
        _await_ready(first)
        first.kill()
    begun, wall = time.perf_counter(), time.time()
    with _started("finish", where, runs) as second:
        _await_ready(second)
        seconds = time.perf_counter() - begun
        assert second.wait() == 0, "the second process did not end well"
    lease_seconds = max(0.0, _lease_ends(where) + MARGIN_SECONDS - wall)
    emit(peer, "recovery", runs=runs, seconds=seconds, lease_seconds=lease_seconds)


def _started(role: str, where: Place, runs: int) -> "subprocess.Popen[str]":
    server = [] if where.server is None else [where.server]
    command = [sys.executable, "-m", "bench.recovery", role, str(runs), str(where.folder), *server]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _await_ready(child: "subprocess.Popen[str]") -> None:
    assert child.stdout is not None
    said = child.stdout.readline().strip()
    assert said == _READY, f"instead of {_READY!r} it said {said!r}"


def _lease_ends(where: Place) -> float:
    """When the first worker's lease was over by its own word, in seconds since the epoch."""
    with where.seen() as eye:
        return float(eye.ask("SELECT expires_at FROM lease ORDER BY taken_at LIMIT 1")[0][0]) / 1e6


def main() -> None:
    """Plays the part that the command line names."""
    command = argparse.ArgumentParser(prog="python -m bench.recovery")
    command.add_argument("role", choices=("leave", "finish"))
    command.add_argument("runs", type=int)
    command.add_argument("state", type=Path)
    command.add_argument("server", nargs="?", help="url of a database; left out: a file")
    asked = command.parse_args()
    asyncio.run({"leave": leave, "finish": finish}[asked.role](place(asked.state, asked.server), asked.runs))


if __name__ == "__main__":
    main()
