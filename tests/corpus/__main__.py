"""Stores the histories of this version: `python -m tests.corpus` makes the runs and writes a folder for the version.

A folder that is there is a release's word and is not written over; `--again` does so while a version is under way. Its
`SHA256SUMS` says what it held then, so that no stored history changes unseen. Each run lives in an app of its own under
a worker that works for nobody else. Replaying them is `test_corpus`'s matter.
"""

import argparse
import asyncio
import hashlib
import shutil
import sys
import tempfile
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fencepost
from fencepost import App, RunState
from fencepost.testing import dump_history
from tests.corpus.workflows import WORKFLOWS, Line

FOLDER = Path(__file__).parent / "histories"
ROOT = Path(__file__).parents[2]
SUMS = "SHA256SUMS"

LINE = Line(id="line-1", amount=Decimal("10.50"), due=datetime(2026, 3, 29, 2, 30, tzinfo=UTC))
ARGUMENTS: dict[str, list[Any]] = {"steps": [LINE], "turning": [0], "child": ["alone"]}
SIGNALS = {"races": "early"}
RESTING = frozenset(RunState) - {RunState.READY, RunState.RUNNING, RunState.CANCELLING, RunState.COMPENSATING}


async def lived(folder: Path) -> dict[str, str]:
    """Live a run of each workflow; the dumped histories by the names of their files."""
    found: dict[str, str] = {}
    async with App(f"sqlite:///{folder}/ledger.db", workflows=WORKFLOWS.values()) as app, app.worker():
        for name, declared in WORKFLOWS.items():
            await app.start(declared, *ARGUMENTS.get(name, []), id=f"corpus:{name}", on_behalf_of="ann")
            if name in SIGNALS:
                await app.signal(f"corpus:{name}", SIGNALS[name], "here")
            if name == "cancelled":
                await _rests(app, f"corpus:{name}", RunState.WAITING)
                await app.cancel(f"corpus:{name}", by="ann", reason="for the corpus")
            wanted = {RunState.WAITING} if name == "waiting" else RESTING - {RunState.WAITING}
            await _rests(app, f"corpus:{name}", *wanted)
            if name == "judging":
                await app.redecide("corpus:judging", by="ann", reason="for the corpus", override=True)
                await _rests(app, "corpus:judging", RunState.SUCCEEDED)
            found[name] = dump_history(await app.show(f"corpus:{name}"))
        first = app.store.turn(app.namespace, "corpus:turning", 0)
        assert first is not None, "it has three turns"
        found["turning, first turn"] = dump_history(app.store.load(first.no))
    return found


async def _rests(app: App, run_id: str, *states: RunState) -> None:
    async with asyncio.timeout(20):
        while (await app.show(run_id)).run.state not in states:  # noqa: ASYNC110 - a few runs, once a release
            await asyncio.sleep(0.01)


def sums(folder: Path) -> str:
    """The digest of each history in a version's folder, as `sha256sum --check` reads it there."""
    found = sorted(folder.glob("*.json"))
    return "".join(f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in found)


def main() -> int:
    """Write the folder of this version; 1 if it is there already."""
    parser = argparse.ArgumentParser(description="Store the histories of this version.")
    parser.add_argument("--again", action="store_true", help="write over the folder of a version that is under way")
    again = parser.parse_args().again
    folder = FOLDER / fencepost.__version__
    if folder.exists() and not again:
        sys.stderr.write(f"{folder} is there: released histories are kept (--again while the version is under way)\n")
        return 1
    with tempfile.TemporaryDirectory() as scratch:
        found = asyncio.run(lived(Path(scratch)))
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, text in found.items():
        # Tracebacks name files of the machine that made them.
        (folder / f"{name}.json").write_text(text.replace(f"{ROOT}/", ""), "utf-8")
    (folder / SUMS).write_text(sums(folder), "utf-8")
    sys.stdout.write(f"{len(found)} histories in {folder}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
