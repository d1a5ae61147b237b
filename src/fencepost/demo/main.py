"""The demo: the same invoices under the same blows, by naive retry and by Fencepost, and what the world then holds.

Everything runs on this machine: the outside world is a process that fails by plan, the workers are processes that are
killed and paused, and the table at the end is read from the world's files. Arguments and exit codes of the command
belong to `cli`.
"""

import asyncio
import shlex
import signal
import tempfile
from pathlib import Path

from rich.console import Console

from fencepost.core.errors import Misuse
from fencepost.demo import example, tally, verdict
from fencepost.demo.crew import Crew
from fencepost.demo.drive import Drive
from fencepost.demo.plan import Plan, draw
from fencepost.demo.screen import Screen
from fencepost.demo.sides import Fenced, Naive, Side, environment, ledger_url, run_id
from fencepost.demo.tally import Injected, Row
from fencepost.testing import World, WorldFiles

EXIT_RIGHT = 0
EXIT_WRONG = 3
"""The demo did not show what it claims; a sentence says why."""
EXIT_INTERRUPTED = 130

INVOICES_MIN = 4
INVOICES_MAX = 1_000


def run_demo(*, seed: int, invoices: int = 20, folder: Path | None = None, console: Console | None = None) -> int:
    """Run the demo and return its exit code; nothing that it started is left when it returns.

    Args:
        seed: of the plan: papers, faults, blows. The same seed plans the same; how processes interleave is up to the
            machine.
        invoices: how many, from 4 to 1,000.
        folder: where ledger, logs and the world's files stay; a new temporary folder if none is given.
        console: where to print.

    Returns:
        0 if Fencepost's row is right, the naive row is wrong, and enough was injected; 3 with a sentence if not; 130
        after Ctrl-C or SIGTERM.

    Raises:
        Misuse: the number of invoices is out of bounds, the folder is not empty, or a process cannot be started.
    """
    if not INVOICES_MIN <= invoices <= INVOICES_MAX:
        raise Misuse(f"the demo takes {INVOICES_MIN} to {INVOICES_MAX} invoices, not {invoices}", hint="--invoices 20")
    place = empty(folder)
    with Screen(console) as screen:
        try:
            return asyncio.run(_both(draw(seed, invoices, example.folder() / "invoices"), place, screen))
        except (KeyboardInterrupt, asyncio.CancelledError):
            screen.say("interrupted; every process of the demo has been ended")
            return EXIT_INTERRUPTED


def empty(folder: Path | None) -> Path:
    """Return a folder for the demo's files; raises `Misuse` if the named one has some."""
    if folder is None:
        return Path(tempfile.mkdtemp(prefix="fencepost-demo-"))
    folder.mkdir(parents=True, exist_ok=True)
    if any(folder.iterdir()):
        raise Misuse("the demo's folder is not empty", hint="name another, or empty it", ids={"folder": str(folder)})
    return folder.resolve()


async def _both(plan: Plan, folder: Path, screen: Screen) -> int:
    task = asyncio.current_task()
    assert task is not None, "asyncio.run made one"
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    kills = sum(blow.how == "kill" for blow in plan.blows)
    screen.say(f"seed {plan.seed}: {len(plan.papers)} invoices, in {folder}")
    screen.say(f"{Naive.name} first, then {Fenced.name}, with the same invoices and the same faults for both")
    screen.say(f"workers are struck: kills {kills}, pauses {len(plan.blows) - kills}")
    naive, struck_naive, _ = await _live(Naive(folder / "queue"), plan, folder, screen)
    async with Fenced.app(folder) as app:
        side = Fenced(app, _world_files(folder, Fenced.name))
        fenced, struck, troubles = await _live(side, plan, folder, screen)
        trace = await side.trace(struck.lost_twice)
    rows = [(Naive.name, naive), (Fenced.name, fenced)]
    screen.table(rows, [(Naive.name, struck_naive), (Fenced.name, struck)])
    wrong = [*verdict.complaints(naive, fenced, struck_naive, struck, plan.minimum), *troubles]
    screen.end(["", *(wrong or [_right(naive)]), *_to_try(folder, plan), *_lost_twice(trace)])
    return EXIT_WRONG if wrong else EXIT_RIGHT


async def _live(side: Side, plan: Plan, folder: Path, screen: Screen) -> tuple[Row, Injected, list[str]]:
    """Live one side against a world of its own; returns its row, what was injected, and what did not get through."""
    files = _world_files(folder, side.name)
    screen.say(f"{side.name}: begins")
    with World.start(files.folder, seed=plan.seed, settings=plan.settings) as world:
        log = folder / f"workers-{_slug(side.name)}.log"
        with Crew(side.command, environment(world, folder), log) as crew:
            injected = await Drive(side, plan, crew, files, screen).run()
    row = tally.count(files, plan.papers, settled=await side.settled())
    return row, injected, await side.troubles()


def _world_files(folder: Path, side: str) -> WorldFiles:
    return WorldFiles(folder / f"world-{_slug(side)}")


def _slug(side: str) -> str:
    return side.lower().replace(" ", "-")


def _right(naive: Row) -> str:
    return (
        "Fencepost: one ticket, one mail, one payment and one entry for each invoice, "
        "and no contradiction in its ledger. "
        f"Naive retry, under the same faults: {naive.duplicates} duplicates, {naive.lost} lost."
    )


def _to_try(folder: Path, plan: Plan) -> list[str]:
    """Commands with which the ledger can be looked at afterwards."""
    ledger = f"--db {shlex.quote(ledger_url(folder))}"
    run = run_id(plan.papers[0].number)
    return [
        "",
        f"The ledger, the logs and the world's files are in {folder}. Try:",
        f"  fencepost runs {ledger}",
        f"  fencepost show {run} {ledger}",
        f"  fencepost trace {run} {ledger}",
        f"  fencepost audit {ledger}",
        f"  fencepost check {ledger}",
    ]


def _lost_twice(trace: list[str]) -> list[str]:
    if not trace:
        return []
    return ["", "One of the runs that lost two workers, as `fencepost trace` shows it from the ledger:", *trace]
