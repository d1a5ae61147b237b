"""The approvals demo: runs wait for people while workers are killed; what was applied and refused, and what was paid.

Everything runs on this machine, as in `main`: the bank is a process of the world, the workers are processes that are
killed, and payments are counted in the world's own files. Arguments and exit codes of the command belong to `cli`.
"""

import asyncio
import os
import shlex
import signal
from pathlib import Path

from rich.console import Console

from fencepost.core.errors import Misuse
from fencepost.demo import approval_plan, approval_tally, payments
from fencepost.demo.approval_drive import ApprovalDrive
from fencepost.demo.approval_plan import MEANS, ApprovalPlan, Kind
from fencepost.demo.approval_tally import Found, Line
from fencepost.demo.crew import Crew
from fencepost.demo.main import EXIT_INTERRUPTED, EXIT_RIGHT, EXIT_WRONG, empty
from fencepost.demo.screen import Screen
from fencepost.demo.sides import ledger_url
from fencepost.runtime.app import App
from fencepost.store.chain import broken_at
from fencepost.testing import World, WorldFiles

RUNS_MIN = 10
RUNS_MAX = 2_000
COMMAND = ("fencepost.demo.worker", "approvals")


def run_approvals(
    *, seed: int, runs: int = approval_tally.FULL, folder: Path | None = None, console: Console | None = None
) -> int:
    """Run the demo and return its exit code; nothing that it started is left when it returns.

    Args:
        seed: of the plan: what becomes of each approval, and when workers are killed.
        runs: how many wait, from 10 to 2,000.
        folder: where ledger, logs and the world's files stay; a new temporary folder if none is given.
        console: where to print.

    Returns:
        0 if the payments at the bank are the valid approvals, each once, and every refusal has its audit row; 3 with a
        sentence if not; 130 after Ctrl-C or SIGTERM.

    Raises:
        Misuse: the number of runs is out of bounds, the folder is not empty, or a process cannot be started.
    """
    if not RUNS_MIN <= runs <= RUNS_MAX:
        raise Misuse(f"the demo takes {RUNS_MIN} to {RUNS_MAX} runs, not {runs}", hint="--invoices 200")
    place = empty(folder)
    with Screen(console) as screen:
        try:
            return asyncio.run(_live(approval_plan.draw(seed, runs), place, screen))
        except (KeyboardInterrupt, asyncio.CancelledError):
            screen.say("interrupted; every process of the demo has been ended")
            return EXIT_INTERRUPTED


async def _live(plan: ApprovalPlan, folder: Path, screen: Screen) -> int:
    task = asyncio.current_task()
    assert task is not None, "asyncio.run made one"
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    screen.say(f"seed {plan.seed}: {len(plan.cases)} payments wait for approval, in {folder}")
    files, directory = WorldFiles(folder / "world"), folder / "directory"
    directory.mkdir()
    with World.start(files.folder, seed=plan.seed, settings=plan.settings) as world:
        async with payments.app(ledger_url(folder), world.books.url) as app:
            drive = ApprovalDrive(app, plan, directory, screen)
            await drive.start()
            with Crew(COMMAND, _environment(world, folder, directory), folder / "workers.log") as crew:
                is_through = await drive.run(crew)
            found = await _found(app, plan, drive, files)
            chain = broken_at(app.store.audits(None, None))
    _print(screen, approval_tally.lines(found))
    wrong = approval_tally.complaints(found, kills=drive.kills, broken_at=chain)
    wrong += [] if is_through else ["Not every run came to its end in time."]
    screen.end(["", *(wrong or [_right(found, drive.kills)]), *_to_try(folder, plan)])
    return EXIT_WRONG if wrong else EXIT_RIGHT


def _environment(world: World, folder: Path, directory: Path) -> dict[str, str]:
    settings = {
        payments.LEDGER: ledger_url(folder),
        payments.BOOKS: world.books.url,
        payments.DIRECTORY: str(directory),
    }
    return {**os.environ, **settings}


async def _found(app: App, plan: ApprovalPlan, drive: ApprovalDrive, files: WorldFiles) -> list[Found]:
    paid = [str(one.get("number")) for one in files.objects("payments")]
    return [
        Found(
            case,
            await app.show(case.run),
            [row for row in app.store.audits(app.namespace, case.run) if row.outcome == "refused"],
            drive.refused[case.run],
            drive.answers[case.run],
            paid.count(case.number),
        )
        for case in plan.cases
    ]


def _print(screen: Screen, table: dict[Kind, Line]) -> None:
    rows = []
    for kind, line in table.items():
        same = line.answers - line.applied - (line.refused - _refused_in_use(line))
        why = ", ".join(f"{word} ({number})" for word, number in line.reasons.most_common())
        numbers = (line.runs, line.answers, line.applied, same, line.refused, line.audited, line.payments)
        rows.append((kind.value, *map(str, numbers), why))
    headings = ("", "runs", "answers", "applied", "the same again", "refused", "audit rows", "payments", "refused as")
    screen.grid("What was applied and refused, and what the bank has paid", headings, rows)
    screen.end([f"  {kind}: {means}" for kind, means in MEANS.items()])


def _refused_in_use(line: Line) -> int:
    """Refusals that were no answer's own: it was applied, and refused when it was to be used."""
    return sum(number for word, number in line.reasons.items() if word.startswith("right lost"))


def _right(found: list[Found], kills: int) -> str:
    paid = sum(one.payments for one in found)
    refused = sum(len(one.refused) for one in found)
    return (
        f"{paid} valid approvals, {paid} payments at the bank, none twice; {refused} refusals, each with its audit "
        f"row, the chain intact. Workers killed meanwhile: {kills}."
    )


def _to_try(folder: Path, plan: ApprovalPlan) -> list[str]:
    ledger = f"--db {shlex.quote(ledger_url(folder))}"
    shown = next((case for case in plan.cases if case.kind is Kind.APPROVER), plan.cases[0])
    return [
        "",
        f"The ledger, the logs and the world's files are in {folder}. Try:",
        f"  fencepost runs --state failed {ledger}",
        f"  fencepost show {shown.run} {ledger}",
    ]
