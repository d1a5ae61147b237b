"""The console with live traffic: invoices keep coming in, services fail now and then, and people answer some of them.

    python -m fencepost.demo.live --port 8420

Starts the outside world, two workers and a console on a new SQLite ledger, prints the link by which one comes in, and
goes on until Ctrl-C; then every process of it is ended in order. Some runs wait for an approval that nobody gives, some
are held with an unknown payment: they are for whoever looks. Nobody is killed here, and nothing is proved: that is
`main`.
"""

import asyncio
import itertools
import random
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from fencepost.core.errors import FencepostError, Misuse
from fencepost.demo import example
from fencepost.demo.crew import Crew
from fencepost.demo.main import empty
from fencepost.demo.plan import Paper, paper_of
from fencepost.demo.screen import Screen
from fencepost.demo.sides import Fenced, environment, ledger_url, run_id
from fencepost.runtime.app import App
from fencepost.runtime.signalling import waits_for_approval
from fencepost.testing import Configure, Fault, Keys, LookUp, World, WorldFiles

ARRIVE_SECONDS = 2.0
"""Between two invoices."""

LOOK_SECONDS = 0.25
"""Between two looks at what has changed."""

CONSOLE_SECONDS_MAX = 30.0
"""Until the console has said where it is."""

ANSWERED_LAST = 50
"""So many of the newest invoices are looked at for an answer; of older ones the answer was left out."""

APPROVED, DENIED = 0.5, 0.25
"""Shares of the invoices; what is left waits for whoever looks."""

EXIT_WRONG = 2

Port = Annotated[int, typer.Option(min=0, max=65_535, help="Where the console listens, on loopback; 0 for any.")]
Seed = Annotated[int, typer.Option(help="Draws the faults and the answers.")]
Folder = Annotated[Path | None, typer.Option(help="Keep every file here; a temporary folder if not given.")]
Every = Annotated[float, typer.Option(min=0.01, help="Seconds between two invoices.")]


def run_live(*, port: Port = 8420, seed: Seed = 1, every: Every = ARRIVE_SECONDS, folder: Folder = None) -> None:
    """Run the console with live traffic until Ctrl-C, which is how it ends well."""
    with Screen() as screen:
        try:
            asyncio.run(_live(empty(folder), seed, port, every, screen))
        except (KeyboardInterrupt, asyncio.CancelledError):
            screen.say("ended; no process of it is left")
        except FencepostError as error:
            screen.say(f"{error.message}: {error.hint}")
            sys.exit(EXIT_WRONG)


async def _live(folder: Path, seed: int, port: int, every: float, screen: Screen) -> None:
    task = asyncio.current_task()
    assert task is not None, "asyncio.run made one"
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    screen.say(f"ledger, logs and the world's files are in {folder}")
    files = WorldFiles(folder / "world")
    with World.start(files.folder, seed=seed, settings=SETTINGS) as world:
        settings = environment(world, folder)
        async with Fenced.app(folder) as app:
            with (
                Crew(Fenced.command, settings, folder / "workers.log") as workers,
                Crew(console_command(folder, port), settings, folder / "console.log", workers=1) as console,
            ):
                await _tell_where(folder / "console.log", console, screen)
                await _traffic(app, Fenced(app, files), seed, every, [workers, console])


def console_command(folder: Path, port: int) -> tuple[str, ...]:
    """The command of the console as a user would give it, on a leash."""
    app = f"{example.folder() / 'invoice.py'}:app"
    command = ("-m", "fencepost.cli", "console", app, "--db", ledger_url(folder), "--port", str(port))
    return ("fencepost.demo.leash", *command)


async def _tell_where(log: Path, console: Crew, screen: Screen) -> None:
    """Pass on what the console says of where it is and how one comes in. Raises `Misuse` if it says nothing."""
    said = ""
    try:
        async with asyncio.timeout(CONSOLE_SECONDS_MAX):
            while "sign in" not in (said := _said_in(log)):
                console.replace_dead()
                await asyncio.sleep(LOOK_SECONDS)
    except TimeoutError as error:
        raise Misuse("the console let nobody in", hint=said.strip() or "it said nothing in time") from error
    for line in said.splitlines():
        screen.say(line)
    screen.say("Ctrl-C ends it")


