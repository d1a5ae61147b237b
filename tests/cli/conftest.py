"""What the tests of the command line share: calling it in this process, and having a worker live runs for a while."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from fencepost.cli.main import main
from fencepost.cli.target import app_for

FOLDER = Path(__file__).parent
SHOP = f"{FOLDER / 'shop.py'}:app"


@dataclass(frozen=True)
class Ended:
    """How a command ended: its exit code and what it wrote."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The JSON document that it wrote."""
        return json.loads(self.out)


Command = Callable[..., Ended]


@pytest.fixture
def fencepost(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    """Call the command line in this process."""
    for name in ("FENCEPOST_APP", "FENCEPOST_DB", "FENCEPOST_DEBUG", "FENCEPOST_MODEL_URL"):
        monkeypatch.delenv(name, raising=False)

    def call(*arguments: str) -> Ended:
        capsys.readouterr()
        code = main(arguments)
        written = capsys.readouterr()
        return Ended(int(code), written.out, written.err)

    return call


@pytest.fixture
def db(url: str) -> str:
    """The URL of a ledger that does not exist yet."""
    return url


@pytest.fixture
def started(fencepost: Command, db: str) -> Callable[..., str]:
    """Start a run of the shop; returns its id."""

    def start(workflow: str, value: Any, *, run: str = "run-1") -> str:
        ended = fencepost("start", SHOP, workflow, "--id", run, "--input", json.dumps(value), "--db", db)
        assert ended.code == 0, ended.err
        return run

    return start


@pytest.fixture
def lived(db: str) -> Callable[..., str]:
    """Have a worker of this process live a run until nothing more happens by itself; returns its state."""

    def live(run: str, *, until: tuple[str, ...] = ()) -> str:
        return asyncio.run(_live(db, run, until))

    return live


async def _live(db: str, run: str, until: tuple[str, ...]) -> str:
    app = app_for(SHOP, db, None)
    async with app, app.worker():
        async with asyncio.timeout(20):
            while True:
                state = (await app.show(run)).run.state.value
                moving = state in ("ready", "running", "compensating", "cancelling")
                if (state in until) if until else not moving:
                    return state
                await asyncio.sleep(0.01)
