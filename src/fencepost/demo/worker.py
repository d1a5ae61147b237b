"""One worker process of a demo: works on the example's runs, or on those of `payments`, until SIGTERM; then drains.

Ledger and services come from the environment, as for any user of the example. Being killed and started again is done
to it by `crew`.
"""

import asyncio
import logging
import signal
import sys

from fencepost.demo import example, leash, payments
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
    asyncio.run(work(payments.from_environment() if sys.argv[2:] == ["approvals"] else example.load().app))
