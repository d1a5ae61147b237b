"""One worker process of the demo: works on the example's runs until SIGTERM, then drains and ends.

Ledger and services come from the environment, as for any user of the example. Being killed and started again is done
to it by `crew`.
"""

import asyncio
import logging
import signal
import sys

from fencepost.demo import example, leash
from fencepost.runtime.app import App


async def work(app: App) -> None:
    """Work until told to end."""
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    async with app, app.worker():
        await ended.wait()


if __name__ == "__main__":
    leash.end_with(parent=int(sys.argv[1]))
    logging.basicConfig(format="%(asctime)s %(name)s %(message)s")
    asyncio.run(work(example.load().app))
