"""Workflows that bring their own worker down, and such as merely run beside them.

What is played with them is in `test_lost_workers`; how often a body began is written down before it ends its process.
"""

import os
import signal
from pathlib import Path

from fencepost.core.contract import Retry
from fencepost.core.duration import MINUTE
from fencepost.effects.call import SyncCall
from fencepost.effects.declare import compute
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from tests.processes.stories import MEMORY, alpha, order


def deliveries(folder: Path, name: str) -> int:
    """How often a run's lethal step began."""
    file = folder / f"{name}.deliveries"
    return len(file.read_text("utf-8").splitlines()) if file.exists() else 0


@compute(name="die", retry=Retry(attempts=20, within=5 * MINUTE))
def die(call: SyncCall, name: str) -> str:
    """Ends its own process, every time."""
    with (Path(os.environ[MEMORY]) / f"{name}.deliveries").open("a", encoding="utf-8") as file:
        file.write("begun\n")
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"


@workflow()
async def poison(run: Run, name: str) -> str:
    return await run.do(die(name))


@workflow()
async def ordinary(run: Run, name: str) -> str:
    return (await run.do(alpha(order(name, "alpha")))).id


WORKFLOWS = [poison, ordinary]
