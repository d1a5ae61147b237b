"""The process of the outside world: three services and the admin endpoint on one event loop, over one folder.

It runs until SIGTERM, SIGINT or, if it was told to, until whoever started it is gone. Nothing needs to be saved when it
ends, since every line is on the disk already. Starting it from Python is in `handle`, counting in `counts`.
"""

import asyncio
import fcntl
import json
import os
import signal
from collections.abc import Sequence
from pathlib import Path

from pydantic import BaseModel

from fencepost.core.errors import Misuse
from fencepost.testing.world import smtp, web, wire
from fencepost.testing.world.admin import Admin
from fencepost.testing.world.behaviour import Configure
from fencepost.testing.world.catalog import SERVICES
from fencepost.testing.world.conduct import Conduct
from fencepost.testing.world.faults import Holds
from fencepost.testing.world.service import Service


class Addresses(BaseModel):
    """Where the world listens: base URLs, and `host:port` of the mail server. Printed as one JSON line when ready."""

    pid: int
    tasks: str
    books: str
    mail: str
    mail_smtp: str
    admin: str


async def run(folder: Path, seed: int, settings: Sequence[Configure], *, with_parent: bool) -> None:
    """Serve until told to end; prints the addresses once every port listens.

    Raises `Misuse` if another world runs on the folder, and `ValueError` for a setting that no service has.
    """
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    if with_parent:
        # The parent holds the other end of our standard input; it closes when the parent dies, however it dies.
        loop.add_reader(0, ended.set)
    descriptor = _claim(folder)
    try:
        services = {name: Service(name, folder, seed) for name in SERVICES}
        holds = Holds()
        admin = Admin(services, holds)
        for change in settings:
            admin.configure(change)
        print(json.dumps((await _listen(services, holds, admin)).model_dump()), flush=True)  # noqa: T201  the contract
        await ended.wait()
    finally:
        os.close(descriptor)


async def _listen(services: dict[str, Service], holds: Holds, admin: Admin) -> Addresses:
    conducts = {name: Conduct(service, holds) for name, service in services.items()}
    ports = {name: await wire.listen(web.serve(web.ServiceSite(conduct))) for name, conduct in conducts.items()}
    smtp_port = await wire.listen(smtp.serve(conducts["mail"]))
    admin_port = await wire.listen(web.serve(admin))
    return Addresses(
        pid=os.getpid(),
        tasks=f"http://127.0.0.1:{ports['tasks']}",
        books=f"http://127.0.0.1:{ports['books']}",
        mail=f"http://127.0.0.1:{ports['mail']}",
        mail_smtp=f"127.0.0.1:{smtp_port}",
        admin=f"http://127.0.0.1:{admin_port}",
    )


def _claim(folder: Path) -> int:
    """Return the lock that keeps a second world off the folder; the kernel lets go of it when the process ends."""
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(folder / "world.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        hint = "end that process or choose another folder"
        raise Misuse("a world already runs on this folder", hint=hint, ids={"folder": str(folder)}) from error
    return descriptor
