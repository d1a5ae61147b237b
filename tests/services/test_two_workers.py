"""Two `fencepost worker`s on one PostgreSQL, one killed with -9 in the middle of 200 invoices: each is paid once."""

import asyncio
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import ModuleType

from fencepost import App
from fencepost.core.states import FINAL_RUN_STATES, RunState
from fencepost.demo import example
from fencepost.demo.plan import draw
from fencepost.demo.sides import environment
from fencepost.runtime import verbs
from fencepost.runtime.signalling import waits_for_approval
from fencepost.testing import World
from tests.services.fixtures import Place

ROOT = Path(__file__).parents[2]
COMMAND = "import sys; from fencepost.cli.main import main; raise SystemExit(main(sys.argv[1:]))"
INVOICES = 200
KINDS = ("tickets", "messages", "payments", "entries")


def worker(url: str, surroundings: dict[str, str], log: Path) -> subprocess.Popen[bytes]:
    with log.open("ab") as said:
        return subprocess.Popen(
            [sys.executable, "-c", COMMAND, "worker", "examples/invoice.py:app", "--db", url],
            cwd=ROOT, env=surroundings, stdin=subprocess.DEVNULL, stdout=said, stderr=said,
        )  # fmt: skip


async def start(app: App, shown: ModuleType) -> None:
    plan = draw(1, INVOICES, ROOT / "examples" / "invoices")
    for paper in plan.papers:
        run = f"invoice:{paper.number}"
        await app.start(shown.approve_invoice, shown.Document(name=paper.file, text=paper.text), id=run)
        if not paper.is_legible:
            scanned = shown.Invoice(number=paper.number, supplier="HELIOS ENERGIE SpA", total=107_210, currency="EUR")
            await app.signal(run, "correction", scanned, id="c", sender="clerk")


async def until(condition: Callable[[], Awaitable[bool]], seconds: float) -> None:
    async with asyncio.timeout(seconds):
        while not await condition():  # noqa: ASYNC110 - what is waited for is in the world and in the ledger
            await asyncio.sleep(0.2)


def made(world: World) -> Counter[str]:
    counts = world.files.summary()
    return Counter({name: counts[name].objects for name in counts if counts[name].objects})


async def approve_payments(app: App) -> None:
    """Whoever may approve says yes to each payment that waits to be allowed."""
    for run in await app.runs(state=RunState.WAITING, limit=INVOICES):
        if waits_for_approval(await app.show(run.id), "decision"):
            await app.approve(run.id, "decision", by="approver", id="d")


async def settle_payments(app: App, world: World) -> None:
    """The one effect that nobody can ask about: an operator looks at the bank's statement."""
    for run in await app.runs(state=RunState.HELD, limit=INVOICES):
        held = json.loads(run.hold or "{}")
        assert held["step"] == "pay", held
        number = run.id.partition(":")[2]
        paid = [one["id"] for one in world.files.objects("payments") if number in json.dumps(one)]
        says = {"happened": True, "result": json.dumps({"id": paid[0]})} if paid else {"happened": False}
        verbs.settle(app, run, step="pay", by="ann", reason="the statement", override=not paid, **says)


def test_one_is_killed_and_the_other_finishes_everything_once(postgres: Place, tmp_path: Path) -> None:
    shown = example.load()
    log = tmp_path / "workers.log"

    async def play(world: World) -> None:
        surroundings = environment(world, tmp_path)
        async with App(postgres.url(), workflows=[shown.approve_invoice], targets=shown.app.outside.targets) as app:
            await start(app, shown)
            first, second = (worker(postgres.url(), surroundings, log) for _ in range(2))
            try:

                async def is_in_the_middle() -> bool:
                    await approve_payments(app)
                    return sum(made(world).values()) > INVOICES

                async def have_all_ended() -> bool:
                    await approve_payments(app)
                    await settle_payments(app, world)
                    ended = [run for run in await app.runs(limit=INVOICES) if run.state in FINAL_RUN_STATES]
                    return len(ended) == INVOICES

                await until(is_in_the_middle, 120)
                first.kill()
                await until(have_all_ended, 180)
            finally:
                for process in (first, second):
                    process.terminate()
                    process.wait(30)
            states = Counter(run.state for run in await app.runs(limit=INVOICES))
            assert states == {RunState.SUCCEEDED: INVOICES}, log.read_text("utf-8")[-2_000:]

    with World.start(tmp_path / "world") as world:
        asyncio.run(play(world))
        counts = world.files.summary()
    for kind, found in counts.items():
        assert found.duplicates == 0, (kind, found)
    assert sorted(found.objects for found in counts.values() if found.objects) == [INVOICES] * len(KINDS)
