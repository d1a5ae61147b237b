"""A process that works on a job on many runs, and kills itself with SIGKILL at one of them.

    python -m tests.runtime.bulk_child URL COUNT "before"|"after"

It cancels every ready run, and dies right before or after the commit of number COUNT.
"""

import asyncio
import os
import signal
import sys

from fencepost.runtime.app import App
from fencepost.runtime.bulk import Selection


async def work(url: str, count: int, when: str) -> None:
    """Cancel the runs one after the other, until this process is killed."""
    commits = 0

    def kill_at_the_last(point: str) -> None:
        nonlocal commits
        commits += point == f"{when}:run:ready:cancel"
        if commits == count:
            os.kill(os.getpid(), signal.SIGKILL)

    async with App(url, workflows=[]) as app:
        app.store.probe = kill_at_the_last
        await app.bulk("cancel", Selection(state="ready"), by="ann", reason="all of them")


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1], int(sys.argv[2]), sys.argv[3]))
