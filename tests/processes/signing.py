"""A workflow that pays only with an approval, and a directory in files that says who still may.

Each question to the directory is written down before it is answered, so that it can be counted after a worker's death.
What is played with it is in `test_approvals`.
"""

import os
from pathlib import Path

from fencepost.core.approval import Approval, Right
from fencepost.effects.call import Call
from fencepost.effects.declare import read
from fencepost.runtime.run import Run
from fencepost.runtime.workflow import workflow
from tests.processes.stories import MEMORY, alpha, order


def asked(folder: Path) -> list[str]:
    """Whose rights were asked for, in order."""
    file = folder / "asked.txt"
    return file.read_text("utf-8").split() if file.exists() else []


def take_the_right(folder: Path, who: str) -> None:
    """From now on this person may not have anything done."""
    (folder / f"{who} may not").touch()


@read()
async def still_may(call: Call, right: Right) -> bool:
    """Ask the directory."""
    folder = Path(os.environ[MEMORY])
    with (folder / "asked.txt").open("a", encoding="utf-8") as file:
        file.write(f"{right.role}:{right.who}\n")
    return not (folder / f"{right.who} may not").exists()


@workflow()
async def signed(run: Run, name: str) -> str:
    call = alpha(order(name, "alpha"))
    answer = await run.wait("ok", Approval, allows=call, within="1h", authorise=still_may)
    return (await run.do(call, approval=answer)).id


WORKFLOWS = [signed]
