"""A process to be killed: opens the ledger, starts runs or carries out a person's verbs, and works until told to end.

Forked by `nursery` for `stage`, with what it is told as plain data. It prints a line when what it was told to start has
begun, and ends when its standard input closes. With FENCEPOST_TEST_KILL_AT it kills itself with SIGKILL at that fault
point. Which points exist is known to `store.faultpoints` and `effects.exchange`.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path

from fencepost.core.errors import VerbRefused
from fencepost.effects.outside import Target
from fencepost.effects.transport import DoorOptions
from fencepost.runtime import migrating, verbs
from fencepost.runtime.app import App
from tests.processes import booking, control, lethal, retreats, signing, stories, telling, ticks, workflows

POINTS = "FENCEPOST_TEST_POINTS"


class Probe:
    """Notes each fault point in a file, before it is passed; at one of them it kills this process."""

    def __init__(self, kill_at: str, points: str) -> None:
        name, _, nth = kill_at.rpartition("#") if "#" in kill_at else (kill_at, "", "1")
        self._name = name
        self._left = int(nth)
        self._file = os.open(points, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600) if points else None

    def __call__(self, point: str) -> None:
        if self._file is not None:
            os.write(self._file, f"{point}\n".encode())
        if point != self._name:
            return
        self._left -= 1
        if self._left == 0:
            os.kill(os.getpid(), signal.SIGKILL)


class CountingModel:
    """Decides by rule, and counts each question in a file that outlives the process."""

    provenance = "a rule of the test"

    def __init__(self, file: Path) -> None:
        self._file = file

    def answer(self, question) -> str:
        with self._file.open("a", encoding="utf-8") as file:
            file.write(f"{question.text}\n")
        return '{"step": "first"}'


def make_app(told: dict, probe: Probe | None = None) -> App:
    """The app of a child, and of the harness that reads its ledger."""
    app = App(
        told["ledger"],
        workflows=[
            *workflows.WORKFLOWS,
            *stories.WORKFLOWS,
            *stories.SECOND_VERSIONS,
            *lethal.WORKFLOWS,
            *booking.WORKFLOWS,
            *retreats.WORKFLOWS,
            *signing.WORKFLOWS,
            ticks.tick,
        ],
        schedules=map(ticks.minutely, told["schedules"]),
        targets={"tasks": Target(told["tasks"]), "books": Target(told["books"])},
        model=CountingModel(Path(told["questions"])),
        lease=told["lease"],
        margin=told["margin"],
        options=DoorOptions(probe=probe),
    )
    app.probe = probe
    return app


async def work(app: App, told: dict) -> None:
    """Work until standard input closes; start runs under this worker's own lease first."""
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    async with app:
        if told["working"]:
            async with app.worker():
                await begin(app, told, lines)
                await lines.read()
        else:
            await begin(app, told, lines)


def say(word: str) -> None:
    """Tell the stage."""
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


async def begin(app: App, told: dict, lines: asyncio.StreamReader) -> None:
    """Start runs, at a word from the harness if it wants several children to begin at once."""
    if told["at_once"]:
        say("armed")
        await lines.readline()
    by_name = {declared.name: declared for declared in app.workflows.values() if declared.version == 1}
    for name, run_id in told["starts"]:
        await app.start(by_name[name], run_id, id=run_id)
    for verb, run_id, arguments in told["verbs"]:
        run = app.store.find(app.namespace, run_id)
        try:
            module = migrating if verb == "migrate" else verbs
            await asyncio.to_thread(getattr(module, verb), app, run, by="ann", reason="asked to", **arguments)
        except VerbRefused as refused:
            say(f"refused: {refused.message}")
            return
    for run_id, name, value, signal_id in told["signals"]:
        await app.signal(run_id, name, value, id=signal_id)
    say("begun")


def live(told: dict) -> None:
    """Do what is told, from the first line to the end of the process."""
    control.apply(told["control"])
    if told["traces"]:
        telling.begin(told["traces"])
    kill_at, points = os.environ.get(stories.KILL_AT, ""), os.environ.get(POINTS, "")
    probe = Probe(kill_at, points) if kill_at or points else None
    asyncio.run(work(make_app(told, probe), told))