def _said_in(log: Path) -> str:
    return log.read_text(encoding="utf-8")


# -- traffic ----------------------------------------------------------------------------------------------------------


async def _traffic(app: App, side: Fenced, seed: int, every: float, crews: list[Crew]) -> None:
    numbers: list[str] = []
    async with asyncio.TaskGroup() as group:
        group.create_task(_feed(side, seed, every, numbers))
        group.create_task(_answer(app, seed, numbers))
        while True:
            for crew in crews:
                crew.replace_dead()
            await asyncio.sleep(LOOK_SECONDS)


async def _feed(side: Fenced, seed: int, every: float, numbers: list[str]) -> None:
    for paper in _papers(seed):
        await side.submit(paper)
        numbers.append(paper.number)
        await asyncio.sleep(every)


def _papers(seed: int) -> Iterator[Paper]:
    """Invoices without end, in all languages."""
    rng = random.Random(f"live papers {seed}")
    files = sorted((example.folder() / "invoices").glob("*.txt"))
    for index in itertools.count(1):
        yield paper_of(f"INV-{index:06}", rng.choice(files))


async def _answer(app: App, seed: int, numbers: list[str]) -> None:
    """Half of the invoices are approved, a quarter is denied, the last quarter is left to whoever looks."""
    answered: set[str] = set()
    while True:
        for number in numbers[-ANSWERED_LAST:]:
            drawn = random.Random(f"live answer {seed} {number}").random()
            if number in answered or drawn > APPROVED + DENIED:
                continue
            run = run_id(number)
            if waits_for_approval(await app.show(run), "decision"):
                comment = "" if drawn < APPROVED else "nobody ordered this"
                await app.approve(run, "decision", by="approver", approved=drawn < APPROVED, comment=comment)
                answered.add(number)
        await asyncio.sleep(LOOK_SECONDS)


# -- faults -----------------------------------------------------------------------------------------------------------


def _often(share: float, fault: Fault) -> Fault:
    """The fault for that share of the requests, without end."""
    return fault.model_copy(update={"rate": share, "times": None})


_DISTANCE = _often(1, Fault(do="wait", when="after", milliseconds=150, name="usual way"))
_DROP = Fault(do="reset", when="after", name="dropped reply")

_TASKS = (
    _often(0.6, Fault(do="answer", status=503, path="*/cancel", name="cancelling is down")),
    _often(0.5, Fault(do="answer", status=503, method="GET", name="look-ups are down")),
    _often(0.08, Fault(do="answer", status=422, collection="tasks", name="refused")),
    _often(0.15, Fault(do="answer", status=429, retry_after="2", collection="tasks", name="rate limited")),
    _often(0.25, Fault(do="reset", when="after", collection="tasks", name="dropped reply")),
    _DISTANCE,
)
_MAIL = (_often(0.1, Fault(do="answer", status=451, name="try again later")), _often(0.15, _DROP), _DISTANCE)
_BOOKS = (
    _often(0.3, _DROP.model_copy(update={"collection": "payments"})),
    _often(0.1, Fault(do="answer", status=503, collection="entries", name="unavailable")),
    _often(0.15, _DROP.model_copy(update={"collection": "entries"})),
    _DISTANCE,
)

SETTINGS = (
    Configure(service="tasks", collection="tasks", identity=("invoice",), faults=_TASKS),
    Configure(service="mail", identity=("subject",), faults=_MAIL),
    Configure(service="books", collection="payments", keys=Keys(honoured=False), look_up=LookUp(offered=False)),
    Configure(service="books", collection="*", keys=Keys(honoured=False), identity=("invoice",), faults=_BOOKS),
)
"""How the services behave: the bank cannot be asked, so that its lost replies are for a person."""


if __name__ == "__main__":
    typer.run(run_live)
