"""Measures how soon a new process finishes the runs that a killed one left half done.

Two processes play it, one after the other: `leave` begins runs and hangs in the body of each one's fifth step, so
that it can be killed with everything in flight; `finish` works until every run has succeeded. The time is taken from
outside, from the start of the second process on: its imports and what is left of the dead worker's lease are in it.
That lease is short here, and what it contributes is printed beside the figure. Nothing is judged.
"""

import argparse
import asyncio
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from bench.modes import STEPS, emit
from bench.work import Order, Ticket, ledger, runs_in
from fencepost.effects.call import Call
from fencepost.effects.declare import effect
from fencepost.effects.promises import KeyHeader
from fencepost.runtime.app import App
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow

RUNS = 100
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


def _app(state: Path) -> App:
    return App(f"sqlite:///{ledger(state)}", workflows=[tickets], lease=LEASE, margin=MARGIN)


async def leave(state: Path) -> None:
    """Begins all runs, says so when each one hangs, and waits to be killed."""
    _Bodies.hang = True
    async with _app(state) as app, app.worker():
        for number in range(RUNS):
            await app.start(tickets, STEPS, id=f"run-{number}")
        await _reached(lambda: _Bodies.hanging == RUNS, state)
        sys.stdout.write(_READY + "\n")
        sys.stdout.flush()
        await asyncio.Event().wait()


async def finish(state: Path) -> None:
    """Works until every run has succeeded."""
    async with _app(state) as app, app.worker():
        await _reached(lambda: runs_in(state, "succeeded") == RUNS, state)
        sys.stdout.write(_READY + "\n")
        sys.stdout.flush()


async def _reached(goal: Callable[[], bool], state: Path) -> None:
    """Returns when the goal is reached; a run that is held would keep us for ever."""
    while not goal():
        assert runs_in(state, "held") == 0, "a run is held"
        await asyncio.sleep(_LOOK_AGAIN_SECONDS)


def measure(peer: str, state: Path) -> None:
    """Prints the line of mode `recovery`."""
    with _started("leave", state) as first:
        _await_ready(first)
        first.kill()
    begun, wall = time.perf_counter(), time.time()
    with _started("finish", state) as second:
        _await_ready(second)
        seconds = time.perf_counter() - begun
        assert second.wait() == 0, "the second process did not end well"
    lease_seconds = max(0.0, _lease_ends(state) + MARGIN_SECONDS - wall)
    emit(peer, "recovery", runs=RUNS, seconds=seconds, lease_seconds=lease_seconds)


def _started(role: str, state: Path) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "bench.recovery", role, str(state)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _await_ready(child: "subprocess.Popen[str]") -> None:
    assert child.stdout is not None
    said = child.stdout.readline().strip()
    assert said == _READY, f"instead of {_READY!r} it said {said!r}"


def _lease_ends(state: Path) -> float:
    """When the first worker's lease was over by its own word, in seconds since the epoch."""
    with closing(sqlite3.connect(ledger(state))) as connection:
        return float(connection.execute("SELECT expires_at FROM lease ORDER BY taken_at LIMIT 1").fetchone()[0]) / 1e6


def main() -> None:
    """Plays the part that the command line names."""
    command = argparse.ArgumentParser(prog="python -m bench.recovery")
    command.add_argument("role", choices=("leave", "finish"))
    command.add_argument("state", type=Path)
    asked = command.parse_args()
    asyncio.run({"leave": leave, "finish": finish}[asked.role](asked.state))


if __name__ == "__main__":
    main()
